#include "net/server_credential.h"

#include <openssl/ssl.h>

#include <cstdlib>
#include <memory>
#include <utility>

namespace kintsugi::net {
namespace {

void free_credential(void* /*parent*/, void* credential, CRYPTO_EX_DATA* /*data*/, int /*index*/,
                     long /*number*/, void* /*pointer*/) {
  delete static_cast<ServerCredential*>(credential);
}

/// Where a context keeps its ServerCredential, freed with it.
int credential_index() {
  static const int index = SSL_CTX_get_ex_new_index(0, nullptr, nullptr, nullptr, free_credential);
  return index;
}

}  // namespace

void set_credential(TlsContext& context, ServerCredential credential) {
  const std::unique_ptr<ServerCredential> before(
      static_cast<ServerCredential*>(SSL_CTX_get_ex_data(context.native(), credential_index())));
  auto kept = std::make_unique<ServerCredential>(std::move(credential));
  if (SSL_CTX_set_ex_data(context.native(), credential_index(), kept.get()) != 1) {
    std::abort();  // no memory: requests without a credential are no way out
  }
  static_cast<void>(kept.release());
}

const ServerCredential& credential_of(const TlsContext& context) noexcept {
  static const ServerCredential kNone;
  const auto* kept = static_cast<const ServerCredential*>(
      SSL_CTX_get_ex_data(context.native(), credential_index()));
  return kept != nullptr ? *kept : kNone;
}

}  // namespace kintsugi::net
