#include "net/proxy_rules.h"

#include <cstdlib>
#include <optional>
#include <utility>

#include "base/log.h"
#include "base/secret.h"
#include "base/strings.h"

namespace kintsugi::net {
namespace {

/// The address, also of a text that Go reads and inet_ntop would not write ("::FFFF").
std::optional<IpBytes> address_in(const std::string& host) {
  const auto address = numeric_address(host, 1);
  return address ? ip_of(*address) : std::nullopt;
}

bool is_loopback(const IpBytes& ip) {
  static const AddressRange kRanges[] = {
      AddressRange::parse("127.0.0.0/8").value_or(AddressRange{}),
      AddressRange::parse("::1/128").value_or(AddressRange{})};
  return kRanges[0].contains(ip) || kRanges[1].contains(ip);
}

/// "host:port" and "[host]:port"; a port that is no number is none that a server has.
struct HostPort {
  std::string host;
  std::uint16_t port = 0;
  bool usable = true;
};
HostPort host_and_port(std::string_view entry) {
  const std::size_t colon = entry.rfind(':');
  const bool bracketed = entry.starts_with('[') && colon != std::string_view::npos && colon > 0 &&
                         entry[colon - 1] == ']';
  if (colon == std::string_view::npos || (!bracketed && entry.find(':') != colon)) {
    return {std::string(entry)};
  }
  std::string_view host = entry.substr(0, colon);
  if (bracketed) {
    host = host.substr(1, host.size() - 2);
  }
  const std::string_view port = entry.substr(colon + 1);
  const auto number = parse_decimal<std::uint16_t>(port);
  return {std::string(host), number.value_or(0),
          port.empty() || (number.has_value() && *number != 0)};
}

/// "10.1.2.3/8" as well: the bits behind the prefix do not matter.
std::optional<AddressRange> range_in(std::string_view entry) {
  const std::size_t slash = entry.find('/');
  if (slash == std::string_view::npos) {
    return std::nullopt;
  }
  const std::string host(entry.substr(0, slash));
  const auto ip = address_in(host);
  const auto bits = parse_decimal<std::uint8_t>(entry.substr(slash + 1));
  const bool ipv6 = host.find(':') != std::string::npos;
  if (!ip || !bits || *bits > (ipv6 ? 128 : 32)) {
    return std::nullopt;
  }
  AddressRange range{*ip, *bits + (ipv6 ? 0U : 96U)};
  for (unsigned bit = range.bits; bit < 128; ++bit) {
    range.base[bit / 8] = static_cast<std::uint8_t>(range.base[bit / 8] & ~(0x80U >> (bit % 8)));
  }
  return range;
}

std::string environment(const char* upper, const char* lower) {
  for (const char* name : {upper, lower}) {
    if (const char* value = std::getenv(name); value != nullptr && *value != '\0') {
      return value;
    }
  }
  return {};
}

}  // namespace

Expected<ServerCredential::Proxy> parse_proxy(std::string_view given, bool bare) {
  std::string text(given);
  if (bare && text.find("://") == std::string::npos) {
    text.insert(0, "http://");
  }
  ServerCredential::Proxy proxy;
  const std::size_t begin = text.find("://") == std::string::npos ? 0 : text.find("://") + 3;
  const std::size_t at = text.find('@', begin);
  if (at != std::string::npos) {
    const std::string said = text.substr(begin, at - begin);
    const Secret coded(base64_encode(percent_decode(said).value_or(said)));
    proxy.authorization = Secret::joined({"Basic ", coded.view()});
    text.erase(begin, at + 1 - begin);
  }
  const auto url = Url::parse(text);
  if (!url || url->scheme != "http" || !url->path.empty()) {
    return fail(Errc::kConfig, "only http://host:port is supported");
  }
  proxy.host = url->host;
  proxy.port = url->port;
  return proxy;
}

ProxyRules::Way ProxyRules::way(std::string_view variable, std::string_view text) {
  Way way;
  way.set = !text.empty();
  if (way.set) {
    auto proxy = parse_proxy(text, true);
    if (proxy) {
      way.proxy = std::move(*proxy);
    } else {
      way.fault = std::string(variable).append(": ").append(proxy.error().message());
    }
  }
  return way;
}

ProxyRules::ProxyRules(std::string_view http_proxy, std::string_view https_proxy,
                       std::string_view no_proxy)
    : http_(way("HTTP_PROXY", http_proxy)), https_(way("HTTPS_PROXY", https_proxy)) {
  for (const std::string_view part : split(no_proxy, ',')) {
    except(to_lower(trim(part)));
  }
}

void ProxyRules::except(std::string_view entry) {
  if (entry == "*") {
    none_ = true;
    return;
  }
  if (const auto range = range_in(entry); range) {
    addresses_.push_back({*range, 0});
    return;
  }
  auto [host, port, usable] = host_and_port(entry);
  if (host.empty() || !usable) {
    return;
  }
  if (const auto ip = address_in(host); ip) {
    addresses_.push_back({AddressRange{*ip, 128}, port});
    return;
  }
  if (host.starts_with("*.")) {
    host.erase(0, 1);
  }
  const bool itself = host.front() != '.';
  domains_.push_back({itself ? "." + host : host, port, itself});
}

bool ProxyRules::is_excepted(const Url& server) const {
  const auto ip = address_in(server.host);
  if (none_ || is_localhost(server.host) || (ip && is_loopback(*ip))) {
    return true;
  }
  for (const Address& one : addresses_) {
    if (ip && one.range.contains(*ip) && (one.port == 0 || one.port == server.port)) {
      return true;
    }
  }
  for (const Domain& one : domains_) {
    const bool matches = std::string_view(server.host).ends_with(one.suffix) ||
                         (one.itself && server.host == std::string_view(one.suffix).substr(1));
    if (matches && (one.port == 0 || one.port == server.port)) {
      return true;
    }
  }
  return false;
}

Expected<const ServerCredential::Proxy*> ProxyRules::pick(const Url& server) const {
  const Way& way = server.scheme == "https" ? https_ : http_;
  if (!way.set || is_excepted(server)) {
    return nullptr;
  }
  if (!way.fault.empty()) {
    return fail(Errc::kUnreachable, way.fault);
  }
  return &way.proxy;
}

const ProxyRules& environment_proxies() {
  static const ProxyRules kRules = [] {
    ProxyRules rules(environment("HTTP_PROXY", "http_proxy"),
                     environment("HTTPS_PROXY", "https_proxy"),
                     environment("NO_PROXY", "no_proxy"));
    for (const char* scheme : {"http", "https"}) {  // where anybody needs them
      if (const auto way = rules.pick({scheme, "server.example", 443, ""}); !way) {
        log_warn("a proxy of the environment cannot be used", {{"error", way.error().message()}});
      }
    }
    return rules;
  }();
  return kRules;
}

}  // namespace kintsugi::net
