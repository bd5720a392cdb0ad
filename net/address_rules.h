#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "net/internal/dialer.h"

namespace kintsugi::net {

/// An IP address, IPv4 as ::ffff:a.b.c.d.
using IpBytes = std::array<std::uint8_t, 16>;

/// nullopt: neither IPv4 nor IPv6.
[[nodiscard]] std::optional<IpBytes> ip_of(const SocketAddress& address) noexcept;
/// Of a text in the one form that inet_ntop writes ("127.0.0.1", "fe80::1"); no zone, no octal, no
/// hexadecimal, no leading zeros, no upper case.
[[nodiscard]] std::optional<IpBytes> canonical_ip(std::string_view text) noexcept;
/// In the form that canonical_ip reads; IPv4 as IPv4.
[[nodiscard]] std::string ip_text(const IpBytes& ip);
/// The IPv4 address that an IPv6 address stands for (SE-106): ::/96, ::ffff:0:0/96, 64:ff9b::/96,
/// 2002::/16; as ::ffff:a.b.c.d. nullopt: none.
[[nodiscard]] std::optional<IpBytes> embedded_ipv4(const IpBytes& ip) noexcept;

/// "10.0.0.0/8", "fd00::/8", or one address.
struct AddressRange {
  IpBytes base{};
  unsigned bits = 128;  ///< of `base`; those of an IPv4 range and 96
  /// nullopt: not canonical, or bits are set behind the prefix.
  [[nodiscard]] static std::optional<AddressRange> parse(std::string_view text);
  [[nodiscard]] bool contains(const IpBytes& ip) const noexcept;
};

/// What tenants' objects may make the process talk to. Source: SE-104, SE-106, SE-109.
struct OutgoingRules {
  std::vector<std::string> allow;  ///< ranges, addresses, host names; they may use every port
  std::vector<std::string> deny;   ///< the same; win over `allow`
  std::vector<std::uint16_t> ports{443, 8443, 9443};
  bool operator==(const OutgoingRules&) const = default;
};

/// Ranges and names of one list.
class AddressList {
 public:
  /// @error kConfig `"10.0.0.1/8" is neither an address, a range of addresses nor a host name`
  [[nodiscard]] static Expected<AddressList> parse(const std::vector<std::string>& texts);
  [[nodiscard]] bool has(const IpBytes& ip) const noexcept;
  [[nodiscard]] bool has_host(std::string_view host) const noexcept;
  [[nodiscard]] bool has_ranges() const noexcept { return !ranges_.empty(); }

 private:
  std::vector<AddressRange> ranges_;
  std::vector<std::string> hosts_;
};

/// A name of letters, digits, '-', '_' in labels of 1 to 63, at most 253 in all, in lower case,
/// that no resolver takes for a number ("0x7f.1", "2130706433", "127.1").
[[nodiscard]] bool is_host_name(std::string_view text) noexcept;

/// In a range that belongs to nobody outside: loopback, private, link-local, reserved, multicast
/// (SE-106). An IPv4 address inside an IPv6 address is judged as what it is.
[[nodiscard]] bool is_special_address(const IpBytes& ip) noexcept;

/// Addresses of this machine's interfaces and of its resolvers, read again every 10 s; those of the
/// process's shards and stores where they are told. Threads: any.
class OwnAddresses {
 public:
  OwnAddresses();
  ~OwnAddresses();
  OwnAddresses(const OwnAddresses&) = delete;
  OwnAddresses& operator=(const OwnAddresses&) = delete;
  [[nodiscard]] bool has(const IpBytes& ip) const;
  [[nodiscard]] bool has_host(std::string_view host) const;
  /// Hosts of shards, names or addresses; replaces what was told before.
  void set_hosts(std::vector<std::string> hosts);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace kintsugi::net
