#include "server/internal/ca_rotation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <functional>
#include <set>
#include <string>

#include "auth/certificate_end.h"

namespace kintsugi::server {
namespace {

constexpr std::int64_t kDay = 86'400;

/// One CA and what it issues, without a disk.
class Rotation : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto pair = net::make_ca("kintsugi-test", 3650);
    ASSERT_TRUE(pair);
    files_.bundle = pair->certificate_pem;
    files_.key = pair->key_pem;
    first_ = pair->certificate_pem;
  }

  std::string& field(const std::string& suffix) {
    if (suffix == ".crt") {
      return files_.bundle;
    }
    if (suffix == ".next.crt") {
      return files_.next_certificate;
    }
    EXPECT_TRUE(suffix == ".old.crt" || suffix == ".rotation") << suffix;
    return suffix == ".old.crt" ? files_.former : files_.rotation;
  }
  void write(const CaWrite& one) {
    if (one.suffix.ends_with(".key")) {
      EXPECT_TRUE(one.suffix == ".key" || one.suffix == ".next.key") << one.suffix;
      EXPECT_EQ(one.text, "");
      EXPECT_TRUE(one.key.empty() || one.mode == 0600U);
      (one.suffix == ".key" ? files_.key : files_.next_key) = one.key;
    } else {
      EXPECT_TRUE(one.key.empty());
      field(one.suffix) = one.text;
    }
  }

  /// Whoever holds what was issued is trusted, and somebody can issue.
  void check() {
    const auto issuer = issuer_of(files_);
    ASSERT_TRUE(issuer);
    net::CertificateRequest request;
    request.common_name = "x";
    const auto leaf = net::issue(*issuer, request);
    ASSERT_TRUE(leaf);
    leaves_.push_back(leaf->certificate_pem);
    for (const std::string& one : leaves_) {
      EXPECT_TRUE(is_trusted(one)) << "after write " << writes_;
    }
  }
  [[nodiscard]] bool is_trusted(const std::string& leaf) const {
    const auto bundle = net::split_certificates(files_.bundle);
    return std::any_of(bundle.begin(), bundle.end(), [&](const std::string& authority) {
      return net::is_issued_by(leaf, authority);
    });
  }

  /// All steps that are due; dies after `most` writes. @returns whether it lived.
  bool go(std::int64_t now, int most, std::optional<RotationTimes> begin = std::nullopt,
          bool old_used = false) {
    while (true) {
      const auto writes = plan_rotation("kintsugi-test", files_, now, old_used, begin);
      EXPECT_TRUE(writes) << writes.error().to_string();
      if (!writes || writes->empty()) {
        return true;
      }
      begin.reset();
      for (const CaWrite& one : *writes) {
        if (most-- == 0) {
          return false;
        }
        ++writes_;
        write(one);
        check();
      }
    }
  }

  CaFiles files_;
  std::string first_;
  std::vector<std::string> leaves_;
  int writes_ = 0;
  const std::int64_t now_ = std::time(nullptr);
};

TEST_F(Rotation, SE_145_TheNewOneIsTrustedThenIssuesThenTheOldOneLeaves) {
  EXPECT_TRUE(go(now_, 99));
  EXPECT_EQ(writes_, 0) << "young: nothing to do";
  EXPECT_TRUE(go(now_, 99, RotationTimes{now_ + 3600, now_ + 7200}));
  EXPECT_EQ(net::split_certificates(files_.bundle).size(), 2U);
  EXPECT_EQ(issuer_of(files_)->certificate_pem, first_);
  EXPECT_EQ(net::split_certificates(files_.bundle).front(), first_);
  EXPECT_TRUE(former_of(files_).empty());

  EXPECT_TRUE(go(now_ + 3599, 99));
  EXPECT_EQ(issuer_of(files_)->certificate_pem, first_);
  EXPECT_TRUE(go(now_ + 3600, 99));
  const std::string second = issuer_of(files_)->certificate_pem;
  EXPECT_NE(second, first_);
  EXPECT_EQ(net::split_certificates(files_.bundle), (std::vector<std::string>{second, first_}));
  EXPECT_EQ(former_of(files_), std::vector<std::string>{first_});
  EXPECT_TRUE(files_.next_key.empty() && files_.next_certificate.empty());

  EXPECT_TRUE(go(now_ + 7199, 99));
  EXPECT_TRUE(go(now_ + 7200, 99, std::nullopt, true));
  EXPECT_EQ(net::split_certificates(files_.bundle).size(), 2U) << "a leaf of it is still there";
  leaves_.clear();
  EXPECT_TRUE(go(now_ + 7200, 99));
  EXPECT_EQ(net::split_certificates(files_.bundle), std::vector<std::string>{second});
  EXPECT_EQ(former_of(files_), std::vector<std::string>{first_}) << "its leaves are still ours";
  EXPECT_FALSE(times_of(files_));
  EXPECT_TRUE(go(now_ + 9000, 99));
}

TEST_F(Rotation, SE_T062_KilledBetweenAnyTwoWritesItGoesOn) {
  for (int writes = 0; writes < 7; ++writes) {  // more than any step has
    SetUp();
    files_.former = files_.rotation = files_.next_certificate = "";
    files_.next_key = {};
    leaves_.clear();
    const RotationTimes times{now_ + 3600, now_ + 7200};
    EXPECT_EQ(go(now_, writes, times), writes > 3);
    go(now_ + 10, 99, times_of(files_) ? std::nullopt : std::optional(times));
    ASSERT_TRUE(times_of(files_));
    ASSERT_EQ(net::split_certificates(files_.bundle).size(), 2U);
    EXPECT_EQ(go(now_ + 4000, writes), writes > 4);
    EXPECT_TRUE(go(now_ + 4010, 99));
    EXPECT_NE(issuer_of(files_)->certificate_pem, first_);
    EXPECT_TRUE(files_.next_key.empty() && files_.next_certificate.empty());
    leaves_.clear();
    EXPECT_EQ(go(now_ + 8000, writes), writes > 1);
    EXPECT_TRUE(go(now_ + 8010, 99));
    EXPECT_EQ(net::split_certificates(files_.bundle).size(), 1U);
    check();
  }
}

TEST_F(Rotation, SE_145_WhoWasAwayGetsTheTimeToReadTheBundle) {
  EXPECT_FALSE(go(now_, 3, RotationTimes{now_ + 3600, now_ + 7200}));  // but for the bundle
  EXPECT_TRUE(times_of(files_));
  EXPECT_TRUE(go(now_ + 30 * kDay, 99));
  EXPECT_EQ(net::split_certificates(files_.bundle).size(), 2U);
  EXPECT_EQ(issuer_of(files_)->certificate_pem, first_) << "nobody trusts the new one yet";
  EXPECT_TRUE(go(now_ + 30 * kDay + kReadersNeed, 99));
  EXPECT_NE(issuer_of(files_)->certificate_pem, first_);
}

TEST_F(Rotation, SE_145_FourHundredDaysBeforeTheEndItBeginsByItself) {
  const std::int64_t end = *auth::first_end_of(first_);
  EXPECT_TRUE(go(end - 401 * kDay, 99));
  EXPECT_EQ(writes_, 0);
  EXPECT_TRUE(go(end - 399 * kDay, 99));
  const auto times = times_of(files_);
  ASSERT_TRUE(times);
  EXPECT_EQ(times->leaves_at, end - 379 * kDay);
  EXPECT_LT(times->old_out_at, end) << "all that it issued has ended before it does";
  EXPECT_EQ(times->old_out_at - times->leaves_at, 365 * kDay);
  EXPECT_TRUE(go(times->leaves_at, 99));
  leaves_.clear();
  // The new one was made by today's clock, so that it is as old as the first: it is followed, too.
  EXPECT_FALSE(go(times->old_out_at, 2));
  EXPECT_EQ(net::split_certificates(files_.bundle).size(), 1U);
  EXPECT_FALSE(times_of(files_));
}

TEST_F(Rotation, SE_145_WhoComesTooLateHurries) {
  const std::int64_t late = *auth::first_end_of(first_) + kDay;
  EXPECT_TRUE(go(late, 99));
  EXPECT_TRUE(go(late + kReadersNeed, 99));
  EXPECT_NE(issuer_of(files_)->certificate_pem, first_);
}

TEST_F(Rotation, SE_145_OthersInTheBundleStay) {
  const auto theirs = net::make_ca("theirs");
  ASSERT_TRUE(theirs);
  files_.bundle += theirs->certificate_pem;
  EXPECT_TRUE(go(now_, 99, RotationTimes{now_, now_}));
  EXPECT_TRUE(go(now_ + kReadersNeed, 99));
  leaves_.clear();
  EXPECT_TRUE(go(now_ + 2 * kReadersNeed, 99));
  const auto bundle = net::split_certificates(files_.bundle);
  EXPECT_EQ(bundle.size(), 2U);
  EXPECT_EQ(bundle.back(), theirs->certificate_pem);

  files_.key = Secret::joined({theirs->key_pem.view(), "broken"});
  files_.bundle = first_;
  EXPECT_FALSE(plan_rotation("kintsugi-test", files_, now_, false));
}

}  // namespace
}  // namespace kintsugi::server
