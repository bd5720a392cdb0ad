#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "apiserver/server.h"
#include "controlplane/clusters/server_facts.h"
#include "controlplane/views/view_resolver.h"

namespace kintsugi::controlplane {

/// Facts of this name say what a proxy told of Partitions (KK-201): `{source, selector}` by cluster
/// and name of the Partition; without selector it selects all shards.
inline constexpr std::string_view kPartitionFacts = "partitions";

/// Where a proxy says what a Partition selects that a ClusterCachedResourceEndpointSlice of this
/// shard names: POST of partitionnotes below /services/partitions/<cluster>/clusters/<cluster>, by
/// the certificate of a proxy alone. Nothing can be read there. A note of a Partition that no slice
/// of the logical cluster names is 404, so that not more is stored than slices need. `gone` takes
/// back what the same source has told, of no other one. Threads: one loop.
class PartitionView {
 public:
  /// @param facts  outlives it, and so do all calls into the view.
  explicit PartitionView(ServerFacts& facts);
  ~PartitionView();
  PartitionView(const PartitionView&) = delete;
  PartitionView& operator=(const PartitionView&) = delete;
  [[nodiscard]] Expected<std::optional<apiserver::ClusterTarget>> resolve(
      const ViewRequest& request);

 private:
  class One;
  std::shared_ptr<One> view_;
};

/// What is stored because of a note, beside what there is: the note of another source about a
/// Partition that exists replaces what there is. Pure.
struct NoteOutcome {
  bool writes = false;
  std::optional<krm::Json> fact;  ///< nullopt and `writes`: erased
};
[[nodiscard]] NoteOutcome judge_note(const krm::Json& spec, const std::optional<krm::Json>& before);

}  // namespace kintsugi::controlplane
