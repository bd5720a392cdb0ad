#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "krm/json.h"

namespace kintsugi::krm {

/// HTTP status code of an error (detail().http_status wins).
[[nodiscard]] int http_status(const Error& error) noexcept;

/// Seconds for `Retry-After`, 0 for none; always what details.retryAfterSeconds of to_status says.
[[nodiscard]] int retry_after_seconds(const Error& error) noexcept;

/// The only place that turns a failure into a Kubernetes Status object
/// (AM-011). Transport and store causes become what a client can act on:
/// kRefused, kUnreachable, kOverloaded -> 503 ServiceUnavailable; kCompacted -> 410 Expired;
/// kFutureRevision -> 504 Timeout; kIo, kFull -> 500 ServerTimeout; …
[[nodiscard]] Json to_status(const Error& error);

// The catalogue of AM-001 to AM-035, as constructors. `group` "" is core.
[[nodiscard]] Error not_found(std::string_view group, std::string_view resource,
                              std::string_view name);
[[nodiscard]] Error path_not_found();  ///< AM-002
[[nodiscard]] Error already_exists(std::string_view group, std::string_view resource,
                                   std::string_view name);
[[nodiscard]] Error conflict(
    std::string_view group, std::string_view resource, std::string_view name,
    std::string_view reason);  ///< "Operation cannot be fulfilled on …: <reason>"
[[nodiscard]] Error modified(std::string_view group, std::string_view resource,
                             std::string_view name);  ///< AM-007
[[nodiscard]] Error invalid(std::string_view group, std::string_view kind, std::string_view name,
                            std::vector<Cause> causes);  ///< 2.1 rule 5
[[nodiscard]] Error forbidden(std::string_view group, std::string_view resource,
                              std::string_view name,
                              std::string_view reason);  ///< AM-020
[[nodiscard]] Error bad_request(std::string message);
[[nodiscard]] Error method_not_allowed();  ///< AM-021
[[nodiscard]] Error wildcard_not_allowed(std::string_view verb,
                                         std::string_view qualified_resource);  ///< AM-022
[[nodiscard]] Error unauthorized();
[[nodiscard]] Error internal(std::string_view cause);  ///< AM-032
/// 500 with the message and the code alone: what Kubernetes sends when an error of no API kind
/// reaches its handlers, also for some faults of the request (docs/errors.md).
[[nodiscard]] Error unclassified(std::string message);
[[nodiscard]] Error unavailable(std::string message, int retry_after_seconds);
[[nodiscard]] Error invalid_patch();  ///< AM-012
/// 500 with retryAfterSeconds: the store is briefly unable. @param operation create, get, …
/// (AM-033)
[[nodiscard]] Error store_fault(std::string_view operation, std::string_view group,
                                std::string_view resource);

// Faults of a body.
/// 400 `ConfigMap in version "v1" cannot be handled as a ConfigMap: <cause>` (AM-138, AM-142).
[[nodiscard]] Error decode_error(std::string_view kind, std::string_view version,
                                 std::string_view cause);
/// 400 `the object provided is unrecognized (must be of type ConfigMap): <cause> (<body's first
/// bytes>)` (AM-139, AM-141): text when it looks like JSON, else hex, `<empty>` for no body.
[[nodiscard]] Error unrecognized_error(std::string_view kind, std::string_view cause,
                                       std::string_view body);

// Causes of kInvalid (AM-011): FieldValueRequired and so on. `value` is printed as JSON.
[[nodiscard]] Cause field_required(std::string field, std::string_view detail = {});
[[nodiscard]] Cause field_invalid(std::string field, const Json& value, std::string_view detail);
[[nodiscard]] Cause field_not_supported(std::string field, const Json& value,
                                        const std::vector<std::string>& supported);
[[nodiscard]] Cause field_duplicate(std::string field, const Json& value);
[[nodiscard]] Cause field_forbidden(std::string field, std::string_view detail);
[[nodiscard]] Cause field_too_long(std::string field, std::size_t limit);
[[nodiscard]] Cause field_too_many(std::string field, std::size_t actual, std::size_t limit);
[[nodiscard]] Cause field_type_invalid(std::string field, std::string_view expected,
                                       const Json& value);

}  // namespace kintsugi::krm
