#include "auth/authenticators.h"

#include <gtest/gtest.h>
#include <openssl/ec.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>

#include <string>
#include <vector>

#include "auth/x509_identity.h"
#include "base/strings.h"
#include "net/x509_maker.h"

namespace kintsugi::auth {
namespace {

constexpr std::int64_t kNow = 1'800'000'000;
using Texts = std::vector<std::string>;

/// What one authentication ended with.
struct Outcome {
  Errc code = Errc::kOk;
  std::optional<UserInfo> user;
  CredentialSource source = CredentialSource::kNone;
};

class Authentication : public ::testing::Test {
 protected:
  void SetUp() override {
    key_ = *JwtKey::generate();
    ServiceAccountTokenConfig config;
    config.keys = {key_};
    tokens_ = std::make_shared<const ServiceAccountTokens>(std::move(config));
  }

  std::shared_ptr<TokenAuthenticator> account_tokens(bool own_cluster_only) {
    ServiceAccountAuthenticator::Params params;
    params.tokens = tokens_;
    params.own_cluster_only = own_cluster_only;
    params.now = [] { return kNow; };
    params.check = [this](const ServiceAccountClaims& claims, auto done) {
      if (claims.uid != living_uid_) {
        done(fail(Errc::kUnauthorized, "gone"));
      } else {
        done({});
      }
    };
    return std::make_shared<ServiceAccountAuthenticator>(std::move(params));
  }

  RequestAuthenticator::Params shard(bool own_cluster_only = false) {
    auto file = *TokenFile::parse("secret,bob,7,\"devs,ops\"\n");
    RequestAuthenticator::Params params;
    params.tokens = std::make_shared<TokenUnion>(
        std::vector<std::shared_ptr<TokenAuthenticator>>{file, account_tokens(own_cluster_only)});
    return params;
  }

  std::string token(ServiceAccountClaims claims) {
    claims.ns = "t1";
    claims.name = "s";
    if (claims.uid.empty()) {
      claims.uid = living_uid_;
    }
    claims.issued_at = claims.issued_at != 0 ? claims.issued_at : kNow;
    claims.expires_at = claims.expires_at != 0 ? claims.expires_at : kNow + 600;
    return *tokens_->issue(claims);
  }

  Outcome ask(RequestAuthenticator::Params params, std::string_view authorization,
              std::string_view cluster = "c1") {
    if (!authorization.empty()) {
      head_.headers.set("authorization", authorization);
    }
    RequestAuthenticator authenticator(std::move(params));
    Outcome outcome;
    int calls = 0;
    authenticator.authenticate_with_source(
        head_.headers, bearer_of(head_.headers), peer_, cluster,
        [&](Expected<RequestAuthenticator::Authenticated> result) {
          ++calls;
          if (result) {
            outcome.user = result->user;
            outcome.source = result->source;
          } else {
            outcome.code = result.error().code();
          }
        });
    EXPECT_EQ(calls, 1);
    return outcome;
  }

  void connect(bool client_ca, bool request_header_ca, const char* name, Texts organizations = {}) {
    CertificateIdentity identity;
    identity.valid = client_ca || request_header_ca;
    identity.from_client_ca = client_ca;
    identity.from_request_header_ca = request_header_ca;
    identity.common_name = name;
    identity.organizations = std::move(organizations);
    identity.sha256_hex = "abc";
    peer_.certificates_der = {"der"};
    peer_.identity = std::make_shared<const CertificateIdentity>(identity);
  }

  std::shared_ptr<const JwtKey> key_;
  std::shared_ptr<const ServiceAccountTokens> tokens_;
  std::string living_uid_ = "uid-1";
  http::RequestHead head_;
  http::PeerInfo peer_;
};

TEST_F(Authentication, WhenCertificateIsValid_GivesUserGroupsAndCredentialId_AM425) {
  connect(true, false, "alice", {"devs"});
  const Outcome outcome = ask(shard(), "");
  ASSERT_TRUE(outcome.user);
  EXPECT_EQ(outcome.user->name, "alice");
  EXPECT_EQ(outcome.user->groups, (Texts{"devs", "system:authenticated"}));
  EXPECT_EQ(*outcome.user->extra_values(kExtraCredentialId), Texts{"X509SHA256=abc"});
  EXPECT_EQ(outcome.source, CredentialSource::kCertificate);
}

TEST_F(Authentication, WhenProxyAsserts_TheHeadersCount_AM426) {
  connect(false, true, "front-proxy");
  head_.headers.add("x-remote-user", "carol");
  head_.headers.add("x-remote-group", "team");
  const Outcome outcome = ask(shard(), "");
  ASSERT_TRUE(outcome.user);
  EXPECT_EQ(outcome.user->name, "carol");
  EXPECT_EQ(outcome.user->groups, (Texts{"team", "system:authenticated"}));
  EXPECT_EQ(outcome.source, CredentialSource::kRequestHeader);
}

TEST_F(Authentication, WhenAnyoneElseAsserts_TheHeadersAreIgnored_AM426) {
  head_.headers.add("x-remote-user", "kcp-admin");
  head_.headers.add("x-remote-group", "system:masters");
  EXPECT_FALSE(ask(shard(), "").user);
  connect(true, false, "mallory");
  EXPECT_EQ(ask(shard(), "").user->name, "mallory");
}

TEST_F(Authentication, WhenProxyNameIsNotAllowed_IsUnauthorized) {
  connect(false, true, "stranger");
  head_.headers.add("x-remote-user", "carol");
  RequestAuthenticator::Params params = shard();
  params.request_header.allowed_names = {"front-proxy"};
  EXPECT_EQ(ask(std::move(params), "").code, Errc::kUnauthorized);
}

TEST_F(Authentication, WhenProxySendsNoUser_IsUnauthorized) {
  connect(false, true, "front-proxy");
  EXPECT_EQ(ask(shard(), "").code, Errc::kUnauthorized);
}

TEST_F(Authentication, WhenCertificateIsUnknown_IsUnauthorized_AM013_FP079) {
  connect(false, false, "alice");
  EXPECT_EQ(ask(shard(), "").code, Errc::kUnauthorized);
  EXPECT_EQ(ask(shard(), "Bearer secret").user->name, "bob");
}

TEST_F(Authentication, WhenCertificateAndBadToken_TheCertificateWins_AM427_FP126) {
  connect(true, false, "kcp-admin", {"system:kcp:admin"});
  const Outcome outcome = ask(shard(), "Bearer nonsense");
  ASSERT_TRUE(outcome.user);
  EXPECT_EQ(outcome.user->name, "kcp-admin");
  EXPECT_EQ(outcome.source, CredentialSource::kCertificate);
}

TEST_F(Authentication, WhenTokenIsInTheFile_GivesItsUser_AM427_FP126) {
  const Outcome outcome = ask(shard(), "bearer  secret");
  ASSERT_TRUE(outcome.user);
  EXPECT_EQ(outcome.user->name, "bob");
  EXPECT_EQ(outcome.user->uid, "7");
  EXPECT_EQ(outcome.user->groups, (Texts{"devs", "ops", "system:authenticated"}));
  EXPECT_EQ(outcome.source, CredentialSource::kToken);
}

TEST_F(Authentication, WhenTokenIsBad_IsUnauthorized_AM013) {
  for (const char* value :
       {"Bearer nonsense", "bearer nonsense", "Bearer a.b.c", "Bearer eyJhbGciOiJub25lIn0.e30."}) {
    EXPECT_EQ(ask(shard(), value).code, Errc::kUnauthorized) << value;
  }
}

TEST_F(Authentication, WhenNoCredentialsAreGiven_PassesOrRejectsAsConfigured) {
  for (const char* value : {"", "Bearer", "Bearer  ", "Basic YWxpY2U6eA==", "Digest x"}) {
    head_.headers.clear();
    const Outcome passed = ask(shard(), value);
    EXPECT_EQ(passed.code, Errc::kOk) << value;
    EXPECT_FALSE(passed.user) << value;
    RequestAuthenticator::Params params = shard();
    params.no_credentials = RequestAuthenticator::NoCredentials::kReject;
    EXPECT_EQ(ask(std::move(params), value).code, Errc::kUnauthorized) << value;
  }
}

TEST_F(Authentication, WhenProxyHasNoTokenMethod_TokensPassUnread_FP080) {
  const Outcome outcome = ask({}, "Bearer anything");
  EXPECT_EQ(outcome.code, Errc::kOk);
  EXPECT_FALSE(outcome.user);
}

TEST_F(Authentication, WhenFailedTokensPass_CertificatesStillFail_R17) {
  RequestAuthenticator::Params params = shard();
  params.pass_failed_tokens = true;
  EXPECT_EQ(ask(params, "Bearer nonsense").code, Errc::kOk);
  connect(false, false, "x");
  EXPECT_EQ(ask(params, "Bearer nonsense").code, Errc::kUnauthorized);
}

TEST_F(Authentication, WhenGroupsAreFiltered_DropListWins_FP070) {
  connect(true, false, "alice", {"system:masters", "devs"});
  RequestAuthenticator::Params params = shard();
  params.filter = true;
  params.drop_groups = default_drop_groups();
  EXPECT_EQ(ask(std::move(params), "").user->groups, (Texts{"devs", "system:authenticated"}));
}

TEST_F(Authentication, WhenServiceAccountTokenIsValid_GivesTheAccount_AM428) {
  ServiceAccountClaims claims;
  claims.cluster = "c1";
  const Outcome outcome = ask(shard(), "Bearer " + token(claims));
  ASSERT_TRUE(outcome.user);
  EXPECT_EQ(outcome.user->name, "system:serviceaccount:t1:s");
  EXPECT_EQ(outcome.user->uid, "uid-1");
  EXPECT_EQ(outcome.user->groups,
            (Texts{"system:serviceaccounts", "system:serviceaccounts:t1", "system:authenticated"}));
  EXPECT_EQ(*outcome.user->extra_values(kExtraScopes), Texts{"cluster:c1"});
  EXPECT_EQ(*outcome.user->extra_values(kExtraClusterName), Texts{"c1"});
  EXPECT_TRUE(outcome.user->extra_values(kExtraCredentialId)->front().starts_with("JTI="));
}

TEST_F(Authentication, WhenServiceAccountTokenDoesNotHold_IsUnauthorized_AM429) {
  ServiceAccountClaims other_uid;
  other_uid.uid = "uid-0";
  EXPECT_EQ(ask(shard(), "Bearer " + token(other_uid)).code, Errc::kUnauthorized);
  ServiceAccountClaims expired;
  expired.expires_at = kNow;
  EXPECT_EQ(ask(shard(), "Bearer " + token(expired)).code, Errc::kUnauthorized);
  ServiceAccountClaims audience;
  audience.audiences = {"vault"};
  EXPECT_EQ(ask(shard(), "Bearer " + token(audience)).code, Errc::kUnauthorized);
  ServiceAccountClaims early;
  early.issued_at = kNow + 3600;
  early.expires_at = kNow + 7200;
  EXPECT_EQ(ask(shard(), "Bearer " + token(early)).code, Errc::kUnauthorized);
  ServiceAccountClaims foreign;
  foreign.cluster = "c2";
  EXPECT_EQ(ask(shard(true), "Bearer " + token(foreign)).code, Errc::kUnauthorized);
  EXPECT_TRUE(ask(shard(false), "Bearer " + token(foreign)).user);
}

TEST_F(Authentication, WhenSignatureIsOfAnotherKey_IsUnauthorized) {
  const std::string good = token({});
  ServiceAccountTokenConfig config;
  config.keys = {*JwtKey::generate()};
  tokens_ = std::make_shared<const ServiceAccountTokens>(std::move(config));
  EXPECT_EQ(ask(shard(), "Bearer " + good).code, Errc::kUnauthorized);
}

/// Whatever the token, the user is this one.
class Gives final : public TokenAuthenticator {
 public:
  explicit Gives(UserInfo user) : user_(std::move(user)) {}
  void authenticate_token(const BearerPtr& /*token*/, const Texts& /*audiences*/,
                          std::string_view /*cluster*/, Done done) override {
    done(std::optional<Result>(Result{user_, {}}));
  }

 private:
  UserInfo user_;
};

TEST_F(Authentication, WhenACredentialBringsTooMuch_SE087_IsUnauthorized) {
  const auto user = [](std::size_t groups, std::size_t values, std::size_t bytes) {
    UserInfo out;
    out.name = "carol";
    for (std::size_t i = 0; i < groups; ++i) {
      out.groups.push_back("g" + std::to_string(i));
    }
    if (values != 0) {
      out.extra = {{"key", Texts(values, std::string(bytes / values - 3 / values, 'x'))}};
    }
    return out;
  };
  struct Case {
    UserInfo user;
    std::size_t token;
    bool good;
  };
  constexpr std::size_t kGroups = 1'000, kExtra = 64 * 1024, kToken = 32 * 1024;
  const Case cases[] = {{user(kGroups, 0, 0), 1, true},
                        {user(kGroups + 1, 0, 0), 1, false},
                        {user(100'000, 0, 0), 1, false},
                        {user(1, 1, kExtra), 1, true},
                        {user(1, 1, kExtra + 1), 1, false},
                        {user(1, 1'024, kExtra + 2'048), 1, false},
                        {user(1, 0, 0), kToken, true},
                        {user(1, 0, 0), kToken + 1, false},
                        {user(kGroups, 1, kExtra), kToken, true},
                        {user(kGroups, 1, kExtra), kToken + 1, false}};
  for (const Case& one : cases) {
    RequestAuthenticator::Params params;
    params.tokens = std::make_shared<Gives>(one.user);
    const Outcome outcome = ask(params, "Bearer " + std::string(one.token, 't'));
    EXPECT_EQ(outcome.user.has_value(), one.good) << one.user.groups.size() << " " << one.token;
    EXPECT_EQ(outcome.code, one.good ? Errc::kOk : Errc::kUnauthorized);
  }
  head_.headers = {};
  for (const std::size_t groups : {kGroups, kGroups + 1}) {
    connect(true, false, "alice", user(groups, 0, 0).groups);
    EXPECT_EQ(ask(shard(), "").user.has_value(), groups == kGroups) << "of a certificate";
    connect(false, true, "front-proxy");
    head_.headers.set("x-remote-user", "carol");
    for (std::size_t i = 0; i < groups; ++i) {
      head_.headers.add("x-remote-group", "g");
    }
    const Outcome asserted = ask(shard(), "");
    EXPECT_EQ(asserted.code, groups == kGroups ? Errc::kOk : Errc::kUnauthorized) << "of a proxy";
    head_.headers = {};
  }
}

TEST_F(Authentication, WhenTokenFileIsBroken_ParseNamesTheLine) {
  const auto bad = TokenFile::parse("a,b,c\nonly,two\n");
  ASSERT_FALSE(bad);
  EXPECT_NE(bad.error().message().find("line 2"), std::string_view::npos);
  EXPECT_FALSE(TokenFile::parse("a,b,c,\"x"));
  EXPECT_FALSE(TokenFile::parse(",b,c"));
  EXPECT_EQ((*TokenFile::parse("# note\n\n a,b,c\r\n"))->size(), 1U);
}

TEST_F(Authentication, WhenTokenFileHasQuotes_SE203_TheyAreReadAsCsvOrRefused) {
  auto file = TokenFile::parse("\"se,cr\"\"et\",\"b,ob\",\t7,\"devs, ops,\"\n");
  ASSERT_TRUE(file);
  RequestAuthenticator::Params params = shard();
  params.tokens = *file;
  const Outcome outcome = ask(params, "Bearer se,cr\"et");
  EXPECT_EQ(outcome.user->name, "b,ob");
  EXPECT_EQ(outcome.user->uid, "7");
  EXPECT_EQ(outcome.user->groups,
            (std::vector<std::string>{"devs", "ops", "system:authenticated"}));
  for (const char* bad :
       {"a\"b,c,d", "\"a\"b,c,d", "\"a\"\"b,c,d", "\"a\" \"b\",c,d", "\"a,b,c", "a,,c", "a,b"}) {
    const auto read = TokenFile::parse(std::string("x,y,z\n") + bad);
    ASSERT_FALSE(read) << bad;
    EXPECT_TRUE(read.error().message().starts_with("line 2: ")) << bad;
    EXPECT_EQ(read.error().message().find("\"a"), std::string_view::npos) << "it is secret";
  }
}

TEST(Jwt, WhenSignedByEitherAlgorithm_Verifies) {
  EVP_PKEY* made = EVP_RSA_gen(2048);
  BIO* bio = BIO_new(BIO_s_mem());
  ASSERT_EQ(PEM_write_bio_PrivateKey_traditional(bio, made, nullptr, nullptr, 0, nullptr, nullptr),
            1);
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  const std::string pem(data, static_cast<std::size_t>(size));
  BIO_free(bio);
  EVP_PKEY_free(made);
  const JwtKeys rsa = *JwtKey::parse_pem(pem);
  const std::shared_ptr<const JwtKey> p256 = *JwtKey::generate();
  const krm::Json claims = krm::Json::object({{"iss", "me"}, {"n", 1}});
  for (const auto& key : {rsa.front(), p256}) {
    const std::string token = *sign_jwt(claims, *key);
    EXPECT_TRUE(verify_jwt(*Bearer(token).jwt(), {p256, rsa.front()}));
    std::string changed = token;
    changed[changed.size() - 10] = changed[changed.size() - 10] == 'A' ? 'B' : 'A';
    EXPECT_FALSE(verify_jwt(*Bearer(changed).jwt(), {p256, rsa.front()}));
    // The public half alone verifies and cannot sign.
    const JwtKeys half = *JwtKey::parse_pem(*key->public_pem());
    EXPECT_TRUE(verify_jwt(*Bearer(token).jwt(), half));
    EXPECT_FALSE(sign_jwt(claims, *half.front()));
    EXPECT_EQ(half.front()->key_id(), key->key_id());
    EXPECT_EQ((*JwtKey::parse_pem(*key->private_pem())).front()->key_id(), key->key_id());
  }
  EXPECT_EQ(rsa.front()->algorithm(), "RS256");
  EXPECT_EQ(rsa.front()->jwk().text({"e"}), "AQAB");
  EXPECT_EQ(p256->jwk().text({"crv"}), "P-256");
  EXPECT_EQ(p256->jwk().text({"x"}).size(), 43U);
}

/// A PEM block as `write` makes it.
template <class Write>
std::string pem_of(Write&& write) {
  BIO* bio = BIO_new(BIO_s_mem());
  EXPECT_EQ(write(bio), 1);
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  std::string text(data, static_cast<std::size_t>(size));
  BIO_free(bio);
  return text;
}

TEST(Jwt, WhenKeysComeInAnyFormOfPem_SE203_TheyAreReadOrRefusedAsAWhole) {
  const std::shared_ptr<const JwtKey> made = *JwtKey::generate();
  const std::string private_pem = *made->private_pem(), public_pem = *made->public_pem();
  const auto is_made = [&](const std::string& text) {
    const Expected<JwtKeys> keys = JwtKey::parse_pem(text);
    return keys && keys->size() == 1 && keys->front()->key_id() == made->key_id();
  };
  const std::string parameters =
      "-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n";
  EXPECT_TRUE(is_made(private_pem));
  EXPECT_TRUE(is_made("a note\n" + parameters + private_pem));
  EXPECT_TRUE(is_made(public_pem));
  EXPECT_TRUE(is_made(public_pem.substr(0, public_pem.size() - 1))) << "no newline at the end";
  EXPECT_EQ((*JwtKey::parse_pem(private_pem + public_pem)).size(), 2U);

  const net::KeyPair ca = *net::make_ca("issuer");
  EXPECT_EQ((*JwtKey::parse_pem(ca.certificate_pem)).front()->key_id(),
            (*JwtKey::parse_pem(ca.key_pem.view())).front()->key_id());

  EVP_PKEY* const rsa = EVP_RSA_gen(2048);
  const std::string traditional = pem_of([&](BIO* bio) {
    unsigned char* der = nullptr;
    const int size = i2d_PublicKey(rsa, &der);
    const int written = PEM_write_bio(bio, "RSA PUBLIC KEY", "", der, size);
    OPENSSL_free(der);
    return written > 0 ? 1 : 0;
  });
  const std::string modern = pem_of([&](BIO* bio) { return PEM_write_bio_PUBKEY(bio, rsa); });
  EVP_PKEY_free(rsa);
  EXPECT_EQ((*JwtKey::parse_pem(traditional)).front()->key_id(),
            (*JwtKey::parse_pem(modern)).front()->key_id());

  EVP_PKEY* const small = EVP_RSA_gen(1024);
  EVP_PKEY* const other = EVP_EC_gen("P-384");
  EVP_PKEY* const edwards = EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519");
  for (EVP_PKEY* const key : {small, other, edwards}) {
    EXPECT_FALSE(JwtKey::parse_pem(
        public_pem + pem_of([&](BIO* bio) { return PEM_write_bio_PUBKEY(bio, key); })));
    EVP_PKEY_free(key);
  }
  const std::string locked = pem_of([&](BIO* bio) {
    EVP_PKEY* const key = EVP_EC_gen("P-256");
    unsigned char phrase[] = "phrase";
    const int written =
        PEM_write_bio_PrivateKey(bio, key, EVP_aes_128_cbc(), phrase, 6, nullptr, nullptr);
    EVP_PKEY_free(key);
    return written;
  });
  for (const std::string& bad :
       {locked, std::string("-----BEGIN PUBLIC KEY-----\n"), std::string("-----BEGIN "),
        std::string("-----BEGIN RSA PUBLIC KEY-----"),
        std::string("-----BEGIN RSA PUBLIC KEY-----\n!!\n-----END RSA PUBLIC KEY-----\n"),
        std::string("-----BEGIN RSA PUBLIC KEY-----\nAAAA\n-----END RSA PUBLIC KEY-----\n"),
        std::string("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"),
        public_pem + "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", parameters,
        std::string()}) {
    const Expected<JwtKeys> keys = JwtKey::parse_pem(bad);
    ASSERT_FALSE(keys) << bad;
    EXPECT_EQ(keys.error().code(), Errc::kConfig);
  }
}

TEST(Jwt, WhenATokenIsNone_SE203_ItIsRefused) {
  const std::string empty = base64url_encode("{}");
  for (const std::string& bad :
       {std::string(), std::string("a"), empty + "." + empty, empty + "." + empty + ".a.b",
        "!." + empty + ".", empty + ".!.", empty + "." + empty + ".!",
        base64url_encode("[]") + "." + empty + ".", empty + "." + base64url_encode("1") + ".",
        empty + "." + base64url_encode("{") + ".",
        base64url_encode(std::string(40, '[') + std::string(40, ']')) + "." + empty + "."}) {
    const Expected<Jwt> jwt = parse_jwt(bad);
    ASSERT_FALSE(jwt) << bad;
    EXPECT_EQ(jwt.error().code(), Errc::kUnauthorized);
  }
  EXPECT_TRUE(parse_jwt(empty + "." + empty + "."));
  const std::shared_ptr<const JwtKey> key = *JwtKey::generate();
  const std::string signed_by_us = *sign_jwt(krm::Json::object(), *key);
  Jwt critical = *parse_jwt(signed_by_us);
  EXPECT_TRUE(verify_jwt(critical, {key}));
  critical.header["crit"] = krm::Json::array({"exp"});
  EXPECT_FALSE(verify_jwt(critical, {key}));
  EXPECT_FALSE((*JwtKey::parse_pem(*key->public_pem())).front()->private_pem());
  EXPECT_FALSE(key->verify("input", "too short"));
}

TEST(Jwt, WhenAlgorithmIsNoneOrSwapped_IsRefused) {
  const std::shared_ptr<const JwtKey> key = *JwtKey::generate();
  const std::string token = *sign_jwt(krm::Json::object(), *key);
  const std::string rest = token.substr(token.find('.'));
  for (const char* algorithm : {"none", "HS256", "RS256", "es256"}) {
    const std::string header = base64url_encode(krm::Json::object({{"alg", algorithm}}).dump());
    EXPECT_FALSE(verify_jwt(*Bearer(header + rest).jwt(), {key})) << algorithm;
  }
  EXPECT_TRUE(verify_jwt(*Bearer(token).jwt(), {key}));
  EXPECT_FALSE(JwtKey::parse_pem("no key"));
}

TEST(ServiceAccountTokens, WhenIssued_CarriesTheClaimsOfAM430) {
  ServiceAccountTokenConfig config;
  config.keys = {*JwtKey::generate()};
  const ServiceAccountTokens tokens(std::move(config));
  ServiceAccountClaims claims;
  claims.ns = "n";
  claims.name = "s";
  claims.uid = "u";
  claims.cluster = "c";
  claims.issued_at = kNow;
  claims.expires_at = kNow + 600;
  claims.bound_kind = "Secret";
  claims.bound_name = "x";
  claims.bound_uid = "y";
  const std::string token = *tokens.issue(claims);
  const krm::Json body = (*parse_jwt(token)).claims;
  EXPECT_EQ(body.text({"sub"}), "system:serviceaccount:n:s");
  EXPECT_EQ(body.text({"iss"}), "https://kcp.default.svc");
  EXPECT_EQ(body.at({"aud"})->items().front().as_string(), "https://kcp.default.svc");
  EXPECT_EQ(body.at({"exp"})->as_integer(), kNow + 600);
  EXPECT_EQ(body.text({"kubernetes.io", "clusterName"}), "c");
  EXPECT_EQ(body.text({"kubernetes.io", "serviceaccount", "uid"}), "u");
  EXPECT_EQ(body.text({"kubernetes.io", "secret", "name"}), "x");
  const auto read = tokens.verify(Bearer(token), {}, kNow);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->bound_uid, "y");
  EXPECT_FALSE(tokens.verify(Bearer(token), {"other"}, kNow));
}

TEST(ServiceAccountTokens, WhenKeysAreRotated_AM432_OldTokensHoldUntilTheirKeyGoes) {
  const std::shared_ptr<const JwtKey> first = *JwtKey::generate();
  const std::shared_ptr<const JwtKey> second = *JwtKey::generate();
  ServiceAccountTokenConfig config;
  config.keys = {first};
  ServiceAccountTokens tokens(std::move(config));
  ServiceAccountClaims claims;
  claims.ns = "n";
  claims.name = "s";
  claims.uid = "u";
  claims.issued_at = kNow;
  claims.expires_at = kNow + 600;
  const std::string old_token = *tokens.issue(claims);
  tokens.set_keys({second, (*JwtKey::parse_pem(*first->public_pem())).front()});
  const std::string new_token = *tokens.issue(claims);
  EXPECT_EQ((*parse_jwt(new_token)).header.text({"kid"}), second->key_id());
  EXPECT_EQ(tokens.jwks().at({"keys"})->size(), 2U);
  EXPECT_TRUE(tokens.verify(Bearer(old_token), {}, kNow));
  EXPECT_TRUE(tokens.verify(Bearer(new_token), {}, kNow));
  tokens.set_keys({second});
  EXPECT_FALSE(tokens.verify(Bearer(old_token), {}, kNow));
  EXPECT_TRUE(tokens.verify(Bearer(new_token), {}, kNow));
}

TEST(ServiceAccountTokens, WhenAskedForDiscovery_GivesKeysAndIssuer_AM432) {
  ServiceAccountTokenConfig config;
  config.keys = {*JwtKey::generate()};
  const ServiceAccountTokens tokens(std::move(config));
  EXPECT_EQ(tokens.jwks().at({"keys"})->size(), 1U);
  EXPECT_EQ(tokens.openid_configuration("https://x/openid/v1/jwks").text({"jwks_uri"}),
            "https://x/openid/v1/jwks");
}

}  // namespace
}  // namespace kintsugi::auth
