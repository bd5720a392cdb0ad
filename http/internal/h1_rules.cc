#include "http/internal/h1_rules.h"

#include <algorithm>
#include <string>
#include <vector>

#include "base/strings.h"
#include "http/internal/head_limits.h"
#include "http/wire.h"

namespace kintsugi::http {

H1Result<H1Framing> framing_of(const FieldFacts& facts, bool http10) {
  H1Framing framing;
  if (facts.codings > 0) {
    if (facts.lengths > 0) {
      return bad("both Transfer-Encoding and Content-Length");
    }
    if (http10) {
      return bad("Transfer-Encoding in an HTTP/1.0 message");
    }
    if (facts.codings > 1 || !equals_ignore_case(facts.coding, "chunked")) {
      return bad("unknown Transfer-Encoding", 501);
    }
    framing.kind = H1Framing::Kind::kChunked;
  } else if (facts.lengths > 0) {
    const auto length = parse_decimal<std::uint64_t>(facts.length);
    if (!length || *length > (std::uint64_t{1} << 62)) {
      return bad("malformed Content-Length");
    }
    framing.kind = *length > 0 ? H1Framing::Kind::kLength : H1Framing::Kind::kNone;
    framing.length = *length;
  }
  return framing;
}

H1Result<void> set_target(RequestHead& head, std::string_view target, const FieldFacts& facts) {
  head.authority = facts.host;
  if (target.front() == '/') {
    head.target = target;
    return {};
  }
  if (target == "*" && head.method == "OPTIONS") {
    head.target = target;
    return {};
  }
  if (head.method == "CONNECT") {
    return bad("CONNECT is not supported", 405);
  }
  std::string_view rest = target;
  const std::size_t colon = rest.find("://");
  const std::string scheme =
      colon == std::string_view::npos ? std::string() : to_lower(rest.substr(0, colon));
  if (scheme != "http" && scheme != "https") {
    return bad("malformed request target");
  }
  rest.remove_prefix(colon + 3);
  const std::size_t path = std::min(rest.find_first_of("/?"), rest.size());
  const std::string_view authority = rest.substr(0, path);
  if (!is_authority(authority)) {
    return bad("malformed authority");
  }
  rest.remove_prefix(path);
  head.authority = authority;
  if (rest.empty() || rest.front() == '?') {
    head.target = "/";
  }
  head.target.append(rest);
  return {};
}

H1Result<void> check_request_fields(const FieldFacts& facts, bool http10) {
  if (facts.hosts > 1 || (facts.hosts == 0 && !http10)) {
    return bad("a request needs exactly one Host field");
  }
  if (facts.hosts != 0 && !is_authority(facts.host)) {
    return bad("malformed authority");
  }
  if (facts.expects_more) {
    return bad("unknown expectation", 417);
  }
  return {};
}

H1Result<void> drop_nominated(HeaderList& fields) {
  std::vector<std::string_view> lists;  // their bytes stay where they are
  std::size_t options = 0;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    if (fields[i].name == "connection") {
      const std::string_view list = fields[i].value;
      options += 1 + static_cast<std::size_t>(std::count(list.begin(), list.end(), ','));
      lists.push_back(list);
    }
  }
  if (options > kMaxConnectionOptions) {
    return bad("too many connection options");
  }
  fields.remove_if([&lists](const HeaderView& field) {
    return !is_hop_by_hop(field.name) && field.name != "content-length" &&
           std::any_of(lists.begin(), lists.end(),
                       [&field](std::string_view list) { return list_contains(list, field.name); });
  });
  return {};
}

void drop_forbidden_trailers(HeaderList& trailers) {
  trailers.remove_if([](const HeaderView& field) {
    return is_hop_by_hop(field.name) || field.name == "content-length" ||
           field.name == "authorization" || field.name == "trailer";
  });
}

H1Fault version_fault(std::string_view line) noexcept {
  const std::size_t method = std::min(line.find(' '), line.size());
  line.remove_prefix(std::min(method + 1, line.size()));
  const std::size_t target = std::min(line.find(' '), line.size());
  const bool usable = is_target(line.substr(0, target));
  line.remove_prefix(std::min(target + 1, line.size()));
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  const bool shaped = line.size() == 8 && line.starts_with("HTTP/") && digit(line[5]) &&
                      line[6] == '.' && digit(line[7]);
  return usable && shaped ? H1Fault{505, "HTTP version not supported"}
                          : H1Fault{400, "malformed request line"};
}

}  // namespace kintsugi::http
