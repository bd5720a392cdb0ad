#include "auth/x509_identity.h"

#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <filesystem>
#include <fstream>

#include "auth/authenticators.h"
#include "auth/certificate_cache.h"

namespace kintsugi::auth {
namespace {

constexpr std::int64_t kNow = 1'800'000'000;

/// A certificate and its key, made for one test.
struct Made {
  X509* certificate = nullptr;
  EVP_PKEY* key = nullptr;
  Made() = default;
  Made(const Made&) = delete;
  Made& operator=(const Made&) = delete;
  ~Made() {
    X509_free(certificate);
    EVP_PKEY_free(key);
  }
  std::string pem() const {
    BIO* bio = BIO_new(BIO_s_mem());
    PEM_write_bio_X509(bio, certificate);
    char* data = nullptr;
    const long size = BIO_get_mem_data(bio, &data);
    std::string out(data, static_cast<std::size_t>(size));
    BIO_free(bio);
    return out;
  }
  std::string der() const {
    unsigned char* data = nullptr;
    const int size = i2d_X509(certificate, &data);
    std::string out(reinterpret_cast<char*>(data), static_cast<std::size_t>(size));
    OPENSSL_free(data);
    return out;
  }
};

struct Spec {
  std::string cn = {};
  std::vector<std::string> organizations = {};
  bool ca = false;
  const char* extended_usage = "clientAuth";
  std::int64_t from = kNow - 3600, to = kNow + 3600;
};

void extend(X509* certificate, X509* issuer, int nid, const char* value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, &context, nid, value);
  X509_add_ext(certificate, extension, -1);
  X509_EXTENSION_free(extension);
}

std::unique_ptr<Made> make(const Spec& spec, const Made* issuer) {
  static int serial = 1;
  auto made = std::make_unique<Made>();
  made->key = EVP_EC_gen("P-256");
  made->certificate = X509_new();
  X509* certificate = made->certificate;
  X509_set_version(certificate, 2);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate), serial++);
  ASN1_TIME_set(X509_getm_notBefore(certificate), spec.from);
  ASN1_TIME_set(X509_getm_notAfter(certificate), spec.to);
  X509_NAME* name = X509_get_subject_name(certificate);
  const auto add = [&](const char* field, const std::string& value) {
    X509_NAME_add_entry_by_txt(name, field, MBSTRING_UTF8,
                               reinterpret_cast<const unsigned char*>(value.data()),
                               static_cast<int>(value.size()), -1, 0);
  };
  for (const std::string& organization : spec.organizations) {
    add("O", organization);
  }
  if (!spec.cn.empty()) {
    add("CN", spec.cn);
  }
  X509* signer = issuer != nullptr ? issuer->certificate : certificate;
  X509_set_issuer_name(certificate, X509_get_subject_name(signer));
  X509_set_pubkey(certificate, made->key);
  extend(certificate, signer, NID_basic_constraints,
         spec.ca ? "critical,CA:TRUE" : "critical,CA:FALSE");
  if (!spec.ca) {
    extend(certificate, signer, NID_ext_key_usage, spec.extended_usage);
  }
  X509_sign(certificate, issuer != nullptr ? issuer->key : made->key, EVP_sha256());
  return made;
}

class X509Identity : public ::testing::Test {
 protected:
  std::unique_ptr<Made> client_ca_ = make({.cn = "client-ca", .ca = true}, nullptr);
  std::unique_ptr<Made> proxy_ca_ = make({.cn = "proxy-ca", .ca = true}, nullptr);
  std::shared_ptr<const CertificateVerifier> verifier_ =
      *CertificateVerifier::make({client_ca_->pem(), proxy_ca_->pem()});

  CertificateIdentity identify(const Spec& spec, const Made* issuer) {
    return verifier_->identify({make(spec, issuer)->der()}, kNow);
  }
};

TEST_F(X509Identity, WhenSignedByClientCa_TakesNameAndGroups_AM425) {
  const CertificateIdentity identity =
      identify({.cn = "alice", .organizations = {"devs", "ops"}}, client_ca_.get());
  EXPECT_TRUE(identity.valid);
  EXPECT_TRUE(identity.from_client_ca);
  EXPECT_FALSE(identity.from_request_header_ca);
  EXPECT_EQ(identity.common_name, "alice");
  EXPECT_EQ(identity.organizations, (std::vector<std::string>{"devs", "ops"}));
  EXPECT_EQ(identity.sha256_hex.size(), 64U);
}

TEST_F(X509Identity, WhenSignedByRequestHeaderCa_IsNoUser) {
  const CertificateIdentity identity = identify({.cn = "front-proxy"}, proxy_ca_.get());
  EXPECT_TRUE(identity.valid);
  EXPECT_FALSE(identity.from_client_ca);
  EXPECT_TRUE(identity.from_request_header_ca);
}

TEST_F(X509Identity, WhenCaIsUnknown_IsInvalid_FP079) {
  const auto other = make({.cn = "client-ca", .ca = true}, nullptr);
  EXPECT_FALSE(identify({.cn = "alice"}, other.get()).valid);
}

TEST_F(X509Identity, WhenExpiredOrEarlyOrForServers_IsInvalid) {
  EXPECT_FALSE(identify({.cn = "a", .from = kNow - 9, .to = kNow - 5}, client_ca_.get()).valid);
  EXPECT_FALSE(identify({.cn = "a", .from = kNow + 5, .to = kNow + 9}, client_ca_.get()).valid);
  EXPECT_FALSE(identify({.cn = "a", .extended_usage = "serverAuth"}, client_ca_.get()).valid);
}

TEST_F(X509Identity, WhenChainHasAnIntermediate_IsValid) {
  const auto intermediate = make({.cn = "middle", .ca = true}, client_ca_.get());
  const auto leaf = make({.cn = "bob"}, intermediate.get());
  EXPECT_TRUE(verifier_->identify({leaf->der(), intermediate->der()}, kNow).valid);
  EXPECT_FALSE(verifier_->identify({leaf->der()}, kNow).valid);
}

TEST_F(X509Identity, WhenDerIsGarbage_IsInvalid) {
  EXPECT_FALSE(verifier_->identify({"not der"}, kNow).valid);
  EXPECT_FALSE(verifier_->identify({}, kNow).valid);
}

TEST_F(X509Identity, WhenBundleIsBroken_MakeFails) {
  EXPECT_FALSE(CertificateVerifier::make({"nonsense", ""}));
  EXPECT_FALSE(CertificateVerifier::make(
      {client_ca_->pem() + "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", ""}));
  EXPECT_TRUE(CertificateVerifier::make({}));
}

TEST_F(X509Identity, WhenReloaded_NewConnectionsSeeTheNewCa) {
  auto reloadable = *ReloadableCertificateVerifier::make({client_ca_->pem(), ""});
  const auto hook = make_identify_hook(reloadable);
  const auto leaf = make({.cn = "p", .from = 0, .to = 4'000'000'000}, proxy_ca_.get());
  http::PeerInfo peer;
  EXPECT_EQ(hook(peer), nullptr);
  peer.certificates_der = {leaf->der()};
  const auto is_valid = [&] {
    peer.identity = hook(peer);
    return certificate_of(peer)->from_client_ca;
  };
  EXPECT_FALSE(is_valid());
  EXPECT_FALSE(reloadable->reload({"broken", ""}));
  const auto long_lived =
      make({.cn = "proxy-ca", .ca = true, .from = 0, .to = 4'000'000'000}, nullptr);
  const auto leaf_of_it = make({.cn = "p", .from = 0, .to = 4'000'000'000}, long_lived.get());
  peer.certificates_der = {leaf_of_it->der()};
  EXPECT_FALSE(is_valid());
  ASSERT_TRUE(reloadable->reload({long_lived->pem(), ""}));
  EXPECT_TRUE(is_valid());
}

class CertificateCacheTest : public X509Identity {
 protected:
  std::shared_ptr<ReloadableCertificateVerifier> reloadable_ =
      *ReloadableCertificateVerifier::make({client_ca_->pem(), ""});
  CertificateCache cache_{reloadable_};
};

TEST_F(CertificateCacheTest, WhenAChainIsKnown_AnswersTheSameUntilItsTimeIsOver) {
  const auto leaf =
      make({.cn = "alice", .organizations = {"devs"}, .to = kNow + 5}, client_ca_.get());
  const CertificateIdentity first = cache_.identify({leaf->der()}, kNow);
  EXPECT_TRUE(first.valid);
  EXPECT_EQ(cache_.size(), 1U);
  const CertificateIdentity again = cache_.identify({leaf->der()}, kNow + 5);
  EXPECT_TRUE(again.valid);
  EXPECT_TRUE(again.from_client_ca);
  EXPECT_EQ(again.common_name, "alice");
  EXPECT_EQ(again.organizations, first.organizations);
  EXPECT_EQ(again.sha256_hex, first.sha256_hex);
  EXPECT_FALSE(cache_.identify({leaf->der()}, kNow + 6).valid);
  EXPECT_EQ(cache_.size(), 0U);
}

TEST_F(CertificateCacheTest, WhenTheClockIsPutBack_TheChainIsVerifiedAgain) {
  const auto leaf = make({.cn = "alice", .from = kNow}, client_ca_.get());
  EXPECT_TRUE(cache_.identify({leaf->der()}, kNow).valid);
  EXPECT_FALSE(cache_.identify({leaf->der()}, kNow - 1).valid);
}

TEST_F(CertificateCacheTest, WhenAnAuthorityEndsBeforeTheLeaf_TheLeafEndsWithIt) {
  const auto middle = make({.cn = "middle", .ca = true, .to = kNow + 5}, client_ca_.get());
  const auto leaf = make({.cn = "bob"}, middle.get());
  const std::vector<std::string> chain = {leaf->der(), middle->der()};
  EXPECT_TRUE(cache_.identify(chain, kNow).valid);
  EXPECT_FALSE(cache_.identify({leaf->der()}, kNow).valid);  // another chain, another answer
  EXPECT_TRUE(cache_.identify(chain, kNow + 5).valid);
  EXPECT_FALSE(cache_.identify(chain, kNow + 6).valid);
}

TEST_F(CertificateCacheTest, WhenTheAuthorityIsReplaced_ForgetsAll) {
  const auto leaf = make({.cn = "alice"}, client_ca_.get());
  EXPECT_TRUE(cache_.identify({leaf->der()}, kNow).valid);
  ASSERT_TRUE(reloadable_->reload({proxy_ca_->pem(), ""}));
  EXPECT_FALSE(cache_.identify({leaf->der()}, kNow).valid);
  ASSERT_TRUE(reloadable_->reload({client_ca_->pem(), ""}));
  EXPECT_TRUE(cache_.identify({leaf->der()}, kNow).valid);
}

TEST_F(CertificateCacheTest, WhenRefused_IsNotKept) {
  const auto stranger = make({.cn = "alice"}, proxy_ca_.get());
  EXPECT_FALSE(cache_.identify({stranger->der()}, kNow).valid);
  EXPECT_FALSE(cache_.identify({"not der"}, kNow).valid);
  EXPECT_FALSE(cache_.identify({}, kNow).valid);
  EXPECT_EQ(cache_.size(), 0U);
}

TEST_F(X509Identity, WhenFilesAreLoaded_ErrorsNameTheFile) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("kintsugi-auth-" + client_ca_->pem().substr(60, 8));
  std::filesystem::create_directories(folder);
  const std::string good = folder / "ca.crt";
  std::ofstream(good) << client_ca_->pem();
  const Expected<CaBundles> loaded = load_ca_bundles(good, "");
  const Expected<CaBundles> missing = load_ca_bundles(folder / "none.crt", "");
  std::filesystem::remove_all(folder);
  ASSERT_TRUE(loaded);
  EXPECT_EQ(loaded->client_ca_pem, client_ca_->pem());
  ASSERT_FALSE(missing);
  EXPECT_NE(missing.error().message().find("none.crt"), std::string_view::npos);
}

}  // namespace
}  // namespace kintsugi::auth
