// Faked wall clock; reviews are stepped.
#include "auth/certificate_proofs.h"

#include <gtest/gtest.h>

#include "auth/testing/certificates.h"

namespace kintsugi::auth {
namespace {

using testing::kNow;
using testing::Made;
using testing::make;

class CertificateProofsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    proofs_.on_ended([this] { ++told_; });
  }
  CertificateProofs::IdentityPtr connect(const Made& leaf) {
    return proofs_.identify({leaf.der()});
  }
  void reload(const std::string& ca, const std::string& crl = "") {
    CaBundles bundles{ca, ""};
    bundles.client_crl_pem = crl;
    const auto reloaded = verifier_->reload(bundles);
    ASSERT_TRUE(reloaded) << reloaded.error().message();
    proofs_.look();
    while (proofs_.review_some()) {
    }
  }
  /// Posted functions run.
  int told() {
    loop_.post([this] { loop_.stop(); });
    loop_.run();
    return told_;
  }

  std::int64_t now_ = kNow;
  int told_ = 0;
  net::Loop loop_{"test"};
  std::unique_ptr<Made> ca_ = make({.cn = "client-ca", .ca = true}, nullptr);
  std::unique_ptr<Made> other_ca_ = make({.cn = "other-ca", .ca = true}, nullptr);
  std::shared_ptr<ReloadableCertificateVerifier> verifier_ =
      *ReloadableCertificateVerifier::make({ca_->pem(), ""});
  CertificateProofs proofs_{loop_, verifier_, CertificateProofs::plain(), [this] { return now_; }};
};

TEST_F(CertificateProofsTest, WhenChainsAreEqual_SE041_ConnectionsShareIdentityAndProof) {
  const auto leaf = make({.cn = "alice", .organizations = {"devs"}, .to = kNow + 5}, ca_.get());
  const auto first = connect(*leaf);
  const auto second = connect(*leaf);
  EXPECT_EQ(first, second);
  ASSERT_NE(first->proof, nullptr);
  EXPECT_EQ(first->proof->valid_until, kNow + 6);
  EXPECT_EQ(first->proof->method, Proof::Method::kCertificate);
  EXPECT_EQ(proofs_.size(), 1U);
  const std::string key(reinterpret_cast<const char*>(first->proof->key.data()), 32);
  EXPECT_EQ(verifier_->share(key, {}), verifier_->share(key, {})) << "one copy of the chain";
  EXPECT_EQ(verifier_->share(key, {})->size(), 1U);
}

TEST_F(CertificateProofsTest, WhenTheCertificateEnds_SE042_TheProofEndsAndNobodyIsThere) {
  const auto leaf = make({.cn = "alice", .to = kNow + 5}, ca_.get());
  const auto identity = connect(*leaf);
  now_ = kNow + 5;
  proofs_.look();
  EXPECT_FALSE(identity->proof->ended);
  EXPECT_EQ(proofs_.current(identity).identity, identity);
  now_ = kNow + 6;
  proofs_.look();
  EXPECT_TRUE(identity->proof->ended);
  EXPECT_EQ(told(), 1);
  const net::PeerVerdict verdict = proofs_.current(identity);
  EXPECT_TRUE(verdict.ended);
  const auto* now = static_cast<const CertificateIdentity*>(verdict.identity.get());
  EXPECT_FALSE(now->valid);
  EXPECT_FALSE(now->from_client_ca);
  EXPECT_EQ(now->common_name, "alice");
  EXPECT_EQ(proofs_.size(), 0U);
  EXPECT_FALSE(connect(*leaf)->valid);
}

TEST_F(CertificateProofsTest, WhenAnAuthorityEndsBeforeTheLeaf_SE040_TheProofEndsWithIt) {
  const auto middle = make({.cn = "middle", .ca = true, .to = kNow + 5}, ca_.get());
  const auto leaf = make({.cn = "bob"}, middle.get());
  const auto identity = proofs_.identify({leaf->der(), middle->der()});
  ASSERT_TRUE(identity->valid);
  EXPECT_FALSE(connect(*leaf)->valid) << "another chain, another answer";
  EXPECT_EQ(identity->proof->valid_until, kNow + 6);
}

TEST_F(CertificateProofsTest, WhenTheClockGoesBack_SE050_NothingIsRevived) {
  const auto leaf = make({.cn = "alice", .to = kNow + 5}, ca_.get());
  const auto ended = connect(*leaf);
  now_ = kNow + 400 * 86'400;
  proofs_.look();
  ASSERT_TRUE(ended->proof->ended);
  now_ = kNow - 60;
  proofs_.look();
  const auto again = connect(*leaf);
  EXPECT_TRUE(again->valid) << "a new handshake is judged by today's clock";
  EXPECT_TRUE(ended->proof->ended);
  EXPECT_TRUE(proofs_.current(ended).ended);
}

TEST_F(CertificateProofsTest, WhenTheClockGoesBackBehindTheBeginning_TheProofEnds) {
  const auto leaf = make({.cn = "alice", .from = kNow}, ca_.get());
  const auto identity = connect(*leaf);
  ASSERT_TRUE(identity->valid);
  now_ = kNow - 86'400;
  proofs_.look();
  while (proofs_.review_some()) {
  }
  EXPECT_TRUE(identity->proof->ended);
  EXPECT_FALSE(connect(*leaf)->valid);
}

TEST_F(CertificateProofsTest, WhenTheAuthorityIsRemoved_SE043_ItsConnectionsEndAndNoOthers) {
  const auto alice = make({.cn = "alice"}, ca_.get());
  const auto bob = make({.cn = "bob"}, other_ca_.get());
  reload(ca_->pem() + other_ca_->pem());
  const auto hers = connect(*alice);
  const auto his = connect(*bob);
  reload(other_ca_->pem());
  EXPECT_TRUE(hers->proof->ended);
  EXPECT_FALSE(his->proof->ended);
  EXPECT_EQ(proofs_.current(his).identity, his);
  reload(ca_->pem() + other_ca_->pem());
  EXPECT_TRUE(proofs_.current(hers).ended) << "adding it again revives nothing";
}

TEST_F(CertificateProofsTest, WhenASerialIsRevoked_SE044_ItsConnectionsEndAndNoOthers) {
  const auto alice = make({.cn = "alice"}, ca_.get());
  const auto bob = make({.cn = "bob"}, ca_.get());
  const auto hers = connect(*alice);
  const auto his = connect(*bob);
  reload(ca_->pem(), testing::crl(*ca_, {alice.get()}, {.to = 4'000'000'000}));
  EXPECT_TRUE(hers->proof->ended);
  EXPECT_FALSE(his->proof->ended);
  EXPECT_EQ(his->proof->valid_until, kNow + 3601) << "the certificate ends before the list";
}

TEST_F(CertificateProofsTest, WhenAListRunsOut_SE044_ByTheTimerOfTheProof) {
  const auto alice = make({.cn = "alice"}, ca_.get());
  reload(ca_->pem(), testing::crl(*ca_, {}, {.to = kNow + 10}));
  const auto identity = connect(*alice);
  EXPECT_EQ(identity->proof->valid_until, kNow + 11);
  now_ = kNow + 11;
  proofs_.look();
  EXPECT_TRUE(identity->proof->ended);
}

TEST_F(CertificateProofsTest, WhenAReloadChangesNothing_SE050_NothingEnds) {
  const auto alice = make({.cn = "alice"}, ca_.get());
  const auto identity = connect(*alice);
  reload(ca_->pem());
  reload(ca_->pem() + other_ca_->pem());
  EXPECT_FALSE(identity->proof->ended);
  EXPECT_EQ(proofs_.current(identity).identity, identity);
  EXPECT_EQ(connect(*alice), identity);
  EXPECT_EQ(told(), 0);
}

TEST_F(CertificateProofsTest, WhenWhatIsMadeOfItChanges_SE043_ConnectionsGoOnWithTheNew) {
  const auto alice = make({.cn = "alice", .organizations = {"devs"}}, ca_.get());
  const auto before = connect(*alice);
  CertificateProofs::Kind without_groups = CertificateProofs::plain();
  without_groups.make = [](CertificateIdentity facts) {
    facts.organizations.clear();
    return std::make_shared<CertificateIdentity>(std::move(facts));
  };
  without_groups.same = [](const CertificateIdentity& a, const CertificateIdentity& b) {
    return a.organizations == b.organizations;
  };
  proofs_.set_kind(without_groups);
  while (proofs_.review_some()) {
  }
  EXPECT_TRUE(before->proof->ended) << "streams that began with the groups end";
  const net::PeerVerdict verdict = proofs_.current(before);
  EXPECT_FALSE(verdict.ended);
  const auto* now = static_cast<const CertificateIdentity*>(verdict.identity.get());
  EXPECT_TRUE(now->valid);
  EXPECT_TRUE(now->organizations.empty());
  EXPECT_FALSE(now->proof->ended);
  EXPECT_EQ(told(), 1);
}

TEST_F(CertificateProofsTest, WhenManyChainsAreThere_SE043_AReviewGoesInSlices) {
  std::vector<CertificateProofs::IdentityPtr> all;
  for (int i = 0; i < 40; ++i) {
    all.push_back(connect(*make({.cn = "user-" + std::to_string(i)}, ca_.get())));
  }
  ASSERT_TRUE(verifier_->reload({other_ca_->pem(), ""}));
  proofs_.look();
  EXPECT_EQ(proofs_.waiting(), 40U) << "nothing is verified in the turn that notices";
  ASSERT_TRUE(proofs_.review_some());
  EXPECT_GT(proofs_.waiting(), 0U);
  while (proofs_.review_some()) {
  }
  for (const auto& identity : all) {
    EXPECT_TRUE(identity->proof->ended);
  }
}

TEST_F(CertificateProofsTest, WhenRefused_IsNotKept) {
  const auto stranger = make({.cn = "alice"}, other_ca_.get());
  EXPECT_FALSE(connect(*stranger)->valid);
  EXPECT_EQ(connect(*stranger)->proof, nullptr);
  EXPECT_FALSE(proofs_.identify({"not der"})->valid);
  EXPECT_EQ(proofs_.identify({}), nullptr);
  EXPECT_EQ(proofs_.size(), 0U);
}

TEST_F(CertificateProofsTest, WhenNobodyHasAChain_ItIsForgottenInTime) {
  (void)connect(*make({.cn = "alice"}, ca_.get()));
  EXPECT_EQ(proofs_.size(), 1U);
  now_ += CertificateProofs::kLongest;
  proofs_.look();
  EXPECT_EQ(proofs_.size(), 0U);
}

}  // namespace
}  // namespace kintsugi::auth
