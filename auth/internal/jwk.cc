#include "auth/internal/jwk.h"

#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/param_build.h>
#include <openssl/rsa.h>

#include <algorithm>
#include <array>
#include <utility>

#include "auth/internal/ecdsa_signature.h"
#include "base/strings.h"
#include "net/openssl_memory.h"

namespace kintsugi::auth {
namespace {

using BignumPtr = net::OpensslPtr<BIGNUM, BN_free>;
using BuilderPtr = net::OpensslPtr<OSSL_PARAM_BLD, OSSL_PARAM_BLD_free>;
using ParamsPtr = net::OpensslPtr<OSSL_PARAM, OSSL_PARAM_free>;
using ContextPtr = net::OpensslPtr<EVP_PKEY_CTX, EVP_PKEY_CTX_free>;
using DigestPtr = net::OpensslPtr<EVP_MD_CTX, EVP_MD_CTX_free>;

constexpr int kMinRsaBits = 2'048, kMaxRsaBits = 8'192;
constexpr std::size_t kMaxExponentBytes = 8;
constexpr std::size_t kEd25519Bytes = 32;

enum class Scheme : std::uint8_t { kPkcs1, kPss, kEcdsa, kEdDsa };
/// `curve` and `width` [bytes of a coordinate] are those of ECDSA.
struct Row {
  JwsAlgorithm algorithm;
  std::string_view name;
  Scheme scheme;
  const EVP_MD* (*digest)();
  std::string_view curve;
  int width;
};
constexpr Row kRows[] = {
    {JwsAlgorithm::kRs256, "RS256", Scheme::kPkcs1, EVP_sha256, "", 0},
    {JwsAlgorithm::kRs384, "RS384", Scheme::kPkcs1, EVP_sha384, "", 0},
    {JwsAlgorithm::kRs512, "RS512", Scheme::kPkcs1, EVP_sha512, "", 0},
    {JwsAlgorithm::kPs256, "PS256", Scheme::kPss, EVP_sha256, "", 0},
    {JwsAlgorithm::kPs384, "PS384", Scheme::kPss, EVP_sha384, "", 0},
    {JwsAlgorithm::kPs512, "PS512", Scheme::kPss, EVP_sha512, "", 0},
    {JwsAlgorithm::kEs256, "ES256", Scheme::kEcdsa, EVP_sha256, "P-256", 32},
    {JwsAlgorithm::kEs384, "ES384", Scheme::kEcdsa, EVP_sha384, "P-384", 48},
    {JwsAlgorithm::kEs512, "ES512", Scheme::kEcdsa, EVP_sha512, "P-521", 66},
    {JwsAlgorithm::kEdDsa, "EdDSA", Scheme::kEdDsa, nullptr, "", 0},
};

const Row& row_of(JwsAlgorithm algorithm) {
  return *std::find_if(std::begin(kRows), std::end(kRows),
                       [algorithm](const Row& row) { return row.algorithm == algorithm; });
}

EVP_PKEY* key_from(const char* type, OSSL_PARAM_BLD* builder) {
  ParamsPtr params(OSSL_PARAM_BLD_to_param(builder));
  ContextPtr context(EVP_PKEY_CTX_new_from_name(nullptr, type, nullptr));
  EVP_PKEY* key = nullptr;
  if (!params || !context || EVP_PKEY_fromdata_init(context.get()) != 1 ||
      EVP_PKEY_fromdata(context.get(), &key, EVP_PKEY_PUBLIC_KEY, params.get()) != 1) {
    return nullptr;
  }
  return key;
}

std::string member(const krm::Json& jwk, std::string_view name) {
  return base64url_decode(jwk.text({name})).value_or("");
}

EVP_PKEY* rsa_key(const krm::Json& jwk) {
  const std::string n = member(jwk, "n"), e = member(jwk, "e");
  if (n.size() > kMaxRsaBits / 8 + 1 || e.empty() || e.size() > kMaxExponentBytes) {
    return nullptr;
  }
  BignumPtr modulus(BN_bin2bn(net::openssl_bytes(n), static_cast<int>(n.size()), nullptr));
  BignumPtr exponent(BN_bin2bn(net::openssl_bytes(e), static_cast<int>(e.size()), nullptr));
  BuilderPtr builder(OSSL_PARAM_BLD_new());
  if (!modulus || !exponent || !builder || BN_num_bits(modulus.get()) < kMinRsaBits ||
      BN_num_bits(modulus.get()) > kMaxRsaBits || BN_is_odd(modulus.get()) != 1 ||
      BN_is_odd(exponent.get()) != 1 || BN_is_one(exponent.get()) == 1 ||
      OSSL_PARAM_BLD_push_BN(builder.get(), OSSL_PKEY_PARAM_RSA_N, modulus.get()) != 1 ||
      OSSL_PARAM_BLD_push_BN(builder.get(), OSSL_PKEY_PARAM_RSA_E, exponent.get()) != 1) {
    return nullptr;
  }
  return key_from("RSA", builder.get());
}

EVP_PKEY* ec_key(const krm::Json& jwk, const Row& row) {
  const std::string x = member(jwk, "x"), y = member(jwk, "y");
  const auto width = static_cast<std::size_t>(row.width);
  BuilderPtr builder(OSSL_PARAM_BLD_new());
  const std::string curve(row.curve);
  const std::string point = "\x04" + x + y;
  if (x.size() != width || y.size() != width || !builder ||
      OSSL_PARAM_BLD_push_utf8_string(builder.get(), OSSL_PKEY_PARAM_GROUP_NAME, curve.c_str(),
                                      0) != 1 ||
      OSSL_PARAM_BLD_push_octet_string(builder.get(), OSSL_PKEY_PARAM_PUB_KEY, point.data(),
                                       point.size()) != 1) {
    return nullptr;
  }
  return key_from("EC", builder.get());
}

EVP_PKEY* ed25519_key(const krm::Json& jwk) {
  const std::string x = member(jwk, "x");
  return x.size() == kEd25519Bytes ? EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, nullptr,
                                                                 net::openssl_bytes(x), x.size())
                                   : nullptr;
}

}  // namespace

std::optional<JwsAlgorithm> parse_jws_algorithm(std::string_view name) noexcept {
  for (const Row& row : kRows) {
    if (row.name == name) {
      return row.algorithm;
    }
  }
  return std::nullopt;
}

std::string known_jws_algorithms() {
  std::string out;
  for (const Row& row : kRows) {
    out += (out.empty() ? "" : ", ") + std::string(row.name);
  }
  return out;
}

VerificationKey::~VerificationKey() { EVP_PKEY_free(key_); }

Expected<std::shared_ptr<const VerificationKey>> VerificationKey::from_jwk(const krm::Json& jwk) {
  const std::string_view type = jwk.text({"kty"}), curve = jwk.text({"crv"});
  EVP_PKEY* key = nullptr;
  Kind kind = Kind::kRsa;
  if (type == "RSA") {
    key = rsa_key(jwk);
  } else if (type == "EC") {
    constexpr Kind kCurves[] = {Kind::kP256, Kind::kP384, Kind::kP521};
    constexpr JwsAlgorithm kSigned[] = {JwsAlgorithm::kEs256, JwsAlgorithm::kEs384,
                                        JwsAlgorithm::kEs512};
    for (std::size_t i = 0; i < std::size(kCurves); ++i) {
      if (const Row& row = row_of(kSigned[i]); row.curve == curve) {
        key = ec_key(jwk, row);
        kind = kCurves[i];
      }
    }
  } else if (type == "OKP" && curve == "Ed25519") {
    key = ed25519_key(jwk);
    kind = Kind::kEd25519;
  }
  ERR_clear_error();
  if (key == nullptr) {
    return fail(Errc::kBadRequest, "no key that can be used");
  }
  std::shared_ptr<VerificationKey> made(new VerificationKey(key, kind));
  made->key_id_ = jwk.text({"kid"});
  if (const std::string_view algorithm = jwk.text({"alg"}); !algorithm.empty()) {
    made->only_ = parse_jws_algorithm(algorithm);
    if (!made->only_ || !made->fits(*made->only_)) {
      return fail(Errc::kBadRequest, "the key is not for signatures");
    }
  }
  if (const std::string_view use = jwk.text({"use"}); !use.empty() && use != "sig") {
    return fail(Errc::kBadRequest, "the key is not for signatures");
  }
  return std::shared_ptr<const VerificationKey>(std::move(made));
}

bool VerificationKey::fits(JwsAlgorithm algorithm) const noexcept {
  const Row& row = row_of(algorithm);
  if (only_ && *only_ != algorithm) {
    return false;
  }
  switch (kind_) {
    case Kind::kRsa:
      return row.scheme == Scheme::kPkcs1 || row.scheme == Scheme::kPss;
    case Kind::kP256:
      return algorithm == JwsAlgorithm::kEs256;
    case Kind::kP384:
      return algorithm == JwsAlgorithm::kEs384;
    case Kind::kP521:
      return algorithm == JwsAlgorithm::kEs512;
    case Kind::kEd25519:
      return row.scheme == Scheme::kEdDsa;
  }
  return false;
}

bool VerificationKey::verify(JwsAlgorithm algorithm, std::string_view input,
                             std::string_view signature) const {
  if (!fits(algorithm)) {
    return false;
  }
  const Row& row = row_of(algorithm);
  const std::string bytes =
      row.scheme == Scheme::kEcdsa ? ecdsa_der(signature, row.width) : std::string(signature);
  DigestPtr context(EVP_MD_CTX_new());
  EVP_PKEY_CTX* of_key = nullptr;  // of `context`
  bool good =
      !bytes.empty() && context &&
      EVP_DigestVerifyInit(context.get(), &of_key, row.digest == nullptr ? nullptr : row.digest(),
                           nullptr, key_) == 1;
  if (good && row.scheme == Scheme::kPss) {
    good = EVP_PKEY_CTX_set_rsa_padding(of_key, RSA_PKCS1_PSS_PADDING) == 1 &&
           EVP_PKEY_CTX_set_rsa_pss_saltlen(of_key, RSA_PSS_SALTLEN_AUTO) == 1;
  }
  good = good && EVP_DigestVerify(context.get(), net::openssl_bytes(bytes), bytes.size(),
                                  net::openssl_bytes(input), input.size()) == 1;
  ERR_clear_error();
  return good;
}

Expected<KeySet> KeySet::parse(std::string_view text) {
  if (text.size() > kMaxBytes) {
    return fail(Errc::kBadRequest, "the document with keys is too large");
  }
  krm::Json::ParseOptions options;
  options.max_depth = 32;
  const Expected<krm::Json> document = krm::Json::parse(text, options);
  const krm::Json* list = document ? document->find("keys") : nullptr;
  if (list == nullptr || !list->is_array() || list->size() > kMaxKeys) {
    return fail(Errc::kBadRequest, "no document with up to 256 keys");
  }
  KeySet set;
  for (const krm::Json& jwk : list->items()) {
    if (auto key = VerificationKey::from_jwk(jwk)) {
      set.keys.push_back(std::move(*key));
    }
  }
  return set;
}

KeySet::Verdict KeySet::check(const Jwt& jwt, const std::vector<JwsAlgorithm>& allowed) const {
  const auto algorithm = parse_jws_algorithm(jwt.header.text({"alg"}));
  if (!algorithm || jwt.header.find("crit") != nullptr ||
      (!allowed.empty() &&
       std::find(allowed.begin(), allowed.end(), *algorithm) == allowed.end())) {
    return Verdict::kBad;
  }
  const std::string_view key_id = jwt.header.text({"kid"});
  bool known = false;
  std::size_t tries = 0;
  for (const auto& key : keys) {
    if (!key_id.empty() && key->key_id() != key_id) {
      continue;
    }
    known = known || !key_id.empty();
    if (!key->fits(*algorithm)) {
      continue;
    }
    if (key->verify(*algorithm, jwt.signing_input, jwt.signature)) {
      return Verdict::kGood;
    }
    if (++tries == kMaxTries) {
      break;
    }
  }
  return known ? Verdict::kBad : Verdict::kUnknownKey;
}

}  // namespace kintsugi::auth
