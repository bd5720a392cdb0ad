// URLs of endpoints: what is taken leads to the proxy or an allowed host, is canonical, and has a
// name that is a folder's.
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "fuzz/pieces.h"
#include "net/upstream.h"
#include "workers/runtime/endpoints/endpoint_url.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace kintsugi;  // NOLINT
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const workers::EndpointRules rules{"proxy.example", {"shard.example", "127.0.0.1"}};
  (void)workers::shown_url(text);
  const auto endpoint = workers::parse_endpoint(text, rules);
  if (!endpoint) {
    fuzz::check(!endpoint.error().message().empty());
    return 0;
  }
  const auto url = net::Url::parse(endpoint->url);
  fuzz::check(url.has_value());
  fuzz::check(url->host == "proxy.example" || url->host == "shard.example" ||
              url->host == "127.0.0.1");
  const auto again = workers::parse_endpoint(endpoint->url, rules);
  fuzz::check(again.has_value() && *again == *endpoint);
  fuzz::check(endpoint->name == workers::unit_name(endpoint->url));
  fuzz::check(!endpoint->name.empty() && endpoint->name.size() <= 110);
  fuzz::check(std::all_of(endpoint->name.begin(), endpoint->name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '-';
  }));
  return 0;
}
