#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <tl/expected.hpp>

namespace kintsugi::topology {

/// Why a cluster of the fleet is not reached as its hub says (GR-704).
enum class FleetReason : std::uint8_t {
  kNone,
  kNoProvider,      ///< none that the proxy has is in the profile
  kBadProfile,      ///< the object is too large, or lacks what it must have
  kBadName,         ///< it cannot be the name of a logical cluster
  kNameTaken,       ///< another cluster has it
  kBadServer,       ///< its URL is none that the proxy goes to
  kBadCertificate,  ///< a CA or client certificate cannot be used
  kNoSecret,        ///< the Secret that is named is not there
  kBadKubeconfig,   ///< the Secret's kubeconfig cannot be used, or must not
  kPluginFailed,    ///< the provider's program gave no credential
  kUnauthorized,    ///< the server does not know the credential
  kUnreachable,     ///< the server does not answer
  kTooMany,         ///< the fleet is larger than a proxy bears
};
inline constexpr std::size_t kFleetReasons = 13;
/// As rows and metrics say it ("NoProvider"); "" of kNone.
[[nodiscard]] std::string_view fleet_reason_name(FleetReason reason) noexcept;

struct FleetFault {
  FleetReason reason = FleetReason::kNone;
  std::string message;  ///< names field and value; no secret
  bool operator==(const FleetFault&) const = default;
};

/// What was read of an object, or what is wrong with it.
template <class T>
using Judged = tl::expected<T, FleetFault>;
[[nodiscard]] inline tl::unexpected<FleetFault> fault(FleetReason reason, std::string message) {
  return tl::unexpected<FleetFault>(FleetFault{reason, std::move(message)});
}

}  // namespace kintsugi::topology
