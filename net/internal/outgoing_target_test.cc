#include "net/internal/outgoing_target.h"

#include <gtest/gtest.h>

namespace kintsugi::net {
namespace {

using Judge = std::shared_ptr<const OutgoingJudge>;

Judge judge(std::vector<std::string> allow = {}, std::vector<std::string> deny = {}) {
  OutgoingRules rules;
  rules.allow = std::move(allow);
  rules.deny = std::move(deny);
  auto made = OutgoingJudge::make(rules);
  EXPECT_TRUE(made);
  return made ? *made : nullptr;
}

std::vector<SocketAddress> answers(const std::vector<std::string>& texts) {
  std::vector<SocketAddress> out;
  for (const std::string& text : texts) {
    const auto address = numeric_address(text, 443);
    EXPECT_TRUE(address) << text;
    out.push_back(*address);
  }
  return out;
}

/// How many addresses may be dialled; -1: none of them, because one is denied.
int passes(const Judge& judge, std::string_view url, const std::vector<std::string>& resolved) {
  const auto target = judge->judge_url(url);
  EXPECT_TRUE(target) << url;
  const auto judged = judge->judge_answers(*target, answers(resolved));
  return judged ? static_cast<int>(judged->size()) : -1;
}

TEST(OutgoingTarget, SE104_OnlyPlainHttpsUrls_MayBeFollowed) {
  const Judge rules = judge();
  for (const char* url :
       {"https://example.com", "https://example.com/", "HTTPS://Example.com:8443/a/b?c=d",
        "https://example.com:9443?x", "https://8.8.8.8/", "https://[2001:200::1]:443/x"}) {
    EXPECT_TRUE(rules->judge_url(url)) << url;
  }
  for (const char* url : {"http://example.com/",
                          "ftp://example.com/",
                          "//example.com/",
                          "https:/example.com",
                          "",
                          "https://",
                          "https:///x",
                          "https://user@example.com/",
                          "https://a:b@example.com/",
                          "https://example.com/#f",
                          "https://example.com#f",
                          "https://example.com:22/",
                          "https://example.com:6443/",
                          "https://example.com:0/",
                          "https://example.com:65536/",
                          "https://example.com:0443/",
                          "https://example.com:/",
                          "https://example.com:44 3/",
                          "https://exam ple.com/",
                          "https://ex\xc3\xa4mple.com/",
                          "https://example.com\\@evil.com/",
                          "https://example.com./",
                          "https://%6c%6fcalhost/",
                          "https://[::1",
                          "https://[::1]x/",
                          "https://::1/",
                          "https://[example.com]/",
                          "https://[8.8.8.8]/",
                          "https://[fe80::1%25lo]/",
                          "https://\t8.8.8.8/",
                          "https://8.8.8.8\n/"}) {
    EXPECT_FALSE(rules->judge_url(url)) << url;
  }
  EXPECT_FALSE(rules->judge_url("https://example.com/" + std::string(5'000, 'a')));
}

TEST(OutgoingTarget, SE104_AddressesInEveryOtherForm_AreRefused) {
  const Judge rules = judge();
  for (const char* host : {"127.0.0.1",
                           "127.1",
                           "127.0.1",
                           "2130706433",
                           "0x7f000001",
                           "0x7f.0.0.1",
                           "0177.0.0.1",
                           "017700000001",
                           "127.0.0.01",
                           "00127.0.0.1",
                           "127.0.0.1.",
                           "0",
                           "0.0.0.0",
                           "[::]",
                           "[::1]",
                           "[0:0:0:0:0:0:0:1]",
                           "[::ffff:127.0.0.1]",
                           "[::ffff:7f00:1]",
                           "[::127.0.0.1]",
                           "[::7f00:1]",
                           "[64:ff9b::7f00:1]",
                           "[64:ff9b::127.0.0.1]",
                           "[2002:7f00:1::]",
                           "[2002:7f00:0001::1]",
                           "[fe80::1]",
                           "[FE80::1]",
                           "[fd00::1]",
                           "[fec0::1]",
                           "[ff02::1]",
                           "169.254.169.254",
                           "10.0.0.1",
                           "192.168.1.1",
                           "172.31.0.1",
                           "100.64.0.1",
                           "255.255.255.255",
                           "[64:ff9b:1::1]",
                           "[2001:db8::1]",
                           "[100::1]"}) {
    EXPECT_FALSE(rules->judge_url("https://" + std::string(host) + "/")) << host;
  }
}

TEST(OutgoingTarget, SE105_OneDeniedAnswer_RefusesTheTarget) {
  const Judge rules = judge();
  const char* url = "https://example.com/";
  EXPECT_EQ(passes(rules, url, {"8.8.8.8"}), 1);
  EXPECT_EQ(passes(rules, url, {"8.8.8.8", "2001:200::1", "8.8.8.8"}), 2);
  EXPECT_EQ(passes(rules, url, {}), -1);
  for (const char* denied : {"127.0.0.1", "10.1.2.3", "169.254.169.254", "::1", "::ffff:127.0.0.1",
                             "64:ff9b::7f00:1", "2002:a9fe:a9fe::1", "fd00::1", "::"}) {
    EXPECT_EQ(passes(rules, url, {denied}), -1) << denied;
    EXPECT_EQ(passes(rules, url, {"8.8.8.8", denied}), -1) << denied;
    EXPECT_EQ(passes(rules, url, {denied, "8.8.8.8"}), -1) << denied;
    EXPECT_EQ(passes(rules, url, {"8.8.8.8", "9.9.9.9", denied}), -1) << denied;
  }
}

TEST(OutgoingTarget, SE105_WhatIsJudged_IsWhatIsDialled) {
  const Judge rules = judge();
  const auto target = rules->judge_url("https://example.com:8443/x");
  ASSERT_TRUE(target);
  const auto judged = rules->judge_answers(*target, answers({"8.8.8.8", "2001:200::1"}));
  ASSERT_TRUE(judged);
  EXPECT_EQ(judged->at(0).text(), "8.8.8.8");
  EXPECT_EQ(judged->at(1).text(), "2001:200::1");
  EXPECT_EQ(judged->at(0).port(), 8443);
  EXPECT_EQ(target->authority, "example.com:8443");
  EXPECT_EQ(target->path, "/x");
}

TEST(OutgoingTarget, SE106_DenyThenAllow_ComeBeforeTheRanges) {
  const Judge rules =
      judge({"127.0.0.0/8", "::1", "hook.internal"}, {"127.9.0.0/16", "8.8.8.8", "evil.com"});
  EXPECT_TRUE(rules->judge_url("https://127.0.0.1:12345/"));  // what is allowed may use any port
  EXPECT_TRUE(rules->judge_url("https://[::1]/"));
  EXPECT_FALSE(rules->judge_url("https://127.9.0.1/"));
  EXPECT_FALSE(rules->judge_url("https://10.0.0.1/"));
  EXPECT_FALSE(rules->judge_url("https://8.8.8.8/"));
  EXPECT_FALSE(rules->judge_url("https://evil.com/"));
  EXPECT_FALSE(rules->judge_url("https://9.9.9.9:12345/"));
  EXPECT_FALSE(rules->judge_url("http://127.0.0.1/"));
  EXPECT_FALSE(rules->judge_url("https://2130706433/"));
  EXPECT_EQ(passes(rules, "https://localhost:4711/", {"127.0.0.1", "::1"}), 2);
  EXPECT_EQ(passes(rules, "https://example.com:4711/", {"9.9.9.9"}), -1);
  EXPECT_EQ(passes(rules, "https://hook.internal:4711/", {"10.0.0.1"}), 1);
  EXPECT_EQ(passes(rules, "https://hook.internal/", {"10.0.0.1", "127.9.0.1"}), -1);
  EXPECT_EQ(passes(rules, "https://other.internal/", {"10.0.0.1"}), -1);
}

TEST(OutgoingTarget, SE106_OwnAndShardsAddresses_AreDenied) {
  auto own = std::make_shared<OwnAddresses>();
  own->set_hosts({"9.9.9.9", "shard.example"});
  OutgoingRules rules;
  const Judge with = *OutgoingJudge::make(rules, own);
  EXPECT_FALSE(with->judge_url("https://9.9.9.9/"));
  EXPECT_FALSE(with->judge_url("https://shard.example/"));
  EXPECT_EQ(passes(with, "https://example.com/", {"9.9.9.9"}), -1);
  EXPECT_EQ(passes(with, "https://example.com/", {"8.8.4.4"}), 1);
  rules.allow = {"9.9.9.9", "shard.example"};
  const Judge allowed = *OutgoingJudge::make(rules, own);
  EXPECT_TRUE(allowed->judge_url("https://9.9.9.9/"));
  EXPECT_TRUE(allowed->judge_url("https://shard.example/"));
}

TEST(OutgoingTarget, WhenRulesAreWrong_SaysWhich) {
  for (const char* text : {"10.0.0.1/8", "*.example.com", "Example.com", "127.1", ""}) {
    OutgoingRules rules;
    rules.allow = {text};
    const auto made = OutgoingJudge::make(rules);
    ASSERT_FALSE(made) << text;
    EXPECT_EQ(made.error().message(), "allow: \"" + std::string(text) +
                                          "\" is neither an address, a range of addresses nor a "
                                          "host name");
  }
}

}  // namespace
}  // namespace kintsugi::net
