#include "http/wire.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <ctime>

#include "base/strings.h"
#include "http/handler.h"

namespace kintsugi::http {
namespace {

enum Class : std::uint8_t { kToken = 1, kValue = 2, kTarget = 4, kName = 8 };

constexpr std::array<std::uint8_t, 256> make_classes() {
  std::array<std::uint8_t, 256> classes{};
  for (unsigned c = 0; c < 256; ++c) {
    const bool alphanumeric =
        (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
    std::uint8_t mask = 0;
    if (alphanumeric ||
        std::string_view("!#$%&'*+-.^_`|~").find(static_cast<char>(c)) != std::string_view::npos) {
      mask |= kToken;
    }
    if (c == '\t' || (c >= 0x20 && c != 0x7f)) {
      mask |= kValue;
    }
    if (c > 0x20 && c < 0x7f) {
      mask |= kTarget;
    }
    if (alphanumeric || c == '.' || c == '_' || c == '~' || c == '-') {
      mask |= kName;
    }
    classes[c] = mask;
  }
  return classes;
}
constexpr std::array<std::uint8_t, 256> kClasses = make_classes();

bool all_of(std::string_view text, std::uint8_t mask) noexcept {
  for (const char c : text) {
    if ((kClasses[static_cast<unsigned char>(c)] & mask) == 0) {
      return false;
    }
  }
  return true;
}

constexpr std::size_t kMaxHost = 253;

/// 1 to 65535, without a sign and leading zeros.
bool is_port(std::string_view text) noexcept {
  if (text.empty() || text.size() > 5 || text.front() == '0') {
    return false;
  }
  std::uint32_t number = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') {
      return false;
    }
    number = number * 10 + static_cast<std::uint32_t>(c - '0');
  }
  return number <= 65'535;
}

bool is_ipv6(std::string_view text) noexcept {
  std::array<char, INET6_ADDRSTRLEN> copy{};
  if (text.size() >= copy.size()) {
    return false;
  }
  std::copy(text.begin(), text.end(), copy.begin());
  in6_addr address{};
  return ::inet_pton(AF_INET6, copy.data(), &address) == 1;
}

/// The Kubernetes reason of the few codes an engine answers itself; 431 and 5xx have none.
std::string_view reason_of(int code) noexcept {
  switch (code) {
    case 400:
      return "BadRequest";
    case 405:
      return "MethodNotAllowed";
    case 408:
      return "Timeout";
    default:
      return "";
  }
}

}  // namespace

std::string_view status_reason(int status) noexcept {
  switch (status) {
    case 100:
      return "Continue";
    case 101:
      return "Switching Protocols";
    case 103:
      return "Early Hints";
    case 200:
      return "OK";
    case 201:
      return "Created";
    case 202:
      return "Accepted";
    case 203:
      return "Non-Authoritative Information";
    case 204:
      return "No Content";
    case 205:
      return "Reset Content";
    case 206:
      return "Partial Content";
    case 300:
      return "Multiple Choices";
    case 301:
      return "Moved Permanently";
    case 302:
      return "Found";
    case 303:
      return "See Other";
    case 304:
      return "Not Modified";
    case 307:
      return "Temporary Redirect";
    case 308:
      return "Permanent Redirect";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 402:
      return "Payment Required";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 406:
      return "Not Acceptable";
    case 407:
      return "Proxy Authentication Required";
    case 408:
      return "Request Timeout";
    case 409:
      return "Conflict";
    case 410:
      return "Gone";
    case 411:
      return "Length Required";
    case 412:
      return "Precondition Failed";
    case 413:
      return "Content Too Large";
    case 414:
      return "URI Too Long";
    case 415:
      return "Unsupported Media Type";
    case 416:
      return "Range Not Satisfiable";
    case 417:
      return "Expectation Failed";
    case 421:
      return "Misdirected Request";
    case 422:
      return "Unprocessable Content";
    case 426:
      return "Upgrade Required";
    case 428:
      return "Precondition Required";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 502:
      return "Bad Gateway";
    case 503:
      return "Service Unavailable";
    case 504:
      return "Gateway Timeout";
    case 505:
      return "HTTP Version Not Supported";
    case 507:
      return "Insufficient Storage";
    default:
      return "";
  }
}

bool is_hop_by_hop(std::string_view name) noexcept {
  switch (name.size()) {
    case 2:
      return name == "te";
    case 7:
      return name == "upgrade";
    case 10:
      return name == "connection" || name == "keep-alive";
    case 16:
      return name == "proxy-connection";
    case 17:
      return name == "transfer-encoding";
    default:
      return false;
  }
}

bool is_known_method(std::string_view method) noexcept {
  static constexpr std::array<std::string_view, 7> kMethods = {"GET",   "HEAD",   "POST",   "PUT",
                                                               "PATCH", "DELETE", "OPTIONS"};
  return std::find(kMethods.begin(), kMethods.end(), method) != kMethods.end();
}

bool is_token(std::string_view text) noexcept { return !text.empty() && all_of(text, kToken); }
bool is_field_value(std::string_view text) noexcept { return all_of(text, kValue); }
bool is_target(std::string_view text) noexcept { return !text.empty() && all_of(text, kTarget); }

bool is_authority(std::string_view text) noexcept {
  std::string_view host = text, port;
  bool has_port = false;
  if (!text.empty() && text.front() == '[') {
    const std::size_t close = text.find(']');
    if (close == std::string_view::npos || !is_ipv6(text.substr(1, close - 1))) {
      return false;
    }
    const std::string_view rest = text.substr(close + 1);
    if (!rest.empty() && rest.front() != ':') {
      return false;
    }
    has_port = !rest.empty();
    port = rest.substr(has_port ? 1 : 0);
    return !has_port || is_port(port);
  }
  if (const std::size_t colon = text.find(':'); colon != std::string_view::npos) {
    has_port = true;
    host = text.substr(0, colon);
    port = text.substr(colon + 1);
  }
  return !host.empty() && host.size() <= kMaxHost && all_of(host, kName) &&
         (!has_port || is_port(port));
}

std::string_view request_fault(const RequestHead& head) noexcept {
  if (!is_token(head.method)) {
    return "malformed method";
  }
  const bool has_target = head.method != "CONNECT" || !head.protocol.empty();
  if (has_target && !is_target(head.target)) {
    return "malformed request target";
  }
  if (!head.authority.empty() && !is_authority(head.authority)) {
    return "malformed authority";
  }
  return is_field_value(head.protocol) ? std::string_view() : "malformed protocol";
}

bool list_contains(std::string_view list, std::string_view lower_case_token) noexcept {
  while (!list.empty()) {
    const std::size_t comma = list.find(',');
    if (equals_ignore_case(trim(list.substr(0, comma)), lower_case_token)) {
      return true;
    }
    if (comma == std::string_view::npos) {
      return false;
    }
    list.remove_prefix(comma + 1);
  }
  return false;
}

std::string_view http_date() noexcept {
  struct Cache {
    std::time_t second = -1;
    std::array<char, 32> text{};
    std::size_t size = 0;
  };
  thread_local Cache cache;
  timespec now{};
  (void)::clock_gettime(CLOCK_REALTIME_COARSE, &now);
  if (now.tv_sec != cache.second) {
    static constexpr const char* kDays[] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
    static constexpr const char* kMonths[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                              "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    std::tm parts{};
    (void)::gmtime_r(&now.tv_sec, &parts);
    const int size =
        std::snprintf(cache.text.data(), cache.text.size(), "%s, %02d %s %04d %02d:%02d:%02d GMT",
                      kDays[parts.tm_wday % 7], parts.tm_mday, kMonths[parts.tm_mon % 12],
                      parts.tm_year + 1900, parts.tm_hour, parts.tm_min, parts.tm_sec);
    cache.size = size > 0 ? static_cast<std::size_t>(size) : 0;
    cache.second = now.tv_sec;
  }
  return {cache.text.data(), cache.size};
}

std::string status_body(int code, std::string_view message) {
  std::string body =
      R"({"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":")";
  body.append(message);
  body += '"';
  if (const std::string_view reason = reason_of(code); !reason.empty()) {
    body.append(R"(,"reason":")").append(reason) += '"';
  }
  body.append(R"(,"code":)").append(std::to_string(code)).append("}\n");
  return body;
}

}  // namespace kintsugi::http
