#include "net/server_credential.h"

#include <openssl/ssl.h>

#include <cstdlib>
#include <memory>
#include <utility>

namespace kintsugi::net {
namespace {

void free_text(void* /*parent*/, void* text, CRYPTO_EX_DATA* /*data*/, int /*index*/,
               long /*number*/, void* /*pointer*/) {
  delete static_cast<std::string*>(text);
}

/// Where a context keeps its std::string, freed with it.
int text_index() {
  static const int index = SSL_CTX_get_ex_new_index(0, nullptr, nullptr, nullptr, free_text);
  return index;
}

}  // namespace

void set_authorization(TlsContext& context, std::string value) {
  const std::unique_ptr<std::string> before(
      static_cast<std::string*>(SSL_CTX_get_ex_data(context.native(), text_index())));
  auto text = std::make_unique<std::string>(std::move(value));
  if (SSL_CTX_set_ex_data(context.native(), text_index(), text.get()) != 1) {
    std::abort();  // no memory: requests without a credential are no way out
  }
  static_cast<void>(text.release());
}

std::string_view authorization_of(const TlsContext& context) noexcept {
  const auto* text =
      static_cast<const std::string*>(SSL_CTX_get_ex_data(context.native(), text_index()));
  return text != nullptr ? std::string_view(*text) : std::string_view();
}

}  // namespace kintsugi::net
