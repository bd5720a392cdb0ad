#include "auth/configured_issuers.h"

#include <gtest/gtest.h>

namespace kintsugi::auth {
namespace {

using krm::Json;

TEST(BindToWorkspace, FP071_FP074_KK120_KK121_WhenTheIssuerSaysSystem_ItIsNotBelieved) {
  UserInfo user;
  user.name = "ann";
  user.groups = {"system:masters", "dev", "system:kcp:admin", "apis.kcp.io:binding:ann"};
  user.extra = {{"kcp.io/test", {"x"}},
                {"authentication.kcp.io/scopes", {"cluster:root"}},
                {"a.example/t", {"y"}}};
  ASSERT_TRUE(bind_to_workspace(user, "c1"));
  EXPECT_EQ(user.groups, std::vector<std::string>{"dev"});
  ASSERT_EQ(user.extra.size(), 3U);
  EXPECT_EQ(user.extra[0].first, "a.example/t");
  EXPECT_EQ(*user.extra_values(kExtraScopes), std::vector<std::string>{"cluster:c1"});
  EXPECT_EQ(*user.extra_values(kExtraClusterName), std::vector<std::string>{"c1"});
  user.name = "system:admin";
  EXPECT_FALSE(bind_to_workspace(user, "c1"));
}

TEST(ConfiguredIssuers, WhenATypeNamesMany_OnlyTheFirstCount) {
  Json type = Json::object();
  EXPECT_TRUE(configuration_names(type, "c", "t").empty());
  for (std::size_t i = 0; i < kMostConfigurations + 3; ++i) {
    type.make({"spec", "authenticationConfigurations"})
        .push_back(Json::object({{"name", Json(std::to_string(i))}}));
  }
  const std::vector<std::string> names = configuration_names(type, "c", "t");
  ASSERT_EQ(names.size(), kMostConfigurations);
  EXPECT_EQ(names[1], "1");
}

TEST(ConfiguredIssuers, KK121_WhenAConfigurationIsWrong_ItHasNoIssuers) {
  EXPECT_TRUE(configured_issuers(Json::object(), "c", "a").empty());
  const auto of = [](const char* url) {
    Json object = *Json::parse(
        R"({"spec":{"jwt":[{"issuer":{"audiences":["a"]},
            "claimMappings":{"username":{"claim":"sub","prefix":""}}}]}})");
    object.at({"spec", "jwt"})->edit_items()[0].make({"issuer", "url"}) = url;
    return configured_issuers(object, "c", "a").size();
  };
  EXPECT_EQ(of("https://issuer.example"), 1U);
  EXPECT_EQ(of("http://issuer.example"), 0U);
}

}  // namespace
}  // namespace kintsugi::auth
