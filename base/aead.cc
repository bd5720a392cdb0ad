#include "base/aead.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/rand.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <memory>
#include <utility>

#include "base/log.h"

namespace kintsugi {
namespace {

struct CipherContextDeleter {
  void operator()(EVP_CIPHER_CTX* context) const noexcept { EVP_CIPHER_CTX_free(context); }
};
using CipherContext = std::unique_ptr<EVP_CIPHER_CTX, CipherContextDeleter>;

[[noreturn]] void give_up_sealing(std::string_view what) {
  std::string step;
  step.append(what);
  log_error("OpenSSL cannot encrypt", {{"step", std::move(step)}});
  std::abort();
}

/// Fetched once: each fetch takes a lock of the library. Kept until the process ends.
const EVP_CIPHER* cipher_of(std::size_t key_bytes) {
  const auto fetched = [](const char* name) {
    const EVP_CIPHER* const cipher = EVP_CIPHER_fetch(nullptr, name, nullptr);
    if (cipher == nullptr) {
      give_up_sealing(name);
    }
    return cipher;
  };
  switch (key_bytes) {
    case 16: {
      static const EVP_CIPHER* const cipher = fetched("AES-128-GCM");
      return cipher;
    }
    case 24: {
      static const EVP_CIPHER* const cipher = fetched("AES-192-GCM");
      return cipher;
    }
    case 32: {
      static const EVP_CIPHER* const cipher = fetched("AES-256-GCM");
      return cipher;
    }
    default:
      give_up_sealing("size of the key");
  }
}

const unsigned char* bytes_in(std::string_view text) noexcept {
  return reinterpret_cast<const unsigned char*>(text.data());
}

/// OpenSSL counts in int; texts are at most a few MiB.
bool fits(std::string_view text) noexcept {
  return text.size() <= static_cast<std::size_t>(std::numeric_limits<int>::max()) - kGcmTag;
}

}  // namespace

bool is_aes_key_size(std::size_t bytes) noexcept {
  return bytes == 16 || bytes == 24 || bytes == 32;
}

void gcm_seal_with_nonce_for_test(std::string& out, const Secret& key, std::string_view nonce,
                                  std::string_view associated, std::string_view plain) noexcept {
  const CipherContext context(EVP_CIPHER_CTX_new());
  const std::size_t begin = out.size();
  out.resize(begin + kGcmNonce + plain.size() + kGcmTag);
  auto* const to = reinterpret_cast<unsigned char*>(out.data()) + begin;
  std::copy_n(nonce.data(), kGcmNonce, out.data() + begin);
  int written = 0;
  int rest = 0;
  if (context == nullptr || nonce.size() != kGcmNonce || !fits(plain) || !fits(associated) ||
      EVP_EncryptInit_ex2(context.get(), cipher_of(key.size()), bytes_in(key.view()),
                          bytes_in(nonce), nullptr) != 1 ||
      EVP_EncryptUpdate(context.get(), nullptr, &written, bytes_in(associated),
                        static_cast<int>(associated.size())) != 1 ||
      EVP_EncryptUpdate(context.get(), to + kGcmNonce, &written, bytes_in(plain),
                        static_cast<int>(plain.size())) != 1 ||
      EVP_EncryptFinal_ex(context.get(), to + kGcmNonce + written, &rest) != 1 ||
      static_cast<std::size_t>(written) + static_cast<std::size_t>(rest) != plain.size() ||
      EVP_CIPHER_CTX_ctrl(context.get(), EVP_CTRL_AEAD_GET_TAG, kGcmTag,
                          to + kGcmNonce + plain.size()) != 1) {
    give_up_sealing("seal");
  }
}

void gcm_seal(std::string& out, const Secret& key, std::string_view associated,
              std::string_view plain) noexcept {
  unsigned char nonce[kGcmNonce];
  if (RAND_bytes(nonce, kGcmNonce) != 1) {
    give_up_sealing("random numbers");
  }
  gcm_seal_with_nonce_for_test(out, key, {reinterpret_cast<const char*>(nonce), kGcmNonce},
                               associated, plain);
}

std::optional<std::string> gcm_open(const Secret& key, std::string_view associated,
                                    std::string_view sealed) noexcept {
  if (sealed.size() < kGcmNonce + kGcmTag || !fits(sealed) || !fits(associated)) {
    return std::nullopt;
  }
  const std::size_t size = sealed.size() - kGcmNonce - kGcmTag;
  std::string tag;
  tag.append(sealed.data() + kGcmNonce + size, kGcmTag);
  std::string plain(size + 1, '\0');  // never empty: OpenSSL takes null for associated data
  auto* const to = reinterpret_cast<unsigned char*>(plain.data());
  const CipherContext context(EVP_CIPHER_CTX_new());
  int written = 0;
  int rest = 0;
  if (context == nullptr ||
      EVP_DecryptInit_ex2(context.get(), cipher_of(key.size()), bytes_in(key.view()),
                          bytes_in(sealed), nullptr) != 1) {
    give_up_sealing("open");
  }
  const bool good =
      EVP_DecryptUpdate(context.get(), nullptr, &written, bytes_in(associated),
                        static_cast<int>(associated.size())) == 1 &&
      EVP_DecryptUpdate(context.get(), to, &written, bytes_in(sealed) + kGcmNonce,
                        static_cast<int>(size)) == 1 &&
      EVP_CIPHER_CTX_ctrl(context.get(), EVP_CTRL_AEAD_SET_TAG, kGcmTag, tag.data()) == 1 &&
      EVP_DecryptFinal_ex(context.get(), to + written, &rest) == 1;
  if (!good) {
    wipe(plain);
    return std::nullopt;
  }
  plain.resize(size);
  return plain;
}

}  // namespace kintsugi
