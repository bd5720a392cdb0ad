#include "proxy/gates/impersonate.h"

#include <gtest/gtest.h>

namespace kintsugi::proxy {
namespace {

std::string all(const http::HeaderList& headers) {
  std::string out;
  for (std::size_t i = 0; i < headers.size(); ++i) {
    out += std::string(headers[i].name) + '=' + std::string(headers[i].value) + ' ';
  }
  return out;
}

TEST(Impersonate, WhenACallerIsStamped_FP149_GoesImpersonated) {
  http::HeaderList headers;
  headers.add("accept", "application/json");
  headers.add("authorization", "Bearer of-the-client");
  headers.add("x-remote-user", "alice");
  headers.add("x-remote-group", "a");
  headers.add("x-remote-group", "system:authenticated");
  headers.add("x-remote-uid", "7");
  headers.add("x-remote-extra-scopes", "x");
  impersonate(headers, "Bearer own");
  EXPECT_EQ(all(headers),
            "accept=application/json impersonate-user=alice impersonate-group=a "
            "impersonate-group=system:authenticated impersonate-uid=7 impersonate-extra-scopes=x "
            "authorization=Bearer own ");
  headers.clear();
  headers.add("x-remote-user", "alice");
  impersonate(headers, "");
  EXPECT_EQ(all(headers), "impersonate-user=alice ");
}

TEST(Impersonate, WhenNobodyIsKnown_IsRefused) {
  const auto error = judge_impersonation({}, {});
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), Errc::kUnauthorized);
}

}  // namespace
}  // namespace kintsugi::proxy
