#include "auth/jwt.h"

#include <openssl/bio.h>
#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/sha.h>
#include <openssl/x509.h>

#include <algorithm>
#include <array>
#include <utility>

#include "auth/internal/ecdsa_signature.h"
#include "base/reading_counts.h"
#include "base/strings.h"
#include "net/openssl_memory.h"

namespace kintsugi::auth {
namespace {

using BioPtr = net::OpensslPtr<BIO, BIO_free_all>;
using PkeyPtr = net::OpensslPtr<EVP_PKEY, EVP_PKEY_free>;
using X509Ptr = net::OpensslPtr<X509, X509_free>;
using DigestPtr = net::OpensslPtr<EVP_MD_CTX, EVP_MD_CTX_free>;
using BignumPtr = net::OpensslPtr<BIGNUM, BN_free>;
using PkeyContextPtr = net::OpensslPtr<EVP_PKEY_CTX, EVP_PKEY_CTX_free>;

constexpr int kCoordinate = 32;  // bytes of a P-256 integer

std::string integer_text(const BIGNUM* number, int width) {
  std::string out(static_cast<std::size_t>(width), '\0');
  if (BN_bn2binpad(number, reinterpret_cast<unsigned char*>(out.data()), width) != width) {
    return {};
  }
  return out;
}

std::string public_der(EVP_PKEY* key) {
  unsigned char* der = nullptr;
  const int length = i2d_PUBKEY(key, &der);
  if (length <= 0) {
    return {};
  }
  std::string out(reinterpret_cast<const char*>(der), static_cast<std::size_t>(length));
  OPENSSL_free(der);
  return out;
}

/// The type of a usable key: RSA, or EC on P-256.
enum class Kind { kOther, kRsa, kP256 };
Kind kind_of(EVP_PKEY* key) {
  if (EVP_PKEY_is_a(key, "RSA") == 1) {
    return EVP_PKEY_get_bits(key) >= 2048 ? Kind::kRsa : Kind::kOther;
  }
  if (EVP_PKEY_is_a(key, "EC") == 1) {
    std::array<char, 64> group{};
    std::size_t length = 0;
    if (EVP_PKEY_get_group_name(key, group.data(), group.size(), &length) == 1) {
      const std::string_view name(group.data(), length);
      if (name == "prime256v1" || name == "P-256") {
        return Kind::kP256;
      }
    }
  }
  return Kind::kOther;
}

std::string memory_text(BIO* bio) {
  char* data = nullptr;
  const long length = BIO_get_mem_data(bio, &data);
  return length > 0 ? std::string(data, static_cast<std::size_t>(length)) : std::string();
}

std::string parameter(EVP_PKEY* key, const char* name, int width) {
  BIGNUM* raw = nullptr;
  if (EVP_PKEY_get_bn_param(key, name, &raw) != 1) {
    return {};
  }
  BignumPtr number(raw);
  return base64url_encode(integer_text(number.get(), std::max(width, BN_num_bytes(number.get()))));
}

/// Private keys without a passphrase only: never asks on the terminal.
int no_passphrase(char*, int, int, void*) { return -1; }

}  // namespace

JwtKey::JwtKey(evp_pkey_st* key, bool rsa, bool is_private)
    : key_(key), rsa_(rsa), private_(is_private) {
  const std::string der = public_der(key);
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest{};
  SHA256(net::openssl_bytes(der), der.size(), digest.data());
  key_id_ = base64url_encode(
      std::string_view(reinterpret_cast<const char*>(digest.data()), digest.size()));
}

JwtKey::~JwtKey() { EVP_PKEY_free(key_); }

Expected<JwtKeys> JwtKey::parse_pem(std::string_view pem) {
  JwtKeys keys;
  std::size_t at = 0;
  while ((at = pem.find("-----BEGIN ", at)) != std::string_view::npos) {
    std::size_t end = pem.find("-----END ", at);
    end = end == std::string_view::npos ? pem.size() : pem.find('\n', end);
    end = end == std::string_view::npos ? pem.size() : end + 1;
    const std::string_view block = pem.substr(at, end - at);
    at = end;
    if (block.starts_with("-----BEGIN EC PARAMETERS")) {
      continue;
    }
    const bool is_private = block.substr(0, block.find('\n')).find("PRIVATE KEY") != block.npos;
    BioPtr bio(BIO_new_mem_buf(block.data(), static_cast<int>(block.size())));
    PkeyPtr key;
    if (bio && is_private) {
      key.reset(PEM_read_bio_PrivateKey(bio.get(), nullptr, no_passphrase, nullptr));
    } else if (bio && block.starts_with("-----BEGIN CERTIFICATE")) {
      X509Ptr certificate(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
      key.reset(certificate ? X509_get_pubkey(certificate.get()) : nullptr);
    } else if (bio && block.starts_with("-----BEGIN RSA PUBLIC KEY")) {
      const std::size_t body = std::min(block.find('\n'), block.size());
      std::string der64;
      for (const char c : block.substr(body, block.find("-----END") - body)) {
        if (c != '\n' && c != '\r') {
          der64 += c;
        }
      }
      if (const std::optional<std::string> der = base64_decode(der64)) {
        const unsigned char* data = net::openssl_bytes(*der);
        key.reset(d2i_PublicKey(EVP_PKEY_RSA, nullptr, &data, static_cast<long>(der->size())));
      }
    } else if (bio) {
      key.reset(PEM_read_bio_PUBKEY(bio.get(), nullptr, nullptr, nullptr));
    }
    ERR_clear_error();
    const Kind kind = key ? kind_of(key.get()) : Kind::kOther;
    if (kind == Kind::kOther) {
      return fail(Errc::kConfig, "a PEM block is no RSA (2048 bits or more) or P-256 key");
    }
    keys.push_back(
        std::shared_ptr<const JwtKey>(new JwtKey(key.release(), kind == Kind::kRsa, is_private)));
  }
  if (keys.empty()) {
    return fail(Errc::kConfig, "no PEM key");
  }
  return keys;
}

Expected<std::shared_ptr<const JwtKey>> JwtKey::generate() {
  PkeyPtr key(EVP_EC_gen("P-256"));
  if (!key) {
    ERR_clear_error();
    return fail(Errc::kInternal, "a P-256 key could not be made");
  }
  return std::shared_ptr<const JwtKey>(new JwtKey(key.release(), false, true));
}

Expected<std::string> JwtKey::private_pem() const {
  BioPtr bio(BIO_new(BIO_s_mem()));
  if (!private_ || !bio ||
      PEM_write_bio_PrivateKey(bio.get(), key_, nullptr, nullptr, 0, nullptr, nullptr) != 1) {
    ERR_clear_error();
    return fail(Errc::kInternal, "no private key to write");
  }
  return memory_text(bio.get());
}

Expected<std::string> JwtKey::public_pem() const {
  BioPtr bio(BIO_new(BIO_s_mem()));
  if (!bio || PEM_write_bio_PUBKEY(bio.get(), key_) != 1) {
    ERR_clear_error();
    return fail(Errc::kInternal, "the public key cannot be written");
  }
  return memory_text(bio.get());
}

krm::Json JwtKey::jwk() const {
  krm::Json out = krm::Json::object(
      {{"use", "sig"}, {"kid", krm::Json(key_id_)}, {"alg", krm::Json(algorithm())}});
  if (rsa_) {
    out["kty"] = "RSA";
    out["n"] = parameter(key_, OSSL_PKEY_PARAM_RSA_N, 0);
    out["e"] = parameter(key_, OSSL_PKEY_PARAM_RSA_E, 0);
  } else {
    out["kty"] = "EC";
    out["crv"] = "P-256";
    out["x"] = parameter(key_, OSSL_PKEY_PARAM_EC_PUB_X, kCoordinate);
    out["y"] = parameter(key_, OSSL_PKEY_PARAM_EC_PUB_Y, kCoordinate);
  }
  return out;
}

Expected<std::string> JwtKey::sign(std::string_view input) const {
  DigestPtr context(EVP_MD_CTX_new());
  std::size_t length = 0;
  if (!private_ || !context ||
      EVP_DigestSignInit(context.get(), nullptr, EVP_sha256(), nullptr, key_) != 1 ||
      EVP_DigestSign(context.get(), nullptr, &length, net::openssl_bytes(input), input.size()) !=
          1) {
    ERR_clear_error();
    return fail(Errc::kInternal, "the token key cannot sign");
  }
  std::string signature(length, '\0');
  if (EVP_DigestSign(context.get(), reinterpret_cast<unsigned char*>(signature.data()), &length,
                     net::openssl_bytes(input), input.size()) != 1) {
    ERR_clear_error();
    return fail(Errc::kInternal, "the token key cannot sign");
  }
  signature.resize(length);
  if (!rsa_) {
    signature = ecdsa_jws(signature, kCoordinate);
  }
  if (signature.empty()) {
    return fail(Errc::kInternal, "ECDSA signature");
  }
  return signature;
}

bool JwtKey::verify(std::string_view input, std::string_view signature) const {
  const std::string der = rsa_ ? std::string(signature) : ecdsa_der(signature, kCoordinate);
  DigestPtr context(EVP_MD_CTX_new());
  const bool good =
      !der.empty() && context &&
      EVP_DigestVerifyInit(context.get(), nullptr, EVP_sha256(), nullptr, key_) == 1 &&
      EVP_DigestVerify(context.get(), net::openssl_bytes(der), der.size(),
                       net::openssl_bytes(input), input.size()) == 1;
  ERR_clear_error();
  return good;
}

Expected<Jwt> parse_jwt(std::string_view token) {
  ++reading_counts.tokens;
  const std::size_t first = token.find('.');
  const std::size_t second = first == std::string_view::npos ? first : token.find('.', first + 1);
  if (second == std::string_view::npos || token.find('.', second + 1) != std::string_view::npos) {
    return fail(Errc::kUnauthorized, "the token is no JWT");
  }
  Jwt jwt;
  const auto object_of = [](std::string_view part) -> std::optional<krm::Json> {
    const std::optional<std::string> text = base64url_decode(part);
    if (!text) {
      return std::nullopt;
    }
    krm::Json::ParseOptions options;
    options.max_depth = 32;
    Expected<krm::Json> json = krm::Json::parse(*text, options);
    if (!json || !json->is_object()) {
      return std::nullopt;
    }
    return std::move(*json);
  };
  std::optional<krm::Json> header = object_of(token.substr(0, first));
  std::optional<krm::Json> claims = object_of(token.substr(first + 1, second - first - 1));
  std::optional<std::string> signature = base64url_decode(token.substr(second + 1));
  if (!header || !claims || !signature) {
    return fail(Errc::kUnauthorized, "the token is no JWT");
  }
  jwt.header = std::move(*header);
  jwt.claims = std::move(*claims);
  jwt.signing_input = token.substr(0, second);
  jwt.signature = std::move(*signature);
  return jwt;
}

Expected<void> verify_jwt(const Jwt& jwt, const JwtKeys& keys) {
  const std::string_view algorithm = jwt.header.text({"alg"});
  const std::string_view key_id = jwt.header.text({"kid"});
  if (jwt.header.find("crit") != nullptr) {
    return fail(Errc::kUnauthorized, "the token has critical headers");
  }
  // A known kid saves the other keys' signature checks; an unknown one proves nothing.
  const bool known = std::any_of(keys.begin(), keys.end(),
                                 [&](const auto& key) { return key->key_id() == key_id; });
  for (const auto& key : keys) {
    if ((known && key->key_id() != key_id) || key->algorithm() != algorithm) {
      continue;
    }
    if (key->verify(jwt.signing_input, jwt.signature)) {
      return {};
    }
  }
  return fail(Errc::kUnauthorized, "the token's signature is not valid");
}

Expected<std::string> sign_jwt(const krm::Json& claims, const JwtKey& key) {
  const krm::Json header = krm::Json::object(
      {{"alg", krm::Json(key.algorithm())}, {"kid", krm::Json(key.key_id())}, {"typ", "JWT"}});
  std::string token = base64url_encode(header.dump()) + "." + base64url_encode(claims.dump());
  Expected<std::string> signature = key.sign(token);
  if (!signature) {
    return fail(std::move(signature.error()));
  }
  token += "." + base64url_encode(*signature);
  return token;
}

}  // namespace kintsugi::auth
