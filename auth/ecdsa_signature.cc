#include "auth/internal/ecdsa_signature.h"

#include <openssl/bn.h>
#include <openssl/ecdsa.h>

#include "net/openssl_memory.h"

namespace kintsugi::auth {

namespace {

using net::openssl_bytes;
using NumberPtr = net::OpensslPtr<BIGNUM, BN_free>;
using SignaturePtr = net::OpensslPtr<ECDSA_SIG, ECDSA_SIG_free>;

/// Appends the integer; false when it is wider.
bool append(std::string& out, const BIGNUM* number, int width) {
  const std::size_t begin = out.size();
  out.resize(begin + static_cast<std::size_t>(width));
  return BN_bn2binpad(number, reinterpret_cast<unsigned char*>(out.data() + begin), width) == width;
}

}  // namespace

std::string ecdsa_der(std::string_view jws, int width) {
  if (jws.size() != 2 * static_cast<std::size_t>(width)) {
    return {};
  }
  NumberPtr r(BN_bin2bn(openssl_bytes(jws), width, nullptr));
  NumberPtr s(BN_bin2bn(openssl_bytes(jws) + width, width, nullptr));
  const SignaturePtr signature(ECDSA_SIG_new());
  if (!r || !s || !signature || ECDSA_SIG_set0(signature.get(), r.get(), s.get()) != 1) {
    return {};
  }
  (void)r.release();
  (void)s.release();
  unsigned char* der = nullptr;
  const int length = i2d_ECDSA_SIG(signature.get(), &der);
  if (length <= 0) {
    return {};
  }
  std::string out(reinterpret_cast<const char*>(der), static_cast<std::size_t>(length));
  OPENSSL_free(der);
  return out;
}

std::string ecdsa_jws(std::string_view der, int width) {
  const unsigned char* data = openssl_bytes(der);
  const SignaturePtr signature(d2i_ECDSA_SIG(nullptr, &data, static_cast<long>(der.size())));
  std::string out;
  const bool fits = signature && append(out, ECDSA_SIG_get0_r(signature.get()), width) &&
                    append(out, ECDSA_SIG_get0_s(signature.get()), width);
  return fits ? out : std::string();
}

}  // namespace kintsugi::auth
