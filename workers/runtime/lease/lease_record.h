#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/time.h"
#include "krm/json.h"

namespace kintsugi::workers {

/// Namespace of all Leases and ring ConfigMaps of a unit's lease cluster. Source: RT-50.
inline constexpr std::string_view kLeaseNamespace = "kintsugi-system";
/// Largest epoch of a Lease: spec.leaseTransitions is an int32.
inline constexpr std::int64_t kMaxLeaseEpoch = 2'147'483'647;
/// A longer duration in somebody's record counts as this.
inline constexpr Duration kMaxLeaseDuration = seconds(3'600);

/// A Lease as it was read. Times of its text are never compared with a clock (RT-52), only for
/// equality. Lifetime: owns all it shows. Threads: as an int.
struct LeaseRecord {
  std::string name;
  std::string uid;
  std::string rv;
  std::string holder;            ///< "": released
  std::int64_t duration_s = 0;   ///< as written; 0 or below is bad input
  std::int64_t transitions = 0;  ///< as written; below 0 is bad input
  std::string acquire_time;
  std::string renew_time;
  std::vector<std::pair<std::string, std::string>> annotations;  ///< sorted by key

  /// Value of an annotation, "" when absent.
  [[nodiscard]] std::string_view annotation(std::string_view key) const noexcept;
  /// Nothing was written between the two readings.
  [[nodiscard]] bool same_writing(const LeaseRecord& other) const noexcept;
  /// How long it must stand unchanged before its holder is believed dead [ns]: its own duration,
  /// at most an hour; `configured` for one with negative transitions or without a duration
  /// (section 18).
  [[nodiscard]] Duration patience(Duration configured) const noexcept;
};

/// Reads a coordination.k8s.io/v1 Lease. Absent spec fields are "" and 0.
/// @error kInvalid  no object, other kind, name, uid or resourceVersion missing, or a spec field of
///                  a wrong type.
[[nodiscard]] Expected<LeaseRecord> parse_lease(const krm::Json& object);
/// @error kBadRequest  no JSON, or deeper than 256; else as above.
[[nodiscard]] Expected<LeaseRecord> parse_lease(std::string_view text);

/// What a Lease shall become; lease_body() makes the request's body of it.
struct LeaseWrite {
  std::string name;
  std::string rv;   ///< precondition of an update; "": the body of a create
  std::string uid;  ///< as read; "" in a create
  std::string holder;
  std::int64_t duration_s = 0;
  std::int64_t transitions = 0;
  bool acquisition = false;  ///< acquireTime becomes now, else it is kept
  std::string acquire_time;  ///< what is kept
  std::vector<std::pair<std::string, std::string>> annotations;  ///< all of them
};

/// The whole Lease. @param unix_us  wall clock, microseconds since 1970: for people only.
[[nodiscard]] krm::Json lease_body(const LeaseWrite& write, std::int64_t unix_us);

/// Identity of one process (RT-53): "<host>-<pid>-<32 hex digits>", a valid part of an object name:
/// the host in lower case, everything but letters and digits a dash, at most 63 characters.
/// @param random  16 bytes from a good source.
/// @error kInvalid  another number of bytes.
[[nodiscard]] Expected<std::string> lease_identity(std::string_view host, std::int64_t pid,
                                                   std::string_view random);

}  // namespace kintsugi::workers
