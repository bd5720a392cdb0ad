#include "net/internal/outgoing_target.h"

#include <algorithm>
#include <utility>

#include "base/strings.h"

namespace kintsugi::net {
namespace {

constexpr std::size_t kLongestUrl = 4'096;
constexpr std::uint16_t kDefaultPort = 443;

tl::unexpected<Error> refuse(std::string_view why) {
  return fail(Errc::kForbidden, std::string(why));
}

/// "host", "host:port", "[v6]", "[v6]:port" into the target.
Expected<void> take_authority(std::string_view authority, OutgoingTarget& target) {
  std::string_view host, port;
  bool has_port = false;
  const bool bracketed = authority.starts_with('[');
  if (bracketed) {
    const std::size_t close = authority.find(']');
    if (close == std::string_view::npos) {
      return refuse("bracket is not closed");
    }
    host = authority.substr(1, close - 1);
    port = authority.substr(close + 1);
    has_port = !port.empty();
    if (has_port && port.front() != ':') {
      return refuse("text after the bracket");
    }
    port.remove_prefix(has_port ? 1 : 0);
  } else {
    const std::size_t colon = authority.find(':');
    has_port = colon != std::string_view::npos;
    host = authority.substr(0, colon);
    port = has_port ? authority.substr(colon + 1) : std::string_view();
  }
  target.host = to_lower(host);
  const bool has_colon = host.find(':') != std::string_view::npos;
  target.is_literal = bracketed == has_colon && canonical_ip(host).has_value();
  if (!target.is_literal && (bracketed || !is_host_name(target.host))) {
    return refuse("host is neither a name nor an address in canonical form");
  }
  if (has_port) {
    const auto number = parse_decimal<std::uint16_t>(port);
    if (!number || *number == 0 || port.front() == '0') {
      return refuse("port is not a number from 1 to 65535");
    }
    target.port = *number;
  }
  target.authority = bracketed ? "[" + target.host + "]" : target.host;
  if (target.port != kDefaultPort) {
    target.authority += ":" + std::to_string(target.port);
  }
  return {};
}

}  // namespace

Expected<std::shared_ptr<const OutgoingJudge>> OutgoingJudge::make(
    const OutgoingRules& rules, std::shared_ptr<OwnAddresses> own) {
  auto allow = AddressList::parse(rules.allow);
  if (!allow) {
    return fail(std::move(allow.error()).at("allow"));
  }
  auto deny = AddressList::parse(rules.deny);
  if (!deny) {
    return fail(std::move(deny.error()).at("deny"));
  }
  auto judge = std::shared_ptr<OutgoingJudge>(new OutgoingJudge());
  judge->allow_ = std::move(*allow);
  judge->deny_ = std::move(*deny);
  judge->ports_ = rules.ports;
  judge->own_ = std::move(own);
  return judge;
}

Expected<OutgoingTarget> OutgoingJudge::judge_url(std::string_view url) const {
  constexpr std::string_view kScheme = "https://";
  if (url.size() > kLongestUrl) {
    return refuse("URL is too long");
  }
  if (!std::all_of(url.begin(), url.end(), [](char c) { return c > ' ' && c < 0x7f; })) {
    return refuse("blanks, control or non-ASCII characters");
  }
  if (!equals_ignore_case(url.substr(0, kScheme.size()), kScheme)) {
    return refuse("scheme is not https");
  }
  if (url.find_first_of("#\\") != std::string_view::npos) {
    return refuse("fragment or backslash");
  }
  const std::string_view rest = url.substr(kScheme.size());
  const std::size_t end = std::min(rest.find_first_of("/?"), rest.size());
  OutgoingTarget target;
  if (rest.substr(0, end).find('@') != std::string_view::npos) {
    return refuse("user information");
  }
  if (auto taken = take_authority(rest.substr(0, end), target); !taken) {
    return fail(std::move(taken.error()));
  }
  target.path = rest.substr(end);
  if (!target.path.starts_with('/')) {
    target.path.insert(0, "/");
  }
  if (deny_.has_host(target.host)) {
    return refuse("host is denied");
  }
  const bool host_allowed = allow_.has_host(target.host);
  if (!target.is_literal && !host_allowed && own_ != nullptr && own_->has_host(target.host)) {
    return refuse("host is a shard");
  }
  target.needs_allowed =
      std::find(ports_.begin(), ports_.end(), target.port) == ports_.end() && !host_allowed;
  if (target.needs_allowed && !allow_.has_ranges()) {
    return refuse("port is not allowed");
  }
  if (target.is_literal) {
    if (auto judged = judge_literal(target); !judged) {
      return fail(std::move(judged.error()));
    }
  }
  return target;
}

Expected<JudgedAddress> OutgoingJudge::judge(const OutgoingTarget& target,
                                             const IpBytes& ip) const {
  const IpBytes inner = embedded_ipv4(ip).value_or(ip);
  if (deny_.has(ip) || deny_.has(inner)) {
    return refuse("address " + ip_text(ip) + " is denied");
  }
  const bool allowed = allow_.has(ip) || allow_.has(inner) || allow_.has_host(target.host);
  if (!allowed && is_special_address(ip)) {
    return refuse("address " + ip_text(ip) + " is in a range that is denied");
  }
  if (!allowed && own_ != nullptr && (own_->has(ip) || own_->has(inner))) {
    return refuse("address " + ip_text(ip) + " is one of ours");
  }
  if (!allowed && target.needs_allowed) {
    return refuse("port " + std::to_string(target.port) + " is not allowed");
  }
  return JudgedAddress(ip, target.port);
}

Expected<std::vector<JudgedAddress>> OutgoingJudge::judge_answers(
    const OutgoingTarget& target, const std::vector<SocketAddress>& answers) const {
  std::vector<JudgedAddress> out;
  for (const SocketAddress& answer : answers) {
    const auto ip = ip_of(answer);
    if (!ip) {
      return refuse("an answer is no IP address");
    }
    auto judged = judge(target, *ip);
    if (!judged) {
      return fail(std::move(judged.error()));
    }
    if (std::find(out.begin(), out.end(), *judged) == out.end()) {
      out.push_back(*judged);
    }
  }
  if (out.empty()) {
    return fail(Errc::kUnreachable, "the name has no address");
  }
  return out;
}

Expected<std::vector<JudgedAddress>> OutgoingJudge::judge_literal(
    const OutgoingTarget& target) const {
  const auto ip = canonical_ip(target.host);
  if (!ip) {
    return refuse("host is no address");
  }
  auto judged = judge(target, *ip);
  if (!judged) {
    return fail(std::move(judged.error()));
  }
  return std::vector<JudgedAddress>{*judged};
}

}  // namespace kintsugi::net
