#include "auth/internal/jwk.h"

#include <gtest/gtest.h>
#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/ecdsa.h>
#include <openssl/evp.h>
#include <openssl/rsa.h>

#include <string>
#include <vector>

#include "base/strings.h"
#include "net/openssl_memory.h"

namespace kintsugi::auth {
namespace {

using krm::Json;
using Verdict = KeySet::Verdict;

using KeyPtr = net::OpensslPtr<EVP_PKEY, EVP_PKEY_free>;

std::string number(EVP_PKEY* key, const char* name, int width) {
  BIGNUM* found = nullptr;
  EXPECT_EQ(EVP_PKEY_get_bn_param(key, name, &found), 1);
  std::string out(static_cast<std::size_t>(width == 0 ? BN_num_bytes(found) : width), '\0');
  BN_bn2binpad(found, reinterpret_cast<unsigned char*>(out.data()), static_cast<int>(out.size()));
  BN_free(found);
  return base64url_encode(out);
}

/// A private key of every type, with its public half as a JSON Web Key.
struct Signer {
  std::string algorithm;
  KeyPtr key;
  Json jwk;
  int width = 0;  // of ECDSA

  explicit Signer(std::string name) : algorithm(std::move(name)) {
    jwk = Json::object({{"kid", "k1"}});
    if (algorithm == "EdDSA") {
      key.reset(EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519"));
      std::string raw(32, '\0');
      std::size_t size = raw.size();
      EVP_PKEY_get_raw_public_key(key.get(), reinterpret_cast<unsigned char*>(raw.data()), &size);
      jwk["kty"] = "OKP";
      jwk["crv"] = "Ed25519";
      jwk["x"] = base64url_encode(raw);
    } else if (algorithm.starts_with("ES")) {
      const bool is256 = algorithm == "ES256", is384 = algorithm == "ES384";
      width = is256 ? 32 : is384 ? 48 : 66;
      const char* curve = is256 ? "P-256" : is384 ? "P-384" : "P-521";
      key.reset(EVP_EC_gen(curve));
      jwk["kty"] = "EC";
      jwk["crv"] = curve;
      jwk["x"] = number(key.get(), OSSL_PKEY_PARAM_EC_PUB_X, width);
      jwk["y"] = number(key.get(), OSSL_PKEY_PARAM_EC_PUB_Y, width);
    } else {
      key.reset(EVP_RSA_gen(2048));
      jwk["kty"] = "RSA";
      jwk["n"] = number(key.get(), OSSL_PKEY_PARAM_RSA_N, 0);
      jwk["e"] = number(key.get(), OSSL_PKEY_PARAM_RSA_E, 0);
    }
  }

  [[nodiscard]] std::string sign(const Json& header) const {
    std::string token = base64url_encode(header.dump()) + "." + base64url_encode(R"({"sub":"a"})");
    const EVP_MD* digest = algorithm == "EdDSA"         ? nullptr
                           : algorithm.ends_with("256") ? EVP_sha256()
                           : algorithm.ends_with("384") ? EVP_sha384()
                                                        : EVP_sha512();
    EVP_MD_CTX* context = EVP_MD_CTX_new();
    EVP_PKEY_CTX* of_key = nullptr;
    EXPECT_EQ(EVP_DigestSignInit(context, &of_key, digest, nullptr, key.get()), 1);
    if (algorithm.starts_with("PS")) {
      EVP_PKEY_CTX_set_rsa_padding(of_key, RSA_PKCS1_PSS_PADDING);
      EVP_PKEY_CTX_set_rsa_pss_saltlen(of_key, RSA_PSS_SALTLEN_DIGEST);
    }
    const auto* input = reinterpret_cast<const unsigned char*>(token.data());
    std::size_t size = 0;
    EVP_DigestSign(context, nullptr, &size, input, token.size());
    std::string bytes(size, '\0');
    EXPECT_EQ(EVP_DigestSign(context, reinterpret_cast<unsigned char*>(bytes.data()), &size, input,
                             token.size()),
              1);
    EVP_MD_CTX_free(context);
    bytes.resize(size);
    if (width != 0) {
      const auto* der = reinterpret_cast<const unsigned char*>(bytes.data());
      ECDSA_SIG* pair = d2i_ECDSA_SIG(nullptr, &der, static_cast<long>(bytes.size()));
      bytes.assign(2 * static_cast<std::size_t>(width), '\0');
      auto* out = reinterpret_cast<unsigned char*>(bytes.data());
      BN_bn2binpad(ECDSA_SIG_get0_r(pair), out, width);
      BN_bn2binpad(ECDSA_SIG_get0_s(pair), out + width, width);
      ECDSA_SIG_free(pair);
    }
    return token + "." + base64url_encode(bytes);
  }
  [[nodiscard]] std::string sign() const {
    return sign(Json::object({{"alg", Json(algorithm)}, {"kid", "k1"}}));
  }
};

KeySet set_of(const std::vector<Json>& keys) {
  Json document;
  document["keys"] = Json::array();
  for (const Json& key : keys) {
    document["keys"].push_back(key);
  }
  auto set = KeySet::parse(document.dump());
  EXPECT_TRUE(set);
  return std::move(*set);
}

Verdict verdict(const KeySet& keys, const std::string& token,
                const std::vector<JwsAlgorithm>& allowed = {}) {
  const auto jwt = parse_jwt(token);
  EXPECT_TRUE(jwt);
  return keys.check(*jwt, allowed);
}

class EveryAlgorithm : public ::testing::TestWithParam<const char*> {};

TEST_P(EveryAlgorithm, WhenSigned_HoldsUntilAByteDiffers) {
  const Signer signer(GetParam());
  const KeySet keys = set_of({signer.jwk});
  std::string token = signer.sign();
  EXPECT_EQ(verdict(keys, token), Verdict::kGood);
  EXPECT_EQ(verdict(keys, token, {*parse_jws_algorithm(GetParam())}), Verdict::kGood);
  const JwsAlgorithm other =
      std::string(GetParam()) == "RS256" ? JwsAlgorithm::kEs256 : JwsAlgorithm::kRs256;
  EXPECT_EQ(verdict(keys, token, {other}), Verdict::kBad);
  const Signer stranger(GetParam());
  EXPECT_EQ(verdict(set_of({stranger.jwk}), token), Verdict::kBad);
  const std::size_t dot = token.find('.');
  token[dot + 3] = token[dot + 3] == 'X' ? 'Y' : 'X';
  if (parse_jwt(token)) {
    EXPECT_NE(verdict(keys, token), Verdict::kGood);
  }
}
INSTANTIATE_TEST_SUITE_P(Jwk, EveryAlgorithm,
                         ::testing::Values("RS256", "RS384", "RS512", "PS256", "PS384", "PS512",
                                           "ES256", "ES384", "ES512", "EdDSA"));

TEST(KeySet, WhenTheAlgorithmIsNoneOrAnHmac_Refuses) {
  const Signer signer("RS256");
  const KeySet keys = set_of({signer.jwk});
  const std::string body = base64url_encode("{}");
  for (const char* name : {"none", "None", "HS256", "HS512", "", "rs256"}) {
    const std::string head = base64url_encode(Json::object({{"alg", name}, {"kid", "k1"}}).dump());
    EXPECT_EQ(verdict(keys, head + "." + body + "."), Verdict::kBad) << name;
    EXPECT_EQ(verdict(keys, head + "." + body + "." + signer.sign().substr(60)), Verdict::kBad);
  }
}

TEST(KeySet, WhenTheHeaderNamesAnotherAlgorithmThanTheSignature_Refuses) {
  const Signer signer("RS256");
  const KeySet keys = set_of({signer.jwk});
  for (const char* name : {"RS384", "PS256", "ES256", "EdDSA"}) {
    const Json header = Json::object({{"alg", name}, {"kid", "k1"}});
    EXPECT_EQ(verdict(keys, signer.sign(header)), Verdict::kBad) << name;
  }
  EXPECT_EQ(verdict(keys, signer.sign(Json::object(
                              {{"alg", "RS256"}, {"kid", "k1"}, {"crit", Json::array({"b64"})}}))),
            Verdict::kBad);
}

TEST(KeySet, WhenTheKeyIdIsUnknownOrMissing_SaysThatNewerKeysMightKnow) {
  const Signer signer("ES256"), other("ES256");
  const KeySet keys = set_of({other.jwk, signer.jwk});
  const Json unknown = Json::object({{"alg", "ES256"}, {"kid", "k9"}});
  EXPECT_EQ(verdict(keys, signer.sign(unknown)), Verdict::kUnknownKey);
  const Json without = Json::object({{"alg", "ES256"}});
  EXPECT_EQ(verdict(keys, signer.sign(without)), Verdict::kGood);
  EXPECT_EQ(verdict(set_of({other.jwk}), signer.sign(without)), Verdict::kUnknownKey);
  EXPECT_EQ(verdict(set_of({}), signer.sign()), Verdict::kUnknownKey);
}

TEST(KeySet, WhenKeysAreOfNoUse_LeavesThemOut) {
  const Signer rsa("RS256"), ec("ES256");
  Json encryption = rsa.jwk, symmetric, weak = rsa.jwk, off_curve = ec.jwk, wrong_curve = ec.jwk;
  encryption["use"] = "enc";
  symmetric["kty"] = "oct";
  symmetric["k"] = "AAAA";
  weak["n"] = base64url_encode(std::string(128, '\xff'));
  off_curve["y"] = base64url_encode(std::string(32, '\x01'));
  wrong_curve["crv"] = "P-384";
  Json huge = rsa.jwk, even = rsa.jwk, exchange = rsa.jwk;
  huge["n"] = base64url_encode(std::string(4096, '\xff'));
  even["e"] = base64url_encode(std::string("\x02", 1));
  exchange["alg"] = "RSA-OAEP";
  EXPECT_TRUE(set_of({encryption, symmetric, weak, off_curve, wrong_curve, huge, even, exchange,
                      Json(1), Json()})
                  .keys.empty());
  Json bound = rsa.jwk;
  bound["alg"] = "PS256";
  EXPECT_EQ(verdict(set_of({bound}), rsa.sign()), Verdict::kBad);
}

TEST(KeySet, WhenTheDocumentIsNoneOrTooLarge_Refuses) {
  for (const char* text : {"", "[]", "{}", R"({"keys":{}})", R"({"keys":[)"}) {
    EXPECT_FALSE(KeySet::parse(text)) << text;
  }
  Json many;
  for (std::size_t i = 0; i <= KeySet::kMaxKeys; ++i) {
    many["keys"].push_back(Json::object());
  }
  EXPECT_FALSE(KeySet::parse(many.dump()));
  EXPECT_FALSE(KeySet::parse(R"({"keys":[]})" + std::string(KeySet::kMaxBytes, ' ')));
}

// RFC 8037 A.4.
TEST(KeySet, WhenTheVectorOfTheRfcIsChecked_Holds) {
  const auto ed = VerificationKey::from_jwk(*Json::parse(
      R"({"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"})"));
  ASSERT_TRUE(ed);
  EXPECT_TRUE((*ed)->verify(
      JwsAlgorithm::kEdDsa, "eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc",
      *base64url_decode("hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4"
                        "iylGjg5BhVsPt9g7sVvpAr_MuM0KAg")));
}

}  // namespace
}  // namespace kintsugi::auth
