#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include "krm/json.h"
#include "workers/eventing/model/pod_annotation.h"
#include "workers/eventing/scheduling/pool_scheduler.h"
#include "workers/runtime/reflector/object_cache.h"
#include "workers/runtime/status/kept_json.h"
#include "workers/runtime/unit/unit.h"

namespace kintsugi::workers {

// What is kept of each object that the role looks at. Threads: any.

/// A ConsumerGroup.
struct CachedGroup {
  std::string resource_version;
  std::string_view pool;  ///< pool_of_group()
  std::int64_t generation = 0;
  std::int64_t created = 0;  ///< seconds since 1970
  bool deleting = false, has_finalizer = false;
  KeptJson object;  ///< of the metadata what patches need, spec, status
};

/// A Consumer.
struct CachedConsumer {
  std::string group;  ///< "<cluster>|<namespace>/<name>" of its owner
  std::string pod;
  std::int64_t generation = 0;
  bool deleting = false, has_finalizer = false;
  KeptJson object;  ///< of the metadata what patches need, spec, status
};

/// A dispatcher pod.
struct CachedPod {
  DispatcherPod pod;
  std::string uid;
  std::string contract;  ///< name of the ConfigMap that it reads
  /// "http://<podIP>:<port>": port `status` of its containers, or 8085; "": it has no address.
  std::string status_url;
  bool has_seen = false;
  SeenDecisions seen;
  std::uint64_t volume_generation = 0;
  KeptJson annotations;
};

/// A dispatcher StatefulSet.
struct CachedSet {
  std::string resource_version;
  std::int64_t replicas = 0;
};

/// A contract's ConfigMap.
struct CachedMap {
  std::string resource_version;
  std::uint64_t epoch = 0;  ///< of its annotation
  std::string data;         ///< the contract
};

extern const Resource kConsumerGroups, kConsumers, kPods, kStatefulSets, kContractMaps;
inline constexpr std::string_view kGroupFinalizer =
    "consumergroups.internal.kafka.eventing.knative.dev";
inline constexpr std::string_view kConsumerFinalizer =
    "consumers.internal.kafka.eventing.knative.dev";
inline constexpr std::string_view kEpochAnnotation = "kintsugi.dev/epoch";
/// Label of contracts, with this value.
inline constexpr std::string_view kKindLabel = "app.kubernetes.io/kind";
inline constexpr std::string_view kContractKind = "kafka-dispatcher-contract";

/// What patches and readers need of an object: these members, and of its metadata what patches
/// need and `more_metadata`.
[[nodiscard]] krm::Json small_object(const krm::Json& object,
                                     std::initializer_list<std::string_view> parts,
                                     std::initializer_list<std::string_view> more_metadata = {});

[[nodiscard]] Projection<CachedGroup> group_projection();
/// With one index: CachedConsumer::group.
[[nodiscard]] Projection<CachedConsumer> consumer_projection();
[[nodiscard]] Projection<CachedPod> pod_projection();
[[nodiscard]] Projection<CachedSet> set_projection();
[[nodiscard]] Projection<CachedMap> map_projection();

/// The object of a cache; nullptr: there is none, as far as is known.
template <class T>
[[nodiscard]] const T* find_in(const ObjectCache<T>& cache, std::string_view cluster,
                               std::string_view ns, std::string_view name) {
  const Expected<const T*> found = cache.find({cluster, ns, name});
  return found ? *found : nullptr;
}

}  // namespace kintsugi::workers
