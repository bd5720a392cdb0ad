#include "workers/delivery/mqtt/broker_url.h"

#include <algorithm>
#include <optional>

#include "base/strings.h"

namespace kintsugi::workers {
namespace {

struct Scheme {
  std::string_view name;
  bool tls;
};
constexpr Scheme kSchemes[] = {
    {"mqtt://", false}, {"tcp://", false}, {"mqtts://", true}, {"ssl://", true}};
constexpr std::uint16_t kPlainPort = 1883, kTlsPort = 8883;

bool is_host(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '.' || c == ':';
  });
}

}  // namespace

Expected<BrokerUrl> parse_broker_url(std::string_view text) {
  const auto* const scheme =
      std::find_if(std::begin(kSchemes), std::end(kSchemes),
                   [text](const Scheme& one) { return text.starts_with(one.name); });
  if (scheme == std::end(kSchemes)) {
    return fail(Errc::kConfig, "must begin with mqtt://, mqtts://, tcp:// or ssl://");
  }
  std::string_view rest = text.substr(scheme->name.size());
  if (rest.ends_with('/')) {
    rest.remove_suffix(1);
  }
  BrokerUrl out;
  out.tls = scheme->tls;
  out.port = out.tls ? kTlsPort : kPlainPort;
  std::size_t end = rest.find(':');
  if (rest.starts_with('[')) {
    const std::size_t bracket = rest.find(']');
    if (bracket == std::string_view::npos) {
      return fail(Errc::kConfig, "has no host, or what is none");
    }
    out.host = rest.substr(1, bracket - 1);
    end = bracket + 1 < rest.size() ? bracket + 1 : std::string_view::npos;
  } else {
    out.host = rest.substr(0, end);
  }
  if (end != std::string_view::npos) {
    const auto port =
        rest[end] == ':' ? parse_decimal<std::uint16_t>(rest.substr(end + 1)) : std::nullopt;
    if (!port || *port == 0) {
      return fail(Errc::kConfig, "has no port from 1 to 65535");
    }
    out.port = *port;
  }
  if (!is_host(out.host)) {
    return fail(Errc::kConfig, "has no host, or what is none");
  }
  return out;
}

bool is_loopback(const BrokerUrl& url) {
  return url.host == "localhost" || url.host == "::1" ||
         (url.host.starts_with("127.") &&
          url.host.find_first_not_of("0123456789.") == std::string::npos);
}

}  // namespace kintsugi::workers
