#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "net/address_rules.h"
#include "net/internal/dialer.h"

namespace kintsugi::net {

/// An address that a request for a tenant may go to. Only OutgoingJudge makes them, and only they
/// are dialled (SE-103).
class JudgedAddress {
 public:
  [[nodiscard]] std::uint16_t port() const noexcept { return port_; }
  /// "203.0.113.7", "2001:db8::1".
  [[nodiscard]] std::string text() const { return ip_text(ip_); }
  bool operator==(const JudgedAddress&) const = default;

 private:
  friend class OutgoingJudge;
  JudgedAddress(const IpBytes& ip, std::uint16_t port) : ip_(ip), port_(port) {}
  IpBytes ip_{};
  std::uint16_t port_ = 0;
};

/// A URL that may be followed as far as its text tells.
struct OutgoingTarget {
  std::string host;  ///< lower case, without brackets; a name, or a literal
  std::uint16_t port = 443;
  std::string path;            ///< path and query, at least "/"
  std::string authority;       ///< for the request's head
  bool is_literal = false;     ///< `host` is an IP address
  bool needs_allowed = false;  ///< the port is no usual one: only for what is expressly allowed
};

/// Judges URLs of tenants and what their names resolve to. Source: SE-104, SE-105, SE-106. Pure but
/// for `own`. Threads: any; immutable.
class OutgoingJudge {
 public:
  /// @param own  addresses that are denied besides; null: none.
  /// @error kConfig what is wrong with the rules.
  [[nodiscard]] static Expected<std::shared_ptr<const OutgoingJudge>> make(
      const OutgoingRules& rules, std::shared_ptr<OwnAddresses> own = nullptr);

  /// @error kForbidden with the cause, for logs.
  [[nodiscard]] Expected<OutgoingTarget> judge_url(std::string_view url) const;
  /// The answers of one resolution, in their order: one that is denied refuses all of them.
  /// @error kForbidden with the cause, for logs; kUnreachable none were given.
  [[nodiscard]] Expected<std::vector<JudgedAddress>> judge_answers(
      const OutgoingTarget& target, const std::vector<SocketAddress>& answers) const;
  /// The address of a target that is a literal.
  [[nodiscard]] Expected<std::vector<JudgedAddress>> judge_literal(
      const OutgoingTarget& target) const;

 private:
  OutgoingJudge() = default;
  [[nodiscard]] Expected<JudgedAddress> judge(const OutgoingTarget& target,
                                              const IpBytes& ip) const;

  AddressList allow_, deny_;
  std::vector<std::uint16_t> ports_;
  std::shared_ptr<OwnAddresses> own_;
};

}  // namespace kintsugi::net
