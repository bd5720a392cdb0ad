// "<target> <token>": unverified tokens name a cluster or nothing, and never pass as signed.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "auth/jwt.h"
#include "auth/service_account_tokens.h"
#include "krm/request_info.h"
#include "proxy/routing/internal/in_cluster.h"

namespace {

const kintsugi::auth::ServiceAccountTokens& tokens() {
  static const kintsugi::auth::ServiceAccountTokens kTokens = [] {
    kintsugi::auth::ServiceAccountTokenConfig config;
    config.keys = {*kintsugi::auth::JwtKey::generate()};
    return kintsugi::auth::ServiceAccountTokens(std::move(config));
  }();
  return kTokens;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::size_t space = text.find(' ');
  if (space == std::string_view::npos) {
    return 0;
  }
  const std::string_view token = text.substr(space + 1);
  kintsugi::proxy::Request request;
  request.head.method = "GET";
  request.head.target = text.substr(0, space);
  request.head.headers.add("authorization", "Bearer " + std::string(token));
  request.target = kintsugi::krm::parse_target(request.head.method, request.head.target);
  if (const auto target = kintsugi::proxy::in_cluster_target(request)) {
    const auto cluster = kintsugi::krm::split_cluster_path(*target);
    if (!cluster || !kintsugi::krm::is_workspace_path(cluster->segment)) {
      std::abort();
    }
  }
  static_cast<void>(tokens().is_ours(kintsugi::auth::Bearer(token)));
  if (tokens().verify(kintsugi::auth::Bearer(token), {}, 1'000)) {
    std::abort();  // the key never signed it
  }
  static_cast<void>(kintsugi::auth::JwtKey::parse_pem(token));
  return 0;
}
