#include "workers/eventing/control/internal/eventing_objects.h"

#include <utility>

#include "base/host_port.h"
#include "base/strings.h"
#include "krm/strict_time.h"
#include "workers/eventing/control/internal/group_entry.h"
#include "workers/runtime/status/finalizers.h"

namespace kintsugi::workers {

const Resource kConsumerGroups{"internal.kafka.eventing.knative.dev", "v1alpha1", "consumergroups",
                               "ConsumerGroup"};
const Resource kConsumers{"internal.kafka.eventing.knative.dev", "v1alpha1", "consumers",
                          "Consumer"};
const Resource kPods{"", "v1", "pods", "Pod"};
const Resource kStatefulSets{"apps", "v1", "statefulsets", "StatefulSet"};
const Resource kContractMaps{"", "v1", "configmaps", "ConfigMap"};

namespace {

using krm::Json;

constexpr std::string_view kUnschedulable = "eventing.knative.dev/unschedulable";
constexpr std::string_view kCapacity = "kafka.eventing.knative.dev/capacity";
constexpr std::string_view kZone = "topology.kubernetes.io/zone";
constexpr std::int64_t kStatusPort = 8'085;
constexpr std::string_view kContractVolume = "contract-resources";

std::int64_t generation_of(const Json& object) {
  const Json* const value = object.at({"metadata", "generation"});
  return value == nullptr ? 0 : value->as_integer();
}

bool is_deleting(const Json& object) {
  return !object.text({"metadata", "deletionTimestamp"}).empty();
}

std::string contract_of_pod(const Json& object) {
  if (const Json* const volumes = object.at({"spec", "volumes"})) {
    for (const Json& volume : volumes->items()) {
      const std::string_view name = volume.text({"configMap", "name"});
      if (volume.text({"name"}) == kContractVolume && !name.empty()) {
        return std::string(name);
      }
    }
  }
  return std::string(object.text({"metadata", "name"}));
}

std::string status_url_of_pod(const Json& object) {
  const std::string_view address = object.text({"status", "podIP"});
  if (address.empty()) {
    return {};
  }
  std::int64_t port = kStatusPort;
  if (const Json* const containers = object.at({"spec", "containers"})) {
    for (const Json& container : containers->items()) {
      if (const Json* const ports = container.find("ports")) {
        for (const Json& one : ports->items()) {
          const Json* const number = one.find("containerPort");
          port = one.text({"name"}) == "status" && number != nullptr ? number->as_integer() : port;
        }
      }
    }
  }
  return port < 1 || port > 65'535
             ? std::string()
             : "http://" + host_port(address, static_cast<std::uint16_t>(port));
}

}  // namespace

Json small_object(const Json& object, std::initializer_list<std::string_view> parts,
                  std::initializer_list<std::string_view> more_metadata) {
  Json out = Json::object();
  Json& metadata = out["metadata"];
  metadata = Json::object();
  const auto keep = [&](std::initializer_list<std::string_view> keys) {
    for (const std::string_view key : keys) {
      if (const Json* const value = object.at({"metadata", key})) {
        metadata[key] = *value;
      }
    }
  };
  keep({"uid", "resourceVersion", "finalizers", "deletionTimestamp", "annotations"});
  keep(more_metadata);
  for (const std::string_view part : parts) {
    if (const Json* const value = object.find(part)) {
      out[part] = *value;
    }
  }
  return out;
}

Projection<CachedGroup> group_projection() {
  Projection<CachedGroup> out;
  out.make = [](const shards::ObjectKey&, const Json& object) {
    CachedGroup group;
    group.resource_version = object.text({"metadata", "resourceVersion"});
    group.pool = pool_of_group(object);
    group.generation = generation_of(object);
    const auto created = krm::parse_rfc3339(object.text({"metadata", "creationTimestamp"}));
    group.created = created ? created->seconds : 0;
    group.deleting = is_deleting(object);
    group.has_finalizer = has_finalizer(object, kGroupFinalizer);
    group.object = KeptJson(small_object(object, {"spec", "status"}));
    return group;
  };
  return out;
}

Projection<CachedConsumer> consumer_projection() {
  Projection<CachedConsumer> out;
  out.make = [](const shards::ObjectKey& key, const Json& object) {
    CachedConsumer consumer;
    if (const Json* const owners = object.at({"metadata", "ownerReferences"})) {
      for (const Json& owner : owners->items()) {
        if (owner.text({"kind"}) == kConsumerGroups.kind) {
          consumer.group = seen_key(key.cluster, key.ns, owner.text({"name"}));
        }
      }
    }
    consumer.pod = object.text({"spec", "podBind", "podName"});
    consumer.generation = generation_of(object);
    consumer.deleting = is_deleting(object);
    consumer.has_finalizer = has_finalizer(object, kConsumerFinalizer);
    consumer.object = KeptJson(small_object(object, {"spec", "status"}));
    return consumer;
  };
  out.indexes.push_back({"group", [](const shards::ObjectKey&, const CachedConsumer& one,
                                     IndexValues& values) { values.add(one.group); }});
  return out;
}

Projection<CachedPod> pod_projection() {
  Projection<CachedPod> out;
  out.make = [](const shards::ObjectKey& key, const Json& object) {
    CachedPod cached;
    cached.pod.name = object.text({"metadata", "name"});
    cached.pod.zone = object.text({"metadata", "labels", kZone});
    cached.pod.bound = !object.text({"spec", "nodeName"}).empty();
    cached.pod.deleting = is_deleting(object);
    cached.pod.cordoned = object.text({"metadata", "annotations", kUnschedulable}) == "true";
    if (const std::string_view text = object.text({"metadata", "annotations", kCapacity});
        !text.empty()) {
      cached.pod.capacity = parse_decimal<std::int64_t>(text).value_or(0);
    }
    cached.uid = object.text({"metadata", "uid"});
    cached.contract = contract_of_pod(object);
    cached.status_url = status_url_of_pod(object);
    const Json none = Json::object();
    const Json* const found = object.at({"metadata", "annotations"});
    const Json& annotations = found == nullptr ? none : *found;
    for (const krm::JsonMember& one : annotations.members()) {
      cached.has_seen = cached.has_seen || one.key.starts_with(kSeenAnnotation);
    }
    cached.seen = read_seen(annotations, key.cluster);
    cached.volume_generation =
        parse_decimal<std::uint64_t>(annotations.text({kVolumeGenerationAnnotation})).value_or(0);
    cached.annotations = KeptJson(annotations);
    return cached;
  };
  return out;
}

Projection<CachedSet> set_projection() {
  Projection<CachedSet> out;
  out.make = [](const shards::ObjectKey&, const Json& object) {
    CachedSet cached;
    cached.resource_version = object.text({"metadata", "resourceVersion"});
    const Json* const replicas = object.at({"spec", "replicas"});
    cached.replicas = replicas == nullptr ? 1 : replicas->as_integer();
    return cached;
  };
  return out;
}

Projection<CachedMap> map_projection() {
  Projection<CachedMap> out;
  out.make = [](const shards::ObjectKey&, const Json& object) {
    CachedMap cached;
    cached.resource_version = object.text({"metadata", "resourceVersion"});
    cached.epoch =
        parse_decimal<std::uint64_t>(object.text({"metadata", "annotations", kEpochAnnotation}))
            .value_or(0);
    cached.data = base64_decode(object.text({"binaryData", "data"})).value_or("");
    return cached;
  };
  return out;
}

}  // namespace kintsugi::workers
