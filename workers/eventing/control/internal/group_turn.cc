#include "workers/eventing/control/internal/group_turn.h"

#include <utility>

#include "base/digest.h"
#include "krm/path_prefixes.h"

namespace kintsugi::workers {
namespace {

using krm::Json;

constexpr std::size_t kMostName = 253, kDigest = 16;

std::string below(const Key& key, const Resource& resource) {
  return krm::cluster_root(key.cluster)
      .append(resource.base())
      .append("/namespaces/")
      .append(key.ns)
      .append("/")
      .append(resource.name);
}

}  // namespace

GroupWrite ended(Outcome outcome) {
  GroupWrite out;
  out.outcome = outcome;
  return out;
}

ApiWrite patch_of(std::string path, std::string body, std::string_view type, WriteKind kind) {
  ApiWrite write;
  write.method = "PATCH";
  write.path = std::move(path);
  write.body = std::move(body);
  write.content_type = type;
  write.kind = kind;
  return write;
}

std::string group_path(const Key& key) {
  return below(key, kConsumerGroups).append("/").append(key.name);
}
std::string consumers_path(const Key& key) { return below(key, kConsumers); }

std::string consumer_name(std::string_view group, std::string_view pod) {
  std::string out = std::string(group).append("-").append(pod);
  if (out.size() > kMostName) {
    const std::string digest = sha256_hex(out).substr(0, kDigest);
    out.resize(kMostName - kDigest - 1);
    out.append("-").append(digest);
  }
  return out;
}

Json consumer_of(const Key& group, const Json& object, const Placed& placed,
                 std::string_view pod_namespace) {
  Json metadata = Json::object();
  if (const Json* const labels = object.at({"spec", "template", "metadata", "labels"})) {
    metadata["labels"] = *labels;
  }
  if (const Json* const more = object.at({"spec", "template", "metadata", "annotations"})) {
    metadata["annotations"] = *more;
  }
  metadata["name"] = consumer_name(group.name, placed.host);
  metadata["namespace"] = group.ns;
  metadata["finalizers"] = Json::array({Json(kConsumerFinalizer)});
  metadata["ownerReferences"] = Json::array(
      {Json::object({{"apiVersion", kConsumerGroups.group + "/" + kConsumerGroups.version},
                     {"kind", kConsumerGroups.kind},
                     {"name", group.name},
                     {"uid", object.text({"metadata", "uid"})},
                     {"controller", true},
                     {"blockOwnerDeletion", true}})});
  const Json* const spec = object.at({"spec", "template", "spec"});
  Json consumer = spec == nullptr ? Json::object() : *spec;
  consumer["vReplicas"] = placed.n;
  consumer["podBind"] = Json::object({{"podName", placed.host}, {"podNamespace", pod_namespace}});
  return Json::object({{"apiVersion", kConsumerGroups.group + "/" + kConsumerGroups.version},
                       {"kind", kConsumers.kind},
                       {"metadata", std::move(metadata)},
                       {"spec", std::move(consumer)}});
}

}  // namespace kintsugi::workers
