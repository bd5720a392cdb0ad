#include "auth/audit_event.h"

#include <gtest/gtest.h>

#include <string>

#include "krm/json.h"

namespace kintsugi::auth {
namespace {

TEST(AuditEvent, WhenAQueryHasCredentials_SE165_TheyAreHidden) {
  const std::pair<const char*, const char*> cases[] = {
      {"/api", "/api"},
      {"/api?", "/api?"},
      {"/api?watch=1&token=s3cret&x=token", "/api?watch=1&token=hidden&x=token"},
      {"/api?access_token=s3cret", "/api?access_token=hidden"},
      {"/api?ACCESS_TOKEN=s3cret;code=s3cret", "/api?ACCESS_TOKEN=hidden;code=hidden"},
      {"/api?%74oken=s3cret&id_token=s3cret&&=", "/api?%74oken=hidden&id_token=hidden&&="},
      {"/api?token=a%26b=s3cret", "/api?token=hidden"},
      {"/api?tokens=a&code", "/api?tokens=a&code"},
      {"/token=s3cret?a=b?token=s3cret", "/token=s3cret?a=b?token=s3cret"},
      {"/api?%zz=1&token=", "/api?%zz=1&token=hidden"},
  };
  for (const auto& [target, shown] : cases) {
    EXPECT_EQ(without_credentials(target), shown) << target;
    krm::RequestInfo info;
    const auto line = krm::Json::parse(audit_line({.id = "1",
                                                   .stage = kResponseComplete,
                                                   .target = target,
                                                   .info = info,
                                                   .address = "127.0.0.1",
                                                   .agent = "test",
                                                   .cluster = "root"}));
    ASSERT_TRUE(line) << target;
    EXPECT_EQ(line->text({"requestURI"}), shown);
  }
}

TEST(AuditEvent, WhenFieldsHoldAnyBytes_SE_T073_ItIsOneLineOfJson) {
  const std::string odd = "a\nb\r\x1b[31m\x7f\"\\\xff\xc3\x28" + std::string(1U << 20, 'x');
  UserInfo user;
  user.name = odd;
  krm::RequestInfo info;
  info.verb = "get";
  info.is_resource = true;
  info.name = odd;
  const std::string text = audit_line({.id = odd,
                                       .stage = kResponseComplete,
                                       .target = odd,
                                       .info = info,
                                       .user = &user,
                                       .address = odd,
                                       .agent = odd,
                                       .cluster = odd});
  EXPECT_EQ(text.find('\n'), std::string::npos);
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_TRUE(krm::Json::parse(text));
}

}  // namespace
}  // namespace kintsugi::auth
