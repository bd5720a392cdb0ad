#include "workers/messaging/control/internal/kinds.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "krm/path_prefixes.h"

namespace kintsugi::workers {

namespace {

const std::array<Resource, kMessagingKinds> kResources{{
    {"admin.enmasse.io", "v1beta1", "messaginginfras", "MessagingInfra"},
    {"admin.enmasse.io", "v1beta2", "addressspaceplans", "AddressSpacePlan"},
    {"enmasse.io", "v1beta2", "messagingplans", "MessagingPlan"},
    {"admin.enmasse.io", "v1beta2", "addressplans", "AddressPlan"},
    {"enmasse.io", "v1beta2", "messagingaddressplans", "MessagingAddressPlan"},
    {"enmasse.io", "v1beta1", "addressspaces", "AddressSpace"},
    {"enmasse.io", "v1beta2", "messagingtenants", "MessagingTenant"},
    {"enmasse.io", "v1", "messagingprojects", "MessagingProject"},
    {"enmasse.io", "v1beta1", "addresses", "Address"},
    {"enmasse.io", "v1beta2", "messagingaddresses", "MessagingAddress"},
    {"enmasse.io", "v1beta2", "messagingendpoints", "MessagingEndpoint"},
    {"enmasse.io", "v1beta2", "messagingconnectors", "MessagingConnector"},
    {"", "v1", "namespaces", "Namespace"},
}};

}  // namespace

const Resource& resource_of(MessagingKind kind) noexcept {
  return kResources[static_cast<std::size_t>(kind)];
}

std::string controller_name(MessagingKind kind) {
  std::string name = resource_of(kind).kind;
  std::transform(name.begin(), name.end(), name.begin(), [](char c) {
    return static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  });
  return name;
}

std::string object_path(MessagingKind kind, const QueueKey& key, std::string_view subresource) {
  const Resource& resource = resource_of(kind);
  std::string path = krm::cluster_root(key.cluster) + resource.base();
  if (!key.ns.empty()) {
    path.append("/namespaces/").append(key.ns);
  }
  return path.append("/").append(resource.name).append("/").append(key.name).append(subresource);
}

}  // namespace kintsugi::workers
