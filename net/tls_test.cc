#include "net/tls.h"

#include <gtest/gtest.h>

#include "net/testing/support.h"
#include "net/upstream.h"
#include "net/x509_maker.h"

namespace kintsugi::net {
namespace {

using testing::Certificates;

TEST(TlsContext, WhenAFileIsMissing_NamesFileAndCause) {
  TlsParams params;
  params.certificate_file = "/nonexistent/tls.crt";
  params.key_file = "/nonexistent/tls.key";
  const auto context = TlsContext::server(params);
  ASSERT_FALSE(context);
  EXPECT_EQ(context.error().code(), Errc::kConfig);
  EXPECT_EQ(context.error().message(), "/nonexistent/tls.crt: No such file or directory");
}

TEST(TlsContext, WhenTheKeyBelongsToAnotherCertificate_IsRefused) {
  TlsParams params;
  params.certificate_pem = Certificates::get().server.certificate_pem;
  params.key_pem = Certificates::get().client.key_pem;
  const auto context = TlsContext::server(params);
  ASSERT_FALSE(context);
  EXPECT_NE(context.error().message().find("does not belong to"), std::string_view::npos);
}

TEST(TlsContext, SE144_WhenTheKeyIsRead_ItsTextIsNotKept) {
  static const char* key_at = nullptr;
  static std::string left;
  left.clear();
  TlsParams params;
  params.certificate_pem = Certificates::get().server.certificate_pem;
  params.key_pem = Secret::copy_of(Certificates::get().server.key_pem.view());
  key_at = params.key_pem.view().data();
  const std::size_t size = params.key_pem.size();
  watch_ended_secrets_for_test([](std::string_view bytes) {
    if (bytes.data() == key_at) {
      left = bytes;
    }
  });
  const auto context = TlsContext::server(params);
  ASSERT_TRUE(context);
  EXPECT_TRUE((*context)->params().key_pem.empty());
  EXPECT_EQ((*context)->params().certificate_pem, params.certificate_pem);
  EXPECT_EQ(left, "");
  params = {};
  EXPECT_EQ(left, std::string(size, '\0')) << "nobody else had it";
  watch_ended_secrets_for_test(nullptr);
}

TEST(TlsContext, WhenPemIsGarbage_IsRefused) {
  TlsParams params;
  params.ca_pem = "not a certificate";
  const auto context = TlsContext::client(params);
  ASSERT_FALSE(context);
  EXPECT_EQ(context.error().message(), "CA: holds no PEM certificate");
}

TEST(TlsContext, WhenThereIsNoCertificate_AServerIsRefused) {
  EXPECT_FALSE(TlsContext::server({}));
}

TEST(X509Maker, WhenAnAddressOrNameIsMalformed_SaysWhich) {
  CertificateRequest request;
  request.ip_addresses = {"localhost"};
  auto made = issue(Certificates::get().ca, request);
  ASSERT_FALSE(made);
  EXPECT_NE(made.error().message().find("\"localhost\""), std::string_view::npos);
  request.ip_addresses = {};
  request.dns_names = {"a,DNS:b"};
  EXPECT_FALSE(issue(Certificates::get().ca, request));
  EXPECT_FALSE(issue(KeyPair{"x", Secret::copy_of("y")}, CertificateRequest{}));
}

TEST(Url, WhenWellFormed_SplitsAndNormalises) {
  const auto url = Url::parse("https://Example.org/base/");
  ASSERT_TRUE(url);
  EXPECT_EQ(*url, (Url{"https", "example.org", 443, "/base"}));
  EXPECT_EQ(url->authority(), "example.org");
  const auto six = Url::parse("http://[::1]:8080");
  ASSERT_TRUE(six);
  EXPECT_EQ(*six, (Url{"http", "::1", 8080, ""}));
  EXPECT_EQ(six->authority(), "[::1]:8080");
}

TEST(Url, WhenMalformed_IsRefused) {
  for (const char* text :
       {"", "example.org", "ftp://a", "https://", "https://:443", "https://a:0", "https://a:70000",
        "https://a:1x", "https://u@a", "https://a/?q", "https://a/#f", "https://[::1",
        "https://::1", "https://a b", "https://[::1]x"}) {
    EXPECT_FALSE(Url::parse(text)) << text;
  }
}

}  // namespace
}  // namespace kintsugi::net
