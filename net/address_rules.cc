#include "net/address_rules.h"

#include <arpa/inet.h>
#include <ifaddrs.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <mutex>
#include <utility>

#include "base/strings.h"
#include "base/time.h"

namespace kintsugi::net {
namespace {

constexpr unsigned kIpv4Bits = 96;  // in front of the four bytes
constexpr Duration kOwnFresh = seconds(10);

IpBytes from_ipv4(const std::uint8_t* four) noexcept {
  IpBytes ip{};
  ip[10] = ip[11] = 0xff;
  std::memcpy(ip.data() + 12, four, 4);
  return ip;
}

bool is_ipv4(const IpBytes& ip) noexcept {
  return std::all_of(ip.begin(), ip.begin() + 10, [](std::uint8_t b) { return b == 0; }) &&
         ip[10] == 0xff && ip[11] == 0xff;
}

/// The ranges of SE-106, made once.
const std::vector<AddressRange>& special_ranges() {
  static const std::vector<AddressRange> kRanges = [] {
    std::vector<AddressRange> out;
    for (const char* text :
         {"0.0.0.0/8",     "10.0.0.0/8",      "100.64.0.0/10",  "127.0.0.0/8",    "169.254.0.0/16",
          "172.16.0.0/12", "192.0.0.0/24",    "192.0.2.0/24",   "192.88.99.0/24", "192.168.0.0/16",
          "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4",    "240.0.0.0/4",
          "::/128",        "::1/128",         "100::/64",       "64:ff9b:1::/48", "2001::/23",
          "2001:db8::/32", "3fff::/20",       "5f00::/16",      "fc00::/7",       "fe80::/10",
          "fec0::/10",     "ff00::/8"}) {
      out.push_back(AddressRange::parse(text).value_or(AddressRange{}));
    }
    return out;
  }();
  return kRanges;
}

bool is_label_byte(char c) noexcept {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

/// Resolvers take a name whose last part is a number for an IPv4 address.
bool is_number(std::string_view label) noexcept {
  if (label.starts_with("0x")) {
    return label.find_first_not_of("0123456789abcdef", 2) == std::string_view::npos;
  }
  return label.find_first_not_of("0123456789") == std::string_view::npos;
}

std::vector<IpBytes> interface_addresses() {
  std::vector<IpBytes> out;
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) {
    return out;
  }
  for (const ifaddrs* one = list; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr) {
      continue;
    }
    const bool v4 = one->ifa_addr->sa_family == AF_INET;
    if (!v4 && one->ifa_addr->sa_family != AF_INET6) {
      continue;
    }
    SocketAddress address;
    address.size = v4 ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    std::memcpy(&address.storage, one->ifa_addr, address.size);
    if (const auto ip = ip_of(address)) {
      out.push_back(*ip);
    }
  }
  ::freeifaddrs(list);
  return out;
}

void add_resolvers(std::vector<IpBytes>& out) {
  std::ifstream file("/etc/resolv.conf");
  std::string word, value, rest;
  while (file >> word && file.good()) {
    if (word == "nameserver" && file >> value) {
      if (const auto ip = canonical_ip(to_lower(value))) {
        out.push_back(*ip);
      }
    }
    std::getline(file, rest);
  }
}

}  // namespace

std::optional<IpBytes> ip_of(const SocketAddress& address) noexcept {
  IpBytes ip{};
  if (address.storage.ss_family == AF_INET) {
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(&address.storage);
    std::uint8_t four[4];
    std::memcpy(four, &v4->sin_addr, sizeof four);
    return from_ipv4(four);
  }
  if (address.storage.ss_family == AF_INET6) {
    const auto* v6 = reinterpret_cast<const sockaddr_in6*>(&address.storage);
    std::memcpy(ip.data(), &v6->sin6_addr, ip.size());
    return ip;
  }
  return std::nullopt;
}

std::optional<IpBytes> canonical_ip(std::string_view text) noexcept {
  char copy[INET6_ADDRSTRLEN] = {};
  if (text.empty() || text.size() >= sizeof copy || text.find('\0') != std::string_view::npos) {
    return std::nullopt;
  }
  std::memcpy(copy, text.data(), text.size());
  char again[INET6_ADDRSTRLEN] = {};
  std::uint8_t four[4];
  if (::inet_pton(AF_INET, copy, four) == 1) {
    ::inet_ntop(AF_INET, four, again, sizeof again);
    return text == again ? std::optional<IpBytes>(from_ipv4(four)) : std::nullopt;
  }
  IpBytes ip{};
  if (::inet_pton(AF_INET6, copy, ip.data()) != 1) {
    return std::nullopt;
  }
  ::inet_ntop(AF_INET6, ip.data(), again, sizeof again);
  return text == again ? std::optional<IpBytes>(ip) : std::nullopt;
}

std::string ip_text(const IpBytes& ip) {
  char text[INET6_ADDRSTRLEN] = {};
  if (is_ipv4(ip)) {
    ::inet_ntop(AF_INET, ip.data() + 12, text, sizeof text);
  } else {
    ::inet_ntop(AF_INET6, ip.data(), text, sizeof text);
  }
  return text;
}

std::optional<IpBytes> embedded_ipv4(const IpBytes& ip) noexcept {
  static constexpr std::uint8_t kNat64[12] = {0x00, 0x64, 0xff, 0x9b};
  static constexpr std::uint8_t kNone[12] = {};
  if (is_ipv4(ip)) {
    return ip;
  }
  if (std::memcmp(ip.data(), kNat64, sizeof kNat64) == 0 ||
      std::memcmp(ip.data(), kNone, sizeof kNone) == 0) {
    return from_ipv4(ip.data() + 12);
  }
  if (ip[0] == 0x20 && ip[1] == 0x02) {
    return from_ipv4(ip.data() + 2);
  }
  return std::nullopt;
}

std::optional<AddressRange> AddressRange::parse(std::string_view text) {
  const std::size_t slash = text.find('/');
  const auto base = canonical_ip(text.substr(0, slash));
  if (!base) {
    return std::nullopt;
  }
  AddressRange range{*base, 128};
  if (slash == std::string_view::npos) {
    return range;
  }
  const bool v4 = text.substr(0, slash).find(':') == std::string_view::npos;
  const auto bits = parse_decimal<unsigned>(text.substr(slash + 1));
  if (!bits || *bits > (v4 ? 32U : 128U)) {
    return std::nullopt;
  }
  range.bits = v4 ? *bits + kIpv4Bits : *bits;
  for (unsigned bit = range.bits; bit < 128; ++bit) {
    if ((range.base[bit / 8] >> (7 - bit % 8) & 1) != 0) {
      return std::nullopt;
    }
  }
  return range;
}

bool AddressRange::contains(const IpBytes& ip) const noexcept {
  const unsigned whole = bits / 8;
  if (std::memcmp(ip.data(), base.data(), whole) != 0) {
    return false;
  }
  if (bits % 8 == 0) {
    return true;
  }
  const unsigned mask = 0xff00U >> (bits % 8) & 0xffU;
  return ((static_cast<unsigned>(ip[whole]) ^ base[whole]) & mask) == 0;
}

bool is_host_name(std::string_view text) noexcept {
  constexpr std::size_t kLongest = 253, kLongestLabel = 63;
  if (text.empty() || text.size() > kLongest) {
    return false;
  }
  std::size_t begin = 0;
  while (true) {
    const std::size_t end = std::min(text.find('.', begin), text.size());
    const std::string_view label = text.substr(begin, end - begin);
    if (label.empty() || label.size() > kLongestLabel || label.front() == '-' ||
        label.back() == '-' || !std::all_of(label.begin(), label.end(), is_label_byte)) {
      return false;
    }
    if (end == text.size()) {
      return !is_number(label);
    }
    begin = end + 1;
  }
}

Expected<AddressList> AddressList::parse(const std::vector<std::string>& texts) {
  AddressList list;
  for (const std::string& text : texts) {
    if (const auto range = AddressRange::parse(text)) {
      list.ranges_.push_back(*range);
    } else if (is_host_name(text)) {
      list.hosts_.push_back(text);
    } else {
      return fail(Errc::kConfig, "\"" + text +
                                     "\" is neither an address, a range of addresses nor a host "
                                     "name");
    }
  }
  return list;
}

bool AddressList::has(const IpBytes& ip) const noexcept {
  return std::any_of(ranges_.begin(), ranges_.end(),
                     [&ip](const AddressRange& range) { return range.contains(ip); });
}

bool AddressList::has_host(std::string_view host) const noexcept {
  return std::find(hosts_.begin(), hosts_.end(), host) != hosts_.end();
}

bool is_special_address(const IpBytes& ip) noexcept {
  const auto listed = [](const IpBytes& one) {
    const auto& ranges = special_ranges();
    return std::any_of(ranges.begin(), ranges.end(),
                       [&one](const AddressRange& range) { return range.contains(one); });
  };
  const auto inner = embedded_ipv4(ip);
  return listed(ip) || (inner && listed(*inner));
}

struct OwnAddresses::State {
  mutable std::mutex mutex;
  TimePoint read_at{};
  bool read = false;
  std::vector<IpBytes> machine, told;
  std::vector<std::string> hosts;

  void refresh() {
    const TimePoint now = Clock::now();
    if (!read || now - read_at >= kOwnFresh) {
      machine = interface_addresses();
      add_resolvers(machine);
      read = true;
      read_at = now;
    }
  }
};

OwnAddresses::OwnAddresses() : state_(std::make_unique<State>()) {}
OwnAddresses::~OwnAddresses() = default;

bool OwnAddresses::has(const IpBytes& ip) const {
  const std::scoped_lock lock(state_->mutex);
  state_->refresh();
  const auto in = [&ip](const std::vector<IpBytes>& list) {
    return std::find(list.begin(), list.end(), ip) != list.end();
  };
  return in(state_->machine) || in(state_->told);
}

bool OwnAddresses::has_host(std::string_view host) const {
  const std::scoped_lock lock(state_->mutex);
  return std::find(state_->hosts.begin(), state_->hosts.end(), host) != state_->hosts.end();
}

void OwnAddresses::set_hosts(std::vector<std::string> hosts) {
  std::vector<IpBytes> told;
  for (const std::string& host : hosts) {
    if (const auto ip = canonical_ip(host)) {
      told.push_back(*ip);
    }
  }
  const std::scoped_lock lock(state_->mutex);
  state_->told = std::move(told);
  state_->hosts = std::move(hosts);
}

}  // namespace kintsugi::net
