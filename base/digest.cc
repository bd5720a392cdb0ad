#include "base/digest.h"

#include <openssl/evp.h>

#include <cstdlib>
#include <memory>

#include "base/log.h"
#include "base/strings.h"

namespace kintsugi {
namespace {

struct ContextDeleter {
  void operator()(EVP_MD_CTX* context) const noexcept { EVP_MD_CTX_free(context); }
};
using Context = std::unique_ptr<EVP_MD_CTX, ContextDeleter>;

[[noreturn]] void give_up() {
  log_error("OpenSSL cannot make a digest");
  std::abort();
}

/// Fetched once: each fetch takes a lock of the library. Kept until the process ends.
const EVP_MD* fetched(const char* name) {
  const EVP_MD* const algorithm = EVP_MD_fetch(nullptr, name, nullptr);
  if (algorithm == nullptr) {
    give_up();
  }
  return algorithm;
}

/// @param context  this thread's, bound to the algorithm by its first use.
template <std::size_t Size>
std::array<unsigned char, Size> digest(EVP_MD_CTX* context, const EVP_MD* algorithm,
                                       std::string_view bytes) noexcept {
  std::array<unsigned char, Size> out;
  unsigned int size = 0;
  if (context == nullptr || EVP_DigestInit_ex2(context, algorithm, nullptr) != 1 ||
      EVP_DigestUpdate(context, bytes.data(), bytes.size()) != 1 ||
      EVP_DigestFinal_ex(context, out.data(), &size) != 1 || size != Size) {
    give_up();
  }
  return out;
}

}  // namespace

std::array<unsigned char, 20> sha1(std::string_view bytes) noexcept {
  static const EVP_MD* const algorithm = fetched("SHA1");
  thread_local const Context context(EVP_MD_CTX_new());
  return digest<20>(context.get(), algorithm, bytes);
}

std::array<unsigned char, 28> sha224(std::string_view bytes) noexcept {
  static const EVP_MD* const algorithm = fetched("SHA224");
  thread_local const Context context(EVP_MD_CTX_new());
  return digest<28>(context.get(), algorithm, bytes);
}

std::array<unsigned char, 32> sha256(std::string_view bytes) noexcept {
  static const EVP_MD* const algorithm = fetched("SHA256");
  thread_local const Context context(EVP_MD_CTX_new());
  return digest<32>(context.get(), algorithm, bytes);
}

std::array<unsigned char, 64> sha512(std::string_view bytes) noexcept {
  static const EVP_MD* const algorithm = fetched("SHA512");
  thread_local const Context context(EVP_MD_CTX_new());
  return digest<64>(context.get(), algorithm, bytes);
}

std::string sha256_text(std::string_view bytes) {
  const auto digest = sha256(bytes);
  return {digest.begin(), digest.end()};
}

std::string sha256_hex(std::string_view bytes) { return hex_encode(sha256_text(bytes)); }

}  // namespace kintsugi
