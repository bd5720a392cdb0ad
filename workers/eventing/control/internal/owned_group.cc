#include "workers/eventing/control/internal/owned_group.h"

#include <utility>

#include "base/strings.h"
#include "krm/merge_patch.h"
#include "krm/strict_time.h"
#include "workers/eventing/model/replicas.h"
#include "workers/runtime/status/finalizers.h"

namespace kintsugi::workers {
namespace {

using krm::Json;

constexpr std::string_view kUidLabel = "kafka.eventing.knative.dev/metadata.uid",
                           kKindOfOwnerLabel = "kafka.eventing.knative.dev/metadata.kind";

}  // namespace

Projection<CachedOwner> owner_projection(std::string_view finalizer) {
  Projection<CachedOwner> out;
  out.make = [finalizer = std::string(finalizer)](const shards::ObjectKey&, const Json& object) {
    CachedOwner owner;
    owner.uid = object.text({"metadata", "uid"});
    const Json* const generation = object.at({"metadata", "generation"});
    owner.generation = generation == nullptr ? 0 : generation->as_integer();
    const auto created = krm::parse_rfc3339(object.text({"metadata", "creationTimestamp"}));
    owner.created = created ? created->seconds : 0;
    owner.deleting = !object.text({"metadata", "deletionTimestamp"}).empty();
    owner.has_finalizer = has_finalizer(object, finalizer);
    owner.object = KeptJson(small_object(object, {"spec", "status"}, {"labels"}));
    return owner;
  };
  out.indexes.push_back({"uid", [](const shards::ObjectKey&, const CachedOwner& one,
                                   IndexValues& values) { values.add(one.uid); }});
  return out;
}

Json owned_group(const Resource& kind, std::string_view ns, std::string_view name,
                 std::string_view uid, GroupWish wish) {
  const std::string version = kind.group + "/" + kind.version;
  const Json labels = Json::object({{kUidLabel, uid}, {kKindOfOwnerLabel, to_lower(kind.kind)}});
  Json metadata = Json::object();
  metadata["name"] = uid;
  metadata["namespace"] = ns;
  metadata["labels"] = labels;
  if (!wish.policy.empty()) {
    metadata["annotations"] = Json::object({{kReplicasPolicyAnnotation, wish.policy}});
  }
  metadata["finalizers"] = Json::array({Json(kGroupFinalizer)});
  metadata["ownerReferences"] = Json::array({Json::object({{"apiVersion", version},
                                                           {"kind", kind.kind},
                                                           {"name", name},
                                                           {"uid", uid},
                                                           {"controller", true},
                                                           {"blockOwnerDeletion", true}})});
  Json spec = Json::object();
  spec["replicas"] = wish.replicas;
  spec["selector"] = labels;
  spec["topLevelResourceRef"] = Json::object({{"apiVersion", version},
                                              {"kind", kind.kind},
                                              {"namespace", ns},
                                              {"name", name},
                                              {"uid", uid}});
  spec["template"] = Json::object(
      {{"metadata", Json::object({{"labels", labels}})}, {"spec", std::move(wish.consumers)}});
  return Json::object({{"apiVersion", kConsumerGroups.group + "/" + kConsumerGroups.version},
                       {"kind", kConsumerGroups.kind},
                       {"metadata", std::move(metadata)},
                       {"spec", std::move(spec)}});
}

std::optional<std::string> group_patch(const Json& had, const Json& wish) {
  const Json* const found = had.find("spec");
  const Json before = found == nullptr ? Json::object() : *found;
  Json after = *wish.find("spec");
  // Defaults of the group's schema.
  Json& delivery = after["template"]["spec"]["delivery"];
  for (const auto& [key, value] :
       {std::pair("ordering", "unordered"), std::pair("initialOffset", "latest")}) {
    if (delivery.find(key) == nullptr) {
      delivery[key] = value;
    }
  }
  const auto policy_of = [](const Json& object) {
    return object.text({"metadata", "annotations", kReplicasPolicyAnnotation});
  };
  Json patch = Json::object();
  if (!same_status(before, after)) {
    patch["spec"] = krm::make_merge_patch(before, after);
  }
  if (const std::string_view policy = policy_of(wish); policy != policy_of(had)) {
    const Json value = policy.empty() ? Json() : Json(policy);
    patch["metadata"] =
        Json::object({{"annotations", Json::object({{kReplicasPolicyAnnotation, value}})}});
  }
  return patch.size() == 0 ? std::nullopt : std::optional(patch.dump());
}

Json status_of_group(const CachedGroup* group) {
  const Json object = group == nullptr ? Json() : group->object.value();
  const Json* const status = object.find("status");
  return status == nullptr ? Json::object() : *status;
}

Condition group_condition(std::string_view type, const CachedGroup* group, const Json& status,
                          std::int64_t generation) {
  Condition out{type, ConditionStatus::kUnknown, "BindInProgress", "", generation};
  if (group == nullptr) {
    out.reason = "NoConsumerGroup";
    out.message = "its ConsumerGroup is not there yet";
    return out;
  }
  const Json* const observed = status.find("observedGeneration");
  const Json* const ready = find_condition(status, "Ready");
  if (ready == nullptr || observed == nullptr || observed->as_integer() != group->generation) {
    out.message = "its ConsumerGroup has not been looked at since it was changed";
    return out;
  }
  out.status = ready->text({"status"}) == "True" ? ConditionStatus::kTrue : ConditionStatus::kFalse;
  out.reason = ready->text({"reason"});
  out.message = ready->text({"message"});
  return out;
}

Condition sink_condition(std::string_view type, std::string_view url, std::string_view trouble,
                         const Condition& group) {
  Condition out = group;
  out.type = type;
  if (!url.empty()) {
    out.status = ConditionStatus::kTrue;
    out.reason = type;
    out.message.clear();
  } else if (group.reason != trouble) {
    out.status = ConditionStatus::kUnknown;
  }
  return out;
}

bool is_group_passing(const CachedGroup& group) {
  const Json status = status_of_group(&group);
  const Condition said = group_condition("", &group, status, 0);
  return said.status != ConditionStatus::kTrue && said.reason == "BindInProgress";
}

}  // namespace kintsugi::workers
