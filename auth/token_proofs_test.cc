// Faked wall clock and judge.
#include "auth/token_proofs.h"

#include <gtest/gtest.h>

#include "auth/jwt.h"
#include "krm/status.h"

namespace kintsugi::auth {
namespace {

constexpr std::int64_t kNow = 1'800'000'000;

class TokenProofsTest : public ::testing::Test {
 protected:
  TokenProofsTest() {
    carol_.name = "carol";
    carol_.groups = {"team"};
  }
  std::shared_ptr<Proof> run(const std::string& token, const std::string& cluster = "c1") {
    auto proof = proofs_.begin();
    proofs_.follow(proof, Bearer(token), cluster, carol_);
    return proof;
  }
  static std::string jwt(std::int64_t exp) {
    static const auto key = *JwtKey::generate();
    return *sign_jwt(krm::Json::object({{"sub", "carol"}, {"exp", krm::Json(exp)}}), *key);
  }

  std::int64_t now_ = kNow;
  UserInfo carol_;
  std::function<Expected<std::optional<UserInfo>>()> verdict_ = [this] {
    return Expected<std::optional<UserInfo>>(carol_);
  };
  std::vector<std::string> asked_;
  net::Loop loop_{"test"};
  TokenProofs::Limits limits_;
  TokenProofs proofs_{
      loop_,
      [this](std::string_view token, const std::string& cluster, TokenProofs::Done done) {
        asked_.push_back(std::string(token) + "@" + cluster);
        done(verdict_());
      },
      limits_, [this] { return now_; }};
};

TEST(Bearer, SE144_WhenItGoes_ItsTextIsOverwritten) {
  alignas(Bearer) unsigned char place[sizeof(Bearer)];
  const auto left = [&] {
    return std::string_view(reinterpret_cast<const char*>(place), sizeof place);
  };
  auto* const token = new (place) Bearer("s3cret-token");  // short: in the string itself
  EXPECT_NE(left().find("s3cret"), std::string_view::npos);
  token->~Bearer();
  EXPECT_EQ(left().find("s3cret"), std::string_view::npos);
}

TEST_F(TokenProofsTest, WhenAJwtRunsOut_SE045_ItsProofEnds) {
  const auto proof = run(jwt(kNow + 30));
  EXPECT_EQ(proof->valid_until, kNow + 30);
  now_ = kNow + 29;
  proofs_.look();
  EXPECT_FALSE(proof->ended);
  now_ = kNow + 30;
  proofs_.look();
  EXPECT_TRUE(proof->ended);
  EXPECT_EQ(proofs_.size(), 0U);
  now_ = kNow;
  proofs_.look();
  EXPECT_TRUE(proof->ended) << "nothing is revived";
}

TEST_F(TokenProofsTest, WhenWhatJudgesChanges_SE046_EachTokenIsAskedAboutOnce) {
  const auto first = run("one"), second = run("one"), other = run("two");
  proofs_.look();
  EXPECT_TRUE(asked_.empty());
  proofs_.ask_all();
  proofs_.look();
  EXPECT_EQ(asked_.size(), 2U);
  proofs_.look();
  EXPECT_EQ(asked_.size(), 2U);
  EXPECT_FALSE(first->ended || second->ended || other->ended) << "the same as before";
}

TEST_F(TokenProofsTest, WhenATokenIsRefused_SE046_AllItsProofsEnd) {
  const auto first = run("one"), second = run("one");
  verdict_ = [] { return Expected<std::optional<UserInfo>>(fail(Errc::kUnauthorized, "no")); };
  proofs_.ask_all();
  proofs_.look();
  EXPECT_TRUE(first->ended);
  EXPECT_TRUE(second->ended);
}

TEST_F(TokenProofsTest, WhenATokenMeansSomebodyElse_SE045_ItsProofEnds) {
  for (const bool nobody : {false, true}) {
    const auto proof = run("one");
    verdict_ = [nobody] {
      UserInfo other;
      other.name = "carol";
      other.groups = {"another-team"};
      return Expected<std::optional<UserInfo>>(nobody ? std::optional<UserInfo>()
                                                      : std::optional<UserInfo>(other));
    };
    proofs_.ask_all();
    proofs_.look();
    EXPECT_TRUE(proof->ended) << nobody;
  }
}

TEST_F(TokenProofsTest, WhenItCannotBeToldNow_SE046_TheProofStays) {
  const auto proof = run("one");
  verdict_ = [] { return Expected<std::optional<UserInfo>>(fail(krm::unavailable("away", 1))); };
  proofs_.ask_all();
  proofs_.look();
  EXPECT_EQ(asked_.size(), 1U);
  EXPECT_FALSE(proof->ended);
}

TEST_F(TokenProofsTest, WhenItHasNotBeenToldForTooLong_SE046_TheProofEnds) {
  TokenProofs::Limits limits;
  limits.patience = Duration{};
  TokenProofs impatient(
      loop_,
      [](std::string_view, const std::string&, const TokenProofs::Done& done) {
        done(fail(krm::unavailable("away", 1)));
      },
      limits, [this] { return now_; });
  auto proof = impatient.begin();
  impatient.follow(proof, Bearer("one"), "", carol_);
  impatient.ask_all();
  impatient.look();
  EXPECT_TRUE(proof->ended);
}

TEST_F(TokenProofsTest, WhenNobodyHoldsAProof_ItIsNotAskedAbout) {
  run("one").reset();
  proofs_.ask_all();
  proofs_.look();
  EXPECT_TRUE(asked_.empty());
  EXPECT_EQ(proofs_.size(), 0U);
}

TEST_F(TokenProofsTest, WhenClustersDiffer_EachIsAskedForItself) {
  const auto here = run("one", "c1"), there = run("one", "c2");
  proofs_.ask_all();
  proofs_.look();
  EXPECT_EQ(asked_.size(), 2U);
  EXPECT_EQ(here->key, there->key);
  EXPECT_EQ(there->cluster, "c2");
}

TEST(TokenExpiry, WhenATokenIsNoJwtOrHasNoEnd_ThereIsNone) {
  const auto key = *JwtKey::generate();
  const auto signed_by = [&](const krm::Json& claims) { return *sign_jwt(claims, *key); };
  EXPECT_EQ(expiry_of(Bearer("opaque")), INT64_MAX);
  EXPECT_EQ(expiry_of(Bearer("a.b.c")), INT64_MAX);
  EXPECT_EQ(expiry_of(Bearer(signed_by(krm::Json::object({{"sub", "x"}})))), INT64_MAX);
  EXPECT_EQ(expiry_of(Bearer(signed_by(krm::Json::object({{"exp", "soon"}})))), INT64_MAX);
  EXPECT_EQ(expiry_of(Bearer(signed_by(krm::Json::object({{"exp", krm::Json(12.9)}})))), 12);
}

}  // namespace
}  // namespace kintsugi::auth
