#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "base/error.h"

// OpenSSL's own types, so that its headers stay out of ours.
struct stack_st_X509;
struct x509_st;

namespace kintsugi::net {

/// What to do about certificates when the lists do not tell (SE-044, SE-141).
struct CrlRules {
  bool stale_is_refused = true;  ///< crl.stale: refuse; false: the old list counts on
  bool is_required = false;      ///< crl.required: an issuer without a list is not believed
  bool operator==(const CrlRules&) const = default;
};

/// Certificate revocation lists (RFC 5280), looked up after a chain was verified: OpenSSL's own
/// check refuses every certificate whose issuer has no list. Complete, direct lists only. Immutable
/// but for what is known of signatures. Threads: any. Size: 21 bytes per serial number.
class RevocationLists {
 public:
  /// @param pem     one or more X509 CRL blocks; 64 MiB at most.
  /// @param ca_pem  the authorities that the lists are for: a list in the name of one of them must
  ///                be signed by it. Lists of others are judged when a chain shows their issuer.
  /// @param now     [s since 1970]
  /// @error kConfig none or a broken block, a signature that does not hold, a list that is not in
  ///        force yet; delta and indirect lists and those of only some certificates or reasons.
  [[nodiscard]] static Expected<std::shared_ptr<const RevocationLists>> parse(
      std::string_view pem, std::string_view ca_pem, CrlRules rules, std::int64_t now);
  virtual ~RevocationLists() = default;

  struct Verdict {
    bool holds = true;
    std::int64_t until = INT64_MAX;  ///< the second from which on a list is out of its time
    std::string_view fault;          ///< when it does not hold
  };
  /// @param chain  verified, leaf first: every certificate but the last is looked up in the newest
  ///               list of the one behind it.
  /// Cost: O(log n) per certificate, and one signature check per list of an authority that was not
  /// known when the lists were parsed.
  [[nodiscard]] virtual Verdict judge(stack_st_X509* chain, std::int64_t now) const = 0;
  /// Serial numbers in all lists.
  [[nodiscard]] virtual std::size_t size() const noexcept = 0;
  /// The first end of a list [s since 1970]; INT64_MAX: none ends.
  [[nodiscard]] virtual std::int64_t ends_at() const noexcept = 0;
};

}  // namespace kintsugi::net
