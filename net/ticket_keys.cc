#include "net/ticket_keys.h"

#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/params.h>
#include <openssl/provider.h>
#include <openssl/rand.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/strings.h"
#include "net/openssl_memory.h"

namespace kintsugi::net {
namespace {

using KdfPtr = OpensslPtr<EVP_KDF, EVP_KDF_free>;
using KdfContextPtr = OpensslPtr<EVP_KDF_CTX, EVP_KDF_CTX_free>;
using KeysPtr = std::shared_ptr<TicketKeys>;

/// What may have sealed a ticket that is still good, in hours from now: first this one; the last is
/// that of a replica whose clock is ahead.
constexpr std::int64_t kEpochs[] = {0, -1, -2, 1};
static_assert(TicketKeys::kLifetime <= 2 * TicketKeys::kInterval);

constexpr std::size_t kIvSize = 16;
constexpr std::size_t kKeyBytes = 16 + 32 + 32;  // of the parts of a Key

template <class Bytes>
void* bytes_of(Bytes& bytes) noexcept {
  return const_cast<char*>(reinterpret_cast<const char*>(bytes.data()));
}

TicketKeys::Key derived(const Secret& bytes, std::int64_t epoch) {
  const std::string_view secret = bytes.view();
  static EVP_KDF* const hkdf = EVP_KDF_fetch(library_context(), OSSL_KDF_NAME_HKDF, nullptr);
  const std::string info = "kintsugi session ticket " + std::to_string(epoch);
  char digest[] = "SHA256";
  const OSSL_PARAM params[] = {
      OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest, 0),
      OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, bytes_of(secret), secret.size()),
      OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_INFO, bytes_of(info), info.size()),
      OSSL_PARAM_construct_end()};
  std::array<unsigned char, kKeyBytes> out{};
  const KdfContextPtr context(EVP_KDF_CTX_new(hkdf));
  if (context == nullptr || EVP_KDF_derive(context.get(), out.data(), out.size(), params) != 1) {
    std::abort();  // no memory: a key that others can guess is no way out
  }
  TicketKeys::Key key;
  std::memcpy(key.name.data(), out.data(), key.name.size());
  std::memcpy(key.cipher.data(), out.data() + key.name.size(), key.cipher.size());
  std::memcpy(key.mac.data(), out.data() + key.name.size() + key.cipher.size(), key.mac.size());
  wipe(out.data(), out.size());
  return key;
}

void free_keys(void* /*parent*/, void* keys, CRYPTO_EX_DATA* /*data*/, int /*index*/,
               long /*number*/, void* /*pointer*/) {
  delete static_cast<KeysPtr*>(keys);
}

/// Where a context keeps its KeysPtr, freed with it.
int keys_index() {
  static const int index = SSL_CTX_get_ex_new_index(0, nullptr, nullptr, nullptr, free_keys);
  return index;
}

bool use(const TicketKeys::Key& key, const unsigned char* iv, EVP_CIPHER_CTX* cipher,
         EVP_MAC_CTX* mac, bool seal) {
  static EVP_CIPHER* const aes = EVP_CIPHER_fetch(library_context(), "AES-256-CBC", nullptr);
  char digest[] = "SHA256";
  const OSSL_PARAM params[] = {
      OSSL_PARAM_construct_octet_string(OSSL_MAC_PARAM_KEY, bytes_of(key.mac), key.mac.size()),
      OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
      OSSL_PARAM_construct_end()};
  return EVP_CipherInit_ex2(cipher, aes, key.cipher.data(), iv, seal ? 1 : 0, nullptr) == 1 &&
         EVP_MAC_CTX_set_params(mac, params) == 1;
}

/// @return as SSL_CTX_set_tlsext_ticket_key_evp_cb(3) has it; 2: a new ticket is to follow, so that
/// none is used twice
extern "C" int give_key(SSL* ssl, unsigned char* name, unsigned char* iv, EVP_CIPHER_CTX* cipher,
                        EVP_MAC_CTX* mac, int seal) {
  auto& keys = **static_cast<KeysPtr*>(SSL_CTX_get_ex_data(SSL_get_SSL_CTX(ssl), keys_index()));
  const std::int64_t now = unix_seconds();
  if (seal == 0) {
    const auto key = keys.opening(now, {name, std::tuple_size_v<decltype(TicketKeys::Key::name)>});
    return !key ? 0 : use(*key, iv, cipher, mac, false) ? 2 : -1;
  }
  const TicketKeys::Key key = keys.sealing(now, SSL_version(ssl) >= TLS1_3_VERSION);
  std::memcpy(name, key.name.data(), key.name.size());
  const bool ready =
      RAND_bytes_ex(library_context(), iv, kIvSize, 0) == 1 && use(key, iv, cipher, mac, true);
  return ready ? 1 : -1;
}

}  // namespace

TicketKeys::Key::~Key() {
  wipe(cipher.data(), cipher.size());
  wipe(mac.data(), mac.size());
}

TicketKeys::TicketKeys() { set({}); }

void TicketKeys::set(std::vector<Secret> secrets) {
  const std::scoped_lock lock(mutex_);
  secrets.push_back(secrets_.empty() ? Secret(random_bytes(32)) : std::move(secrets_.back()));
  secrets_ = std::move(secrets);
  epoch_ = -1;
}

void TicketKeys::derive(std::int64_t now) {
  const std::int64_t epoch = now / kInterval;
  if (epoch == epoch_) {
    return;
  }
  epoch_ = epoch;
  keys_.clear();
  for (const Secret& secret : secrets_) {
    for (const std::int64_t offset : kEpochs) {
      keys_.push_back(derived(secret, epoch + offset));
    }
  }
}

TicketKeys::Key TicketKeys::sealing(std::int64_t now, bool tls13) {
  const std::scoped_lock lock(mutex_);
  derive(now);
  return tls13 ? keys_.front() : keys_[keys_.size() - std::size(kEpochs)];
}

std::optional<TicketKeys::Key> TicketKeys::opening(std::int64_t now,
                                                   std::span<const unsigned char> name) {
  const std::scoped_lock lock(mutex_);
  derive(now);
  const auto found = std::find_if(keys_.begin(), keys_.end(), [name](const Key& key) {
    return std::equal(name.begin(), name.end(), key.name.begin(), key.name.end());
  });
  return found == keys_.end() ? std::nullopt : std::optional<Key>(*found);
}

void use_ticket_keys(TlsContext& context, std::shared_ptr<TicketKeys> keys) {
  SSL_CTX* native = context.native();
  auto held = std::make_unique<KeysPtr>(std::move(keys));
  if (SSL_CTX_set_ex_data(native, keys_index(), held.get()) != 1) {
    return;  // no memory: the context goes on with a key of its own
  }
  (void)held.release();
  SSL_CTX_set_timeout(native, TicketKeys::kLifetime);
  SSL_CTX_set_tlsext_ticket_key_evp_cb(native, give_key);
}

OSSL_LIB_CTX* library_context() noexcept {
  static OSSL_LIB_CTX* const context = OSSL_LIB_CTX_set0_default(nullptr);  // changes nothing
  return context;
}

SessionScope::SessionScope() noexcept {
  static OSSL_LIB_CTX* const nothing = [] {
    (void)library_context();
    OSSL_LIB_CTX* made = OSSL_LIB_CTX_new();
    if (made != nullptr && OSSL_PROVIDER_load(made, "null") == nullptr) {
      OSSL_LIB_CTX_free(made);
      made = nullptr;
    }
    return made;
  }();
  before_ = OSSL_LIB_CTX_set0_default(nothing);
}

}  // namespace kintsugi::net
