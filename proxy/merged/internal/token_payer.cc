#include "proxy/merged/internal/token_payer.h"

#include <string_view>

#include "auth/authenticators.h"
#include "auth/jwt.h"
#include "auth/sealed_token.h"
#include "base/digest.h"
#include "serving/identity.h"

namespace kintsugi::proxy {

std::string token_payer(const http::RequestHead& head, const http::PeerInfo& peer) {
  if (const net::BodyPayer payer = serving::payer_of(peer); payer.known) {
    return payer.name;
  }
  const auto bearer = auth::bearer_token(head.headers);
  const std::string_view text =
      bearer ? std::string_view(*bearer) : head.headers.get("authorization");
  if (const auto jwt = bearer ? auth::parse_jwt(*bearer) : fail(Errc::kUnauthorized)) {
    return "account " + auth::bound_to({jwt->claims.text({"iss"}), jwt->claims.text({"sub"}),
                                        jwt->claims.text({"kubernetes.io", "clusterName"})});
  }
  const auto digest = sha256(std::string(text));
  return "bearer " + std::string(reinterpret_cast<const char*>(digest.data()), digest.size());
}

}  // namespace kintsugi::proxy
