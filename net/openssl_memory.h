#pragma once

#include <memory>
#include <string_view>

namespace kintsugi::net {

template <auto kFree>
struct OpensslFree {
  template <class T>
  void operator()(T* object) const noexcept {
    kFree(object);
  }
};
/// Owns an object of OpenSSL: OpensslPtr<BIO, BIO_free>.
template <class T, auto kFree>
using OpensslPtr = std::unique_ptr<T, OpensslFree<kFree>>;

/// Text as OpenSSL takes bytes. Not owned.
inline const unsigned char* openssl_bytes(std::string_view text) noexcept {
  return reinterpret_cast<const unsigned char*>(text.data());
}

}  // namespace kintsugi::net
