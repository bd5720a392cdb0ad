#include <algorithm>
#include <array>
#include <cstdio>
#include <optional>

#include "base/strings.h"
#include "cel/internal/functions.h"
#include "krm/go_text.h"

namespace kintsugi::cel {

namespace {

/// An address of 4 or 16 bytes; `prefix` below 0 for a plain address.
struct Address final : Opaque {
  Address(std::string raw, int length)
      : Opaque(length < 0 ? "net.IP" : "net.CIDR"), bytes(std::move(raw)), prefix(length) {}
  [[nodiscard]] bool equals(const Opaque& other) const override {
    const auto& address = static_cast<const Address&>(other);
    return bytes == address.bytes && prefix == address.prefix;
  }
  std::string bytes;
  int prefix;
};

const Address& address(const Value& value) { return static_cast<const Address&>(*value.opaque()); }

Value make(std::string bytes, int prefix) {
  return Value::opaque(std::make_shared<const Address>(std::move(bytes), prefix));
}

std::optional<std::string> parse_v4(std::string_view text) {
  std::string out;
  for (const std::string_view part : split(text, '.')) {
    const auto octet = parse_decimal<unsigned>(part);
    if (!octet || *octet > 255 || (part.size() > 1 && part[0] == '0')) {
      return std::nullopt;
    }
    out += static_cast<char>(static_cast<unsigned char>(*octet));
  }
  return out.size() == 4 ? std::optional(out) : std::nullopt;
}

std::optional<std::string> parse_v6(std::string_view text) {
  std::string head;
  std::string tail;
  bool gap = false;
  if (text.starts_with("::")) {
    gap = true;
    text.remove_prefix(2);
  } else if (text.starts_with(':') || text.empty()) {
    return std::nullopt;
  }
  while (!text.empty()) {
    std::string& into = gap ? tail : head;
    const std::size_t end = std::min(text.find(':'), text.size());
    const std::string_view group = text.substr(0, end);
    if (group.find('.') != std::string_view::npos) {
      const auto v4 = parse_v4(group);
      if (!v4 || end != text.size()) {
        return std::nullopt;
      }
      into += *v4;
      break;
    }
    unsigned value = 0;
    if (group.empty() || group.size() > 4) {
      return std::nullopt;
    }
    for (const char c : to_lower(group)) {
      const bool digit = c >= '0' && c <= '9';
      if (!digit && (c < 'a' || c > 'f')) {
        return std::nullopt;
      }
      value = value * 16 + static_cast<unsigned>(digit ? c - '0' : c - 'a' + 10);
    }
    into += static_cast<char>(static_cast<unsigned char>(value >> 8U));
    into += static_cast<char>(static_cast<unsigned char>(value & 0xFFU));
    text.remove_prefix(end);
    if (text.empty()) {
      break;
    }
    text.remove_prefix(1);
    if (text.starts_with(':')) {
      if (gap) {
        return std::nullopt;
      }
      gap = true;
      text.remove_prefix(1);
    } else if (text.empty()) {
      return std::nullopt;
    }
  }
  const std::size_t size = head.size() + tail.size();
  if (gap ? size > 14 : size != 16) {
    return std::nullopt;
  }
  return head + std::string(16 - size, '\0') + tail;
}

bool is_mapped(const std::string& bytes) {
  return bytes.size() == 16 && bytes.compare(0, 12, std::string(10, '\0') + "\xff\xff") == 0;
}

/// Bytes of an address, or an error value. Zones and IPv4-mapped addresses are refused.
Value parse_ip(std::string_view text) {
  const std::string quoted = krm::go_quote(text);
  const bool v6 = text.find(':') != std::string_view::npos;
  if (v6 && text.find('%') != std::string_view::npos) {
    return Value::error("IP address " + quoted + " with zone value is not allowed");
  }
  auto bytes = v6 ? parse_v6(text) : parse_v4(text);
  if (!bytes) {
    return Value::error("IP Address " + quoted +
                        " parse error during conversion from string: ParseAddr(" + quoted +
                        "): unable to parse IP");
  }
  if (is_mapped(*bytes)) {
    return Value::error("IPv4-mapped IPv6 address " + quoted + " is not allowed");
  }
  return make(std::move(*bytes), -1);
}

Value parse_cidr(std::string_view text) {
  const std::string lead = "network address parse error during conversion from string: ";
  const auto broken = [&](std::string_view why) {
    return Value::error(lead + lead + "netip.ParsePrefix(" + krm::go_quote(text) +
                        "): " + std::string(why));
  };
  const std::size_t slash = text.rfind('/');
  if (slash == std::string_view::npos) {
    return broken("no '/'");
  }
  const std::string_view host = text.substr(0, slash);
  const std::string_view bits = text.substr(slash + 1);
  auto bytes = host.find(':') != std::string_view::npos ? parse_v6(host) : parse_v4(host);
  const auto length = parse_decimal<int>(bits);
  if (!bytes) {
    return broken("ParseAddr(" + krm::go_quote(host) + "): unable to parse IP");
  }
  if (!length || (bits.size() > 1 && bits[0] == '0')) {
    return broken("bad bits after slash: " + krm::go_quote(bits));
  }
  if (*length > static_cast<int>(bytes->size() * 8)) {
    return broken("prefix length out of range");
  }
  if (is_mapped(*bytes)) {
    return Value::error(lead + "IPv4-mapped IPv6 address " + krm::go_quote(text) +
                        " is not allowed");
  }
  return make(std::move(*bytes), *length);
}

unsigned byte_at(const std::string& bytes, std::size_t index) {
  return static_cast<unsigned char>(bytes[index]);
}

std::string print(const std::string& bytes) {
  std::string out;
  if (bytes.size() == 4) {
    for (std::size_t i = 0; i < 4; ++i) {
      out += (i == 0 ? "" : ".") + std::to_string(byte_at(bytes, i));
    }
    return out;
  }
  std::array<unsigned, 8> groups{};
  for (std::size_t i = 0; i < 8; ++i) {
    groups[i] = byte_at(bytes, 2 * i) << 8U | byte_at(bytes, 2 * i + 1);
  }
  std::size_t gap = 8;
  std::size_t gap_size = 1;
  for (std::size_t i = 0; i < 8; ++i) {
    std::size_t end = i;
    while (end < 8 && groups[end] == 0) {
      ++end;
    }
    if (end - i > gap_size) {
      gap = i;
      gap_size = end - i;
    }
  }
  for (std::size_t i = 0; i < 8; ++i) {
    if (i == gap) {
      out += "::";
      i += gap_size - 1;
      continue;
    }
    char group[8];
    std::snprintf(group, sizeof(group), "%x", groups[i]);
    out += out.empty() || out.back() == ':' ? "" : ":";
    out += group;
  }
  return out;
}

std::string masked_bytes(const std::string& bytes, int prefix) {
  std::string out = bytes;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const int keep = std::clamp(prefix - static_cast<int>(i) * 8, 0, 8);
    out[i] = static_cast<char>(static_cast<unsigned char>(byte_at(out, i) & (0xFF00U >> keep)));
  }
  return out;
}

bool contains(const Address& net, const std::string& bytes) {
  return net.bytes.size() == bytes.size() &&
         masked_bytes(net.bytes, net.prefix) == masked_bytes(bytes, net.prefix);
}

Value ip(const Args& args) { return parse_ip(args[0].text()); }
Value cidr(const Args& args) { return parse_cidr(args[0].text()); }
Value is_ip(const Args& args) { return Value::boolean(!parse_ip(args[0].text()).is_error()); }
Value is_cidr(const Args& args) { return Value::boolean(!parse_cidr(args[0].text()).is_error()); }
Value is_canonical(const Args& args) {
  const Value parsed = parse_ip(args[0].text());
  return parsed.is_error() ? parsed
                           : Value::boolean(print(address(parsed).bytes) == args[0].text());
}
Value family(const Args& args) {
  return Value::integer(address(args[0]).bytes.size() == 4 ? 4 : 6);
}
Value ip_string(const Args& args) { return Value::string(print(address(args[0]).bytes)); }
Value cidr_string(const Args& args) {
  return Value::string(print(address(args[0]).bytes) + '/' +
                       std::to_string(address(args[0]).prefix));
}

bool unspecified(const std::string& bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](char c) { return c == '\0'; });
}
bool loopback(const std::string& bytes) {
  return bytes.size() == 4 ? byte_at(bytes, 0) == 127 : bytes == std::string(15, '\0') + '\x01';
}
bool link_local_multicast(const std::string& bytes) {
  return bytes.size() == 4
             ? byte_at(bytes, 0) == 224 && byte_at(bytes, 1) == 0 && byte_at(bytes, 2) == 0
             : byte_at(bytes, 0) == 0xFF && (byte_at(bytes, 1) & 0x0FU) == 2;
}
bool link_local_unicast(const std::string& bytes) {
  return bytes.size() == 4 ? byte_at(bytes, 0) == 169 && byte_at(bytes, 1) == 254
                           : byte_at(bytes, 0) == 0xFE && (byte_at(bytes, 1) & 0xC0U) == 0x80;
}
bool global_unicast(const std::string& bytes) {
  const bool multicast =
      bytes.size() == 4 ? (byte_at(bytes, 0) & 0xF0U) == 0xE0 : byte_at(bytes, 0) == 0xFF;
  return bytes != std::string(4, '\xff') && !unspecified(bytes) && !loopback(bytes) && !multicast &&
         !link_local_unicast(bytes);
}
template <bool (*kTest)(const std::string&)>
Value test(const Args& args) {
  return Value::boolean(kTest(address(args[0]).bytes));
}

Value contains_ip(const Args& args) {
  const Value other = args[1].is(Kind::kString) ? parse_ip(args[1].text()) : args[1];
  return other.is_error() ? Value::no_overload()
                          : Value::boolean(contains(address(args[0]), address(other).bytes));
}
Value contains_cidr(const Args& args) {
  const Value other = args[1].is(Kind::kString) ? parse_cidr(args[1].text()) : args[1];
  if (other.is_error()) {
    return other;
  }
  const Address& net = address(args[0]);
  return Value::boolean(net.prefix <= address(other).prefix && contains(net, address(other).bytes));
}
Value cidr_ip(const Args& args) { return make(address(args[0]).bytes, -1); }
Value prefix_length(const Args& args) { return Value::integer(address(args[0]).prefix); }
Value masked(const Args& args) {
  const Address& net = address(args[0]);
  return make(masked_bytes(net.bytes, net.prefix), net.prefix);
}

constexpr auto kRows = std::array{
    OverloadRow{"ip", "string_to_ip", "(string) -> ip", ip},
    OverloadRow{"family", "ip_family", "ip.() -> int", family},
    OverloadRow{"ip.isCanonical", "ip_is_canonical", "(string) -> bool", is_canonical},
    OverloadRow{"isUnspecified", "ip_is_unspecified", "ip.() -> bool", test<unspecified>},
    OverloadRow{"isLoopback", "ip_is_loopback", "ip.() -> bool", test<loopback>},
    OverloadRow{"isLinkLocalMulticast", "ip_is_link_local_multicast", "ip.() -> bool",
                test<link_local_multicast>},
    OverloadRow{"isLinkLocalUnicast", "ip_is_link_local_unicast", "ip.() -> bool",
                test<link_local_unicast>},
    OverloadRow{"isGlobalUnicast", "ip_is_global_unicast", "ip.() -> bool", test<global_unicast>},
    OverloadRow{"isIP", "is_ip", "(string) -> bool", is_ip},
    OverloadRow{"string", "ip_to_string", "(ip) -> string", ip_string},
    OverloadRow{"cidr", "string_to_cidr", "(string) -> cidr", cidr},
    OverloadRow{"containsIP", "cidr_contains_ip_string", "cidr.(string) -> bool", contains_ip},
    OverloadRow{"containsIP", "cidr_contains_ip_ip", "cidr.(ip) -> bool", contains_ip},
    OverloadRow{"containsCIDR", "cidr_contains_cidr_string", "cidr.(string) -> bool",
                contains_cidr},
    OverloadRow{"containsCIDR", "cidr_contains_cidr", "cidr.(cidr) -> bool", contains_cidr},
    OverloadRow{"ip", "cidr_ip", "cidr.() -> ip", cidr_ip},
    OverloadRow{"prefixLength", "cidr_prefix_length", "cidr.() -> int", prefix_length},
    OverloadRow{"masked", "cidr_masked", "cidr.() -> cidr", masked},
    OverloadRow{"isCIDR", "is_cidr", "(string) -> bool", is_cidr},
    OverloadRow{"string", "cidr_to_string", "(cidr) -> string", cidr_string},
};

}  // namespace

std::span<const OverloadRow> network_rows() { return kRows; }

}  // namespace kintsugi::cel
