#include "auth/x509_identity.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "auth/authenticators.h"
#include "auth/certificate_proofs.h"
#include "auth/testing/certificates.h"

namespace kintsugi::auth {
namespace {

using testing::kNow;
using testing::Made;
using testing::make;
using testing::Spec;

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
  net::Loop loop("test");
  CertificateProofs proofs(loop, reloadable, CertificateProofs::plain());
  net::ListenerParams listener;
  proofs.serve(listener);
  const auto& hook = listener.identify;
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

TEST_F(X509Identity, WhenListsAreLoaded_SE203_ErrorsNameTheFile) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("kintsugi-crl-" + client_ca_->pem().substr(60, 8));
  std::filesystem::create_directories(folder);
  const std::string good = folder / "good.crl", bad = folder / "bad.crl", empty = folder / "empty";
  std::ofstream(good) << testing::crl(*client_ca_, {client_ca_.get()});
  std::ofstream(bad) << "nonsense";
  std::ofstream(empty) << "";
  const std::string ca = folder / "ca.crt";
  std::ofstream(ca) << client_ca_->pem();
  EXPECT_EQ(*load_revocations("", client_ca_->pem(), {}), nullptr);
  const auto fault = [](const auto& loaded) {
    return loaded ? std::string() : std::string(loaded.error().message());
  };
  const auto loaded = load_revocations(good, client_ca_->pem(), {});
  ASSERT_TRUE(loaded) << fault(loaded);
  EXPECT_EQ((*loaded)->size(), 1U);
  for (const std::string& file : {bad, empty, std::string(folder / "none")}) {
    EXPECT_TRUE(fault(load_revocations(file, client_ca_->pem(), {})).starts_with(file + ": "));
  }
  const auto bundles = load_ca_bundles(ca, ca, {good, good, {}});
  ASSERT_TRUE(bundles) << fault(bundles);
  EXPECT_TRUE(CertificateVerifier::make(*bundles));
  EXPECT_EQ(load_ca_bundles(ca, "", {empty, "", {}})->client_crl_pem, " ") << "an empty one is one";
  EXPECT_NE(fault(load_ca_bundles(bad, "")).find("bad.crl"), std::string::npos);
  EXPECT_NE(fault(load_ca_bundles(ca, bad)).find("bad.crl"), std::string::npos);
  EXPECT_NE(fault(load_ca_bundles(ca, "", {folder / "none", "", {}})).find("none"),
            std::string::npos);
  CaBundles broken = *bundles;
  broken.request_header_crl_pem = "nonsense";
  EXPECT_NE(fault(CertificateVerifier::make(broken)).find("good.crl"), std::string::npos);
  EXPECT_FALSE(ReloadableCertificateVerifier::make(broken));
  broken.request_header_ca_pem = "nonsense";
  EXPECT_NE(fault(CertificateVerifier::make(broken)).find("request-header CA"), std::string::npos);
  std::filesystem::remove_all(folder);
}

class RevokedIdentity : public X509Identity {
 protected:
  CertificateIdentity identify(const std::string& crl_pem, const Made& leaf,
                               net::CrlRules rules = {}, std::int64_t now = kNow,
                               std::int64_t* until = nullptr) {
    CaBundles bundles{client_ca_->pem(), ""};
    bundles.client_crl_pem = crl_pem;
    bundles.crl = rules;
    auto verifier = CertificateVerifier::make(bundles);
    EXPECT_TRUE(verifier) << verifier.error().message();
    return (*verifier)->identify({leaf.der()}, now, until);
  }
  std::unique_ptr<Made> alice_ = make({.cn = "alice"}, client_ca_.get());
  std::unique_ptr<Made> bob_ = make({.cn = "bob"}, client_ca_.get());
};

TEST_F(RevokedIdentity, WhenTheSerialIsListed_SE044_OnlyThatCertificateIsRefused) {
  const std::string crl = testing::crl(*client_ca_, {alice_.get()});
  EXPECT_FALSE(identify(crl, *alice_).valid);
  EXPECT_TRUE(identify(crl, *bob_).valid);
}

TEST_F(RevokedIdentity, WhenTheListRunsOut_SE044_ItIsRefusedOrCountsOn) {
  const std::string crl = testing::crl(*client_ca_, {alice_.get()}, {.to = kNow + 5});
  std::int64_t until = 0;
  EXPECT_TRUE(identify(crl, *bob_, {}, kNow, &until).valid);
  EXPECT_EQ(until, kNow + 6);
  EXPECT_FALSE(identify(crl, *bob_, {}, kNow + 6).valid);
  net::CrlRules warn;
  warn.stale_is_refused = false;
  EXPECT_TRUE(identify(crl, *bob_, warn, kNow + 6).valid);
  EXPECT_FALSE(identify(crl, *alice_, warn, kNow + 6).valid);
}

TEST_F(RevokedIdentity, WhenOnlyAnotherAuthorityHasAList_SE141_ItIsAcceptedUnlessRequired) {
  const std::string crl = testing::crl(*proxy_ca_, {alice_.get()});
  EXPECT_TRUE(identify(crl, *alice_).valid);
  net::CrlRules required;
  required.is_required = true;
  EXPECT_FALSE(identify(crl, *alice_, required).valid);
}

TEST_F(RevokedIdentity, WhenAnIntermediateSignsTheList_SE141_ItIsJudgedWithTheChain) {
  const auto middle = make({.cn = "middle", .ca = true}, client_ca_.get());
  const auto impostor = make({.cn = "middle", .ca = true}, nullptr);
  const auto leaf = make({.cn = "carol"}, middle.get());
  CaBundles bundles{client_ca_->pem(), ""};
  const auto is_valid = [&](const std::string& crl) {
    bundles.client_crl_pem = crl;
    return (*CertificateVerifier::make(bundles))
        ->identify({leaf->der(), middle->der()}, kNow)
        .valid;
  };
  EXPECT_FALSE(is_valid(testing::crl(*middle, {leaf.get()})));
  EXPECT_TRUE(is_valid(testing::crl(*impostor, {leaf.get()}))) << "somebody else's of that name";
  EXPECT_FALSE(is_valid(testing::crl(*client_ca_, {middle.get()}))) << "its issuer is revoked";
}

TEST_F(RevokedIdentity, WhenAuthoritiesHaveSeveralLists_SE141_TheNewestCounts) {
  const std::string before = testing::crl(*client_ca_, {bob_.get()}, {.from = 1'700'000'000});
  const std::string now = testing::crl(*client_ca_, {alice_.get()}, {.from = 1'700'000'050});
  EXPECT_TRUE(identify(before + now, *bob_).valid);
  EXPECT_FALSE(identify(now + before, *alice_).valid);
}

TEST_F(RevokedIdentity, WhenAListCannotBeBelieved_SE141_LoadingFails) {
  const auto refusal = [&](const std::string& crl) {
    CaBundles bundles{client_ca_->pem(), ""};
    bundles.client_crl_pem = crl;
    const auto made = CertificateVerifier::make(bundles);
    return made ? std::string() : std::string(made.error().message());
  };
  const auto impostor = make({.cn = "client-ca", .ca = true}, nullptr);
  EXPECT_NE(refusal(testing::crl(*impostor, {})).find("is not signed by the authority"),
            std::string::npos);
  EXPECT_NE(refusal(testing::crl(*client_ca_, {}, {.from = kNow + 400'000'000})).find("in force"),
            std::string::npos);
  EXPECT_NE(refusal(testing::crl(*client_ca_, {}, {.delta = true})).find("delta"),
            std::string::npos);
  EXPECT_NE(refusal(testing::crl(*client_ca_, {}, {.scope = "indirectCRL:TRUE"})).find("indirect"),
            std::string::npos);
  EXPECT_NE(refusal(testing::crl(*client_ca_, {}, {.scope = "onlyuser:TRUE"})).find("some cert"),
            std::string::npos);
  EXPECT_NE(refusal("").size() + refusal("nonsense").find("no PEM revocation list"),
            std::string::npos);
  EXPECT_NE(refusal(testing::crl(*client_ca_, {}) +
                    "-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----\n")
                .find("malformed"),
            std::string::npos);
}

}  // namespace
}  // namespace kintsugi::auth
