#include "workers/messaging/control/internal/certificates.h"

#include <gtest/gtest.h>

#include "base/strings.h"

namespace kintsugi::workers {
namespace {

constexpr std::int64_t kNow = 1'800'000'000;

net::CertificateRequest request_for(const std::string& host) {
  net::CertificateRequest out;
  out.common_name = "space-1";
  out.dns_names = {host};
  out.days = kLeafDays;
  out.server = true;
  return out;
}

TEST(MessagingCertificates, MS_068_SecretsSayWhatWasPutIntoThem) {
  const CertificateFiles files{"CRT", "CA", Secret::copy_of("KEY")};
  const krm::Json secret = certificate_secret("s", "ns", files, kNow, kNow + 5);
  EXPECT_EQ(secret.text({"metadata", "namespace"}), "ns");
  EXPECT_EQ(secret.text({"data", "tls.key"}), base64_encode("KEY"));
  const CertificateFiles read = files_of(secret);
  EXPECT_EQ(read.certificate, "CRT");
  EXPECT_EQ(read.authority, "CA");
  EXPECT_EQ(read.key.view(), "KEY");
  EXPECT_EQ(written_at(secret), kNow);
  EXPECT_FALSE(secret_value(secret, "absent"));
  krm::Json broken = secret;
  broken["data"]["tls.crt"] = "no base64 %";
  EXPECT_FALSE(secret_value(broken, "tls.crt"));
  EXPECT_EQ(files_of(broken).certificate, "");
  const krm::Json only_ca = certificate_secret("s", "ns", {"", "CA", {}}, 0, 0);
  EXPECT_EQ(only_ca.find("data")->size(), 1U);
  EXPECT_EQ(written_at(only_ca), 0);
}

TEST(MessagingCertificates, MS_068_ProfileIsNamedByContentAndOwner) {
  const CertificateFiles files{"CRT", "CA", Secret::copy_of("KEY")};
  const std::string hash = profile_hash("uid|endpoint/e", files);
  EXPECT_EQ(hash.size(), 20U);
  EXPECT_EQ(profile_hash("uid|endpoint/e", files), hash);
  EXPECT_NE(profile_hash("uid|endpoint/f", files), hash);
  for (const CertificateFiles& other : {CertificateFiles{"CRT2", "CA", Secret::copy_of("KEY")},
                                        CertificateFiles{"CRT", "CA2", Secret::copy_of("KEY")},
                                        CertificateFiles{"CRT", "CA", Secret::copy_of("KEY2")}}) {
    EXPECT_NE(profile_hash("uid|endpoint/e", other), hash);
  }
  EXPECT_LE(leaf_secret_name(std::string(500, 'x')).size(), 63U);
  EXPECT_LE(authority_secret_name(std::string(253, 'x')).size(), 63U);
}

TEST(MessagingCertificates, MS_095_TwoThirdsOfALife) {
  EXPECT_EQ(renew_at(0, kLeafDays), std::int64_t{20} * 86'400);
  EXPECT_EQ(renew_at(100, kAuthorityDays), 100 + std::int64_t{365} * 57'600);
}

TEST(MessagingCertificates, MS_068_MS_095_WhatIsToBeRenewed) {
  const net::KeyPair ca = *net::make_ca("ca", kAuthorityDays);
  const net::KeyPair other = *net::make_ca("other", kAuthorityDays);
  const net::CertificateRequest request = request_for("a.example");
  const net::KeyPair leaf = *net::issue(ca, request);
  const auto secret = [&](const std::string& certificate, const Secret& key, std::int64_t renew) {
    return certificate_secret("s", "ns", {certificate, ca.certificate_pem, key}, kNow, renew);
  };
  const krm::Json good = secret(leaf.certificate_pem, leaf.key_pem, kNow + 1);
  EXPECT_FALSE(is_to_be_renewed(good, &ca, request, kNow));
  EXPECT_TRUE(is_to_be_renewed(good, &ca, request, kNow + 1));
  EXPECT_TRUE(is_to_be_renewed(good, &other, request, kNow));                // a new CA
  EXPECT_TRUE(is_to_be_renewed(good, &ca, request_for("b.example"), kNow));  // a new host
  EXPECT_TRUE(
      is_to_be_renewed(secret(leaf.certificate_pem, other.key_pem, kNow + 1), &ca, request, kNow));
  EXPECT_TRUE(is_to_be_renewed(secret("", leaf.key_pem, kNow + 1), &ca, request, kNow));
  EXPECT_TRUE(is_to_be_renewed(secret(leaf.certificate_pem, leaf.key_pem, 0), &ca, request, kNow));
  EXPECT_TRUE(is_to_be_renewed(krm::Json::object(), &ca, request, kNow));
  // The CA itself is judged by its time and key alone.
  const krm::Json own =
      certificate_secret("s", "ns", {ca.certificate_pem, "", ca.key_pem}, kNow, kNow + 10);
  EXPECT_FALSE(is_to_be_renewed(own, nullptr, {}, kNow));
  EXPECT_TRUE(is_to_be_renewed(own, nullptr, {}, kNow + 10));
}

TEST(MessagingCertificates, MS_095_NewProfileIsWrittenThenWaitedForThenUsed) {
  ProfileFacts facts;
  facts.wanted = "new";
  facts.in_force = "old";
  facts.now = kNow;
  facts.delay = 90;
  ProfileStep step = profile_step(facts);
  EXPECT_TRUE(step.write);
  EXPECT_EQ(step.use, "old");
  EXPECT_EQ(step.wait, 90);
  facts.written = kNow;
  facts.now = kNow + 89;
  step = profile_step(facts);
  EXPECT_FALSE(step.write);
  EXPECT_EQ(step.use, "old");
  EXPECT_EQ(step.wait, 1);
  facts.now = kNow + 90;
  step = profile_step(facts);
  EXPECT_FALSE(step.write);
  EXPECT_EQ(step.use, "new");
  EXPECT_EQ(step.wait, 0);
  // A clock that was ahead when it was written holds nobody up for longer than the delay.
  facts.written = kNow + 1'000'000;
  EXPECT_EQ(profile_step(facts).wait, 90);
}

TEST(MessagingCertificates, MS_095_WhatIsInForceStaysWhenItsSecretIsGone) {
  ProfileFacts facts;
  facts.wanted = facts.in_force = "same";
  facts.now = kNow;
  facts.delay = 90;
  ProfileStep step = profile_step(facts);
  EXPECT_TRUE(step.write);
  EXPECT_EQ(step.use, "same");
  EXPECT_EQ(step.wait, 0);
  facts.written = kNow;
  step = profile_step(facts);
  EXPECT_FALSE(step.write);
  EXPECT_EQ(step.use, "same");
  EXPECT_EQ(step.wait, 0);
  // Without a delay the first one is used at once.
  facts = ProfileFacts{"first", "", std::nullopt, kNow, 0};
  step = profile_step(facts);
  EXPECT_TRUE(step.write);
  EXPECT_EQ(step.use, "first");
  EXPECT_EQ(step.wait, 0);
}

TEST(Certificates, MS_001_ACertificateOfRoutersIsForAllTheirHosts) {
  const auto ca = net::make_ca("ca", kAuthorityDays);
  ASSERT_TRUE(ca);
  net::CertificateRequest request;
  request.common_name = "routers";
  request.dns_names = {"i-a.ns.svc", "i.ns.svc", "*.i.ns.svc"};
  request.client = request.server = true;
  const auto made = net::issue(*ca, request);
  ASSERT_TRUE(made) << made.error().message();
  const CertificateFiles files{made->certificate_pem, ca->certificate_pem, made->key_pem};
  const krm::Json secret = certificate_secret("i-router-cert", "ns", files, 1000, 2000);
  EXPECT_TRUE(is_our_secret(secret));
  EXPECT_FALSE(is_our_secret(krm::Json::object()));
  EXPECT_FALSE(is_to_be_renewed(secret, &*ca, request, 1000));
  EXPECT_TRUE(is_to_be_renewed(secret, &*ca, request, 2000));
  request.dns_names.push_back("i-b.ns.svc");  // another group
  EXPECT_TRUE(is_to_be_renewed(secret, &*ca, request, 1000));
}

TEST(Certificates, MS_095_AnotherCaIsTrustedBesideTheOneBeforeIt) {
  const auto first = net::make_ca("ca", 1), second = net::make_ca("ca", 1),
             third = net::make_ca("ca", 1);
  ASSERT_TRUE(first && second && third);
  const std::string one = trusted(first->certificate_pem, "");
  EXPECT_EQ(one, first->certificate_pem);
  EXPECT_EQ(trusted(first->certificate_pem, one), one);
  const std::string two = trusted(second->certificate_pem, one);
  EXPECT_EQ(two, second->certificate_pem + first->certificate_pem);
  EXPECT_EQ(trusted(second->certificate_pem, two), two) << "nothing to write";
  EXPECT_EQ(trusted(third->certificate_pem, two), third->certificate_pem + second->certificate_pem);
  EXPECT_EQ(trusted(first->certificate_pem, "garbage"), one);
}

}  // namespace
}  // namespace kintsugi::workers
