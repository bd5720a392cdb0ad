#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "topology/fleet/fleet.h"

namespace kintsugi::topology {

/// One object of the hub, and what became of it.
struct Fleet::Member {
  std::string key;
  FleetList list = FleetList::kProfiles;
  std::string uid;
  FleetObject object;
  std::optional<FleetFault> unreadable;  ///< instead of a new object
  std::string name;                      ///< "": none could be given
  std::string provider;
  FleetFault fault;
  bool tried = false;

  // A provider's program.
  FleetExec question;
  std::optional<FleetCredential> credential;
  std::uint64_t asking = 0;  ///< its turn; 0: nothing runs
  TimePoint ask_at{}, renew_at = TimePoint::max();

  // A way that is tried.
  std::shared_ptr<const FleetAccess> candidate;
  std::uint64_t probing = 0;
  TimePoint probe_at{};
  bool wants_probe = false;
  unsigned failures = 0;  ///< in a row

  // In the topology.
  bool joined = false;
  std::shared_ptr<const FleetAccess> access;
  std::uint64_t access_number = 0;
  TimePoint leave_at = TimePoint::max();
};

/// "<namespace>/<name>".
[[nodiscard]] inline std::string place_of(std::string_view ns, std::string_view name) {
  return std::string(ns) + "/" + std::string(name);
}
[[nodiscard]] inline std::string place_of(const krm::Json& object) {
  return place_of(object.text({"metadata", "namespace"}), object.text({"metadata", "name"}));
}
/// Key of a member that a Secret makes.
inline constexpr std::string_view kSecretPrefix = "secret ";
[[nodiscard]] inline std::string secret_key(std::string_view place) {
  return std::string(kSecretPrefix).append(place);
}

}  // namespace kintsugi::topology
