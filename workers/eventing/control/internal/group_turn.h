#pragma once

#include <functional>
#include <optional>
#include <string>

#include "krm/json.h"
#include "workers/eventing/control/eventing_site.h"
#include "workers/eventing/model/placeable.h"
#include "workers/runtime/status/fault_rules.h"

namespace kintsugi::workers {

/// The next write of a turn, or how the turn ends.
struct GroupWrite {
  std::optional<ApiWrite> write;
  RequestKind kind = RequestKind::kUpdate;
  std::function<void(const ApiAnswer&)> then;  ///< with whatever the answer is
  Outcome outcome;                             ///< without a write
};

/// What one look at a group finds.
struct GroupTurn {
  Key key;
  std::string text;  ///< seen_key()
  DispatcherPool* pool = nullptr;
  PooledGroup* group = nullptr;
  std::string resource_version;
  std::int64_t generation = 0, created = 0;
  bool deleting = false;
  krm::Json object, status;
  Placeable stored;  ///< of the status
  std::optional<EffectiveReplicas> effective;
  std::string invalid;                ///< the wish names its key
  const KafkaFacts* facts = nullptr;  ///< nullptr: not asked, or no answer yet
  bool waits_for_kafka = false;       ///< and is placed nowhere
  std::optional<GroupPlace> place;    ///< nullopt: the scheduler does not know it
  std::optional<Duration> look_again{};
  bool passing = false;  ///< its pods have not all seen its placement, and no fault keeps them
};

/// Ends the turn.
[[nodiscard]] GroupWrite ended(Outcome outcome);
[[nodiscard]] ApiWrite patch_of(std::string path, std::string body, std::string_view type,
                                WriteKind kind);

/// Objects of a group's namespace.
[[nodiscard]] std::string group_path(const Key& key);
[[nodiscard]] std::string consumers_path(const Key& key);
/// "<group>-<pod>"; of longer ones the end is a digest.
[[nodiscard]] std::string consumer_name(std::string_view group, std::string_view pod);
/// The Consumer of a group on a pod. @param object  the group's
[[nodiscard]] krm::Json consumer_of(const Key& group, const krm::Json& object, const Placed& placed,
                                    std::string_view pod_namespace);

}  // namespace kintsugi::workers
