#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "krm/json.h"
#include "workers/messaging/model/objects.h"

namespace kintsugi::workers {

// What leads clients from outside to the routers of an infra that operators make: a Service of the
// infra's namespace, and an Ingress or Route in front of it. Functions of their inputs alone: the
// same endpoint gives the same bytes. Source: section 3.5, MS-068, MS-069. Threads: any.

struct EndpointResourceInput {
  const MessagingEndpoint* endpoint = nullptr;
  const MessagingInfra* infra = nullptr;
  std::string_view space_id;
  std::string_view host;  ///< that clients use
  /// Ports of its own listeners; none: the routers' listener for all tenants.
  std::vector<std::pair<Protocol, std::int64_t>> listeners;
};
/// "<endpoint>-<13 letters of a hash>", the same for ever: a DNS label.
[[nodiscard]] std::string endpoint_resource_name(const MessagingEndpoint& endpoint);
/// Service first, then Ingress or Route.
[[nodiscard]] std::vector<krm::Json> endpoint_resources(const EndpointResourceInput& input);
/// What it is called in paths and in status.resources: "/api/v1|services", …; by kind.
struct ResourcePlace {
  std::string_view kind, base, plural;
};
/// Null for a kind that is none of them.
[[nodiscard]] const ResourcePlace* resource_place(std::string_view kind) noexcept;

/// "Service/a-x", "Ingress/a-x", in their order: what a status says was written.
[[nodiscard]] std::vector<std::string> resource_texts(const std::vector<krm::Json>& resources);
[[nodiscard]] std::vector<std::string> recorded_resources(const krm::Json& status);
void record_resources(krm::Json& status, const std::vector<std::string>& texts);
/// Those of `before` that are not in `now`.
[[nodiscard]] std::vector<std::string> left_over(const std::vector<std::string>& before,
                                                 const std::vector<std::string>& now);

}  // namespace kintsugi::workers
