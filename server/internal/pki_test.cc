#include "server/internal/pki.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>
#include <utility>

#include "net/x509_maker.h"
#include "server/files.h"

namespace kintsugi::server {
namespace {

class Pkis : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(make_directories(pki_.folder()));
    ASSERT_TRUE(pki_.ensure(kHosts));
  }
  void TearDown() override { std::filesystem::remove_all(pki_.folder()); }

  [[nodiscard]] net::KeyPair pair(const std::string& name) const {
    return {*read_file(pki_.certificate(name)), Secret(std::move(*read_file(pki_.key(name))))};
  }
  void put(const std::string& name, const net::KeyPair& pair) const {
    ASSERT_TRUE(write_file(pki_.key(name), pair.key_pem.view(), 0600));
    ASSERT_TRUE(write_file(pki_.certificate(name), pair.certificate_pem));
  }
  /// A certificate of one of its CAs, valid from one hour ago.
  [[nodiscard]] net::KeyPair issued(const std::string& ca, int days) const {
    net::CertificateRequest request;
    request.common_name = "proxy";
    request.days = days;
    request.server = true;
    return *net::issue(pair(ca), request);
  }

  const std::vector<std::string> kHosts = {"127.0.0.1", "localhost"};
  const Pki pki_{::testing::TempDir() + "kintsugi_pki_test." + std::to_string(::getpid())};
};

TEST_F(Pkis, SE_145_WhatIsYoungStays) {
  const net::KeyPair proxy = pair("proxy"), ca = pair("serving-ca");
  ASSERT_TRUE(pki_.ensure(kHosts));
  EXPECT_EQ(pair("proxy").certificate_pem, proxy.certificate_pem);
  EXPECT_EQ(pair("serving-ca").certificate_pem, ca.certificate_pem);
  EXPECT_FALSE(net::is_due(ca, proxy));
}

TEST_F(Pkis, SE_145_WhatHasLivedAThirdIsMadeAgainWithANewKey) {
  // It has lived an hour. OpenSSL's clock cannot be set: the life is cut instead.
  net::KeyPair old = issued("serving-ca", -1);
  EXPECT_TRUE(net::is_due(pair("serving-ca"), old));
  put("proxy", old);
  ASSERT_TRUE(pki_.ensure(kHosts));
  const net::KeyPair renewed = pair("proxy");
  EXPECT_NE(renewed.certificate_pem, old.certificate_pem);
  EXPECT_FALSE(renewed.key_pem == old.key_pem);
  EXPECT_FALSE(net::is_due(pair("serving-ca"), renewed));
  struct stat status {};
  ASSERT_EQ(::stat(pki_.key("proxy").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600U);
}

TEST_F(Pkis, SE_T062_KilledBetweenKeyAndCertificate_ThePairIsMadeAgain) {
  put("proxy", {pair("proxy").certificate_pem, issued("serving-ca", 365).key_pem});
  EXPECT_TRUE(net::is_due(pair("serving-ca"), pair("proxy")));
  ASSERT_TRUE(pki_.ensure(kHosts));
  EXPECT_FALSE(net::is_due(pair("serving-ca"), pair("proxy")));
}

TEST_F(Pkis, SE_145_WhatOthersHavePutThereStays) {
  const auto foreign_ca = net::make_ca("theirs");
  ASSERT_TRUE(foreign_ca);
  net::CertificateRequest request;
  request.common_name = "proxy";
  request.days = -1;
  const auto theirs = net::issue(*foreign_ca, request);
  ASSERT_TRUE(theirs);
  put("proxy", *theirs);
  ASSERT_TRUE(pki_.ensure(kHosts));
  EXPECT_EQ(pair("proxy").certificate_pem, theirs->certificate_pem);

  put("proxy", {"not a certificate", Secret::copy_of("nor a key")});
  ASSERT_TRUE(pki_.ensure(kHosts));
  EXPECT_EQ(pair("proxy").certificate_pem, "not a certificate");
}

TEST_F(Pkis, SE_145_NoCertificateOutlivesItsAuthority) {
  const auto ca = net::make_ca("short", 10);
  ASSERT_TRUE(ca);
  net::CertificateRequest request;
  request.days = 365;
  const auto issued = net::issue(*ca, request);
  ASSERT_TRUE(issued);
  request.days = 9;
  const auto shorter = net::issue(*ca, request);
  ASSERT_TRUE(shorter);
  EXPECT_FALSE(net::is_due(*ca, *issued));  // its life is 10 days, of which an hour is over
  EXPECT_FALSE(net::is_due(*ca, *shorter));
}

}  // namespace
}  // namespace kintsugi::server
