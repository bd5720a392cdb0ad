#include <algorithm>

#include "base/host_port.h"
#include "base/strings.h"
#include "net/upstream.h"

namespace kintsugi::net {
namespace {

std::uint16_t default_port(std::string_view scheme) { return scheme == "https" ? 443 : 80; }

}  // namespace

std::string Url::authority() const {
  return port == default_port(scheme) ? url_host(host) : host_port(host, port);
}

Expected<Url> Url::parse(std::string_view text) {
  const auto broken = [text](std::string_view why) {
    return fail(Errc::kConfig, "URL \"" + std::string(text) + "\": " + std::string(why));
  };
  const bool clean =
      std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < 0x7f; });
  if (!clean) {
    return broken("blanks, control or non-ASCII characters");
  }
  const std::size_t colon = text.find("://");
  Url url;
  url.scheme = colon == std::string_view::npos ? "" : to_lower(text.substr(0, colon));
  if (url.scheme != "http" && url.scheme != "https") {
    return broken("must begin with http:// or https://");
  }
  std::string_view rest = text.substr(colon + 3);
  if (rest.find_first_of("?#") != std::string_view::npos) {
    return broken("query and fragment are not allowed");
  }
  const std::size_t slash = std::min(rest.find('/'), rest.size());
  std::string_view authority = rest.substr(0, slash);
  std::string_view path = rest.substr(slash);
  while (!path.empty() && path.back() == '/') {
    path.remove_suffix(1);
  }
  url.path = path;
  if (authority.find('@') != std::string_view::npos) {
    return broken("user information is not allowed");
  }
  std::string_view port;
  bool has_port = false;
  if (!authority.empty() && authority.front() == '[') {
    const std::size_t close = authority.find(']');
    if (close == std::string_view::npos) {
      return broken("bracket is not closed");
    }
    url.host = authority.substr(1, close - 1);
    std::string_view tail = authority.substr(close + 1);
    if (!tail.empty() && tail.front() != ':') {
      return broken("text after the bracket");
    }
    has_port = !tail.empty();
    port = has_port ? tail.substr(1) : tail;
  } else {
    const std::size_t separator = authority.find(':');
    has_port = separator != std::string_view::npos;
    url.host = to_lower(authority.substr(0, separator));
    port = has_port ? authority.substr(separator + 1) : std::string_view();
    if (port.find(':') != std::string_view::npos) {
      return broken("an IPv6 address needs brackets");
    }
  }
  if (url.host.empty()) {
    return broken("host is missing");
  }
  url.port = default_port(url.scheme);
  if (has_port) {
    const auto number = parse_decimal<std::uint16_t>(port);
    if (!number || *number == 0) {
      return broken("port is not a number from 1 to 65535");
    }
    url.port = *number;
  }
  return url;
}

}  // namespace kintsugi::net
