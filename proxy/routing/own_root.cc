#include "proxy/routing/own_root.h"

#include <utility>

namespace kintsugi::proxy {

void OwnRootAuthorizer::authorize(const auth::Attributes& attributes, Done done) {
  if (attributes.cluster == "root" && attributes.user.in_group(auth::kGroupKcpAdmin)) {
    done(auth::Decision{true, "group system:kcp:admin"});
    return;
  }
  next_.authorize(attributes, std::move(done));
}

}  // namespace kintsugi::proxy
