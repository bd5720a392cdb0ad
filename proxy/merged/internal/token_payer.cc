#include "proxy/merged/internal/token_payer.h"

#include <string_view>

#include "auth/bearer.h"
#include "auth/sealed_token.h"
#include "base/digest.h"
#include "serving/identity.h"

namespace kintsugi::proxy {

std::string token_payer(const http::RequestHead& head, const http::PeerInfo& peer) {
  if (const net::BodyPayer payer = serving::payer_of(peer); payer.known) {
    return payer.name;
  }
  const auth::BearerPtr bearer = auth::bearer_of(head.headers);
  if (const auth::Jwt* jwt = bearer != nullptr ? bearer->jwt() : nullptr) {
    return "account " + auth::bound_to({jwt->claims.text({"iss"}), jwt->claims.text({"sub"}),
                                        jwt->claims.text({"kubernetes.io", "clusterName"})});
  }
  const auto digest = sha256(bearer != nullptr && !bearer->text().empty()
                                 ? bearer->text()
                                 : std::string(head.headers.get("authorization")));
  return "bearer " + std::string(reinterpret_cast<const char*>(digest.data()), digest.size());
}

}  // namespace kintsugi::proxy
