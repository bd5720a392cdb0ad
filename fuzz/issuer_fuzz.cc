// "<JWKS>\n<token>" and "<AuthenticationConfiguration>": keys and tokens of strangers never pass,
// whatever they look like, and configurations are judged without a crash.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "auth/internal/jwk.h"
#include "auth/jwt.h"
#include "auth/jwt_issuer.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using kintsugi::auth::KeySet;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::size_t line = text.find('\n');
  const auto keys = KeySet::parse(text.substr(0, line));
  const auto jwt =
      kintsugi::auth::parse_jwt(line == std::string_view::npos ? text : text.substr(line + 1));
  if (jwt) {
    static const auto kIssuers = kintsugi::auth::parse_authentication_configuration(R"~(
apiVersion: apiserver.config.k8s.io/v1
kind: AuthenticationConfiguration
jwt:
- issuer: {url: "https://issuer.example", audiences: [us]}
  claimMappings:
    username: {expression: "'o:' + claims.sub"}
    groups: {expression: "claims.groups.map(g, 'o:' + g)"}
  userValidationRules: [{expression: "!user.username.startsWith('system:')", message: m}]
)~");
    const auto identity = (*kIssuers)[0]->identify(jwt->claims, 1'000);
    if (identity && !identity->user.name.starts_with("o:")) {
      std::abort();
    }
    if (keys && keys->check(*jwt, {}) == KeySet::Verdict::kGood &&
        jwt->header.text({"alg"}).starts_with("HS")) {
      std::abort();
    }
  }
  static_cast<void>(kintsugi::auth::parse_authentication_configuration(text));
  return 0;
}
