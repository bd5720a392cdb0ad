#include "net/proxy_rules.h"

#include <gtest/gtest.h>

namespace kintsugi::net {
namespace {

Url url(const std::string& text) { return Url::parse(text).value_or(Url{}); }

/// "host:port" of the proxy for the server, "direct", or the fault.
std::string way(const ProxyRules& rules, const std::string& server) {
  const auto picked = rules.pick(url(server));
  if (!picked) {
    return std::string(picked.error().message());
  }
  return *picked == nullptr ? "direct" : (*picked)->host + ":" + std::to_string((*picked)->port);
}

TEST(ProxyRules, FP166_TheSchemeOfTheServerSaysWhichVariableCounts) {
  const ProxyRules both("http://plain:1", "http://secure:2", "");
  EXPECT_EQ(way(both, "http://a.example"), "plain:1");
  EXPECT_EQ(way(both, "https://a.example:6443"), "secure:2");
  const ProxyRules one("http://plain:1", "", "");
  EXPECT_EQ(way(one, "https://a.example"), "direct");
  EXPECT_EQ(way(ProxyRules(), "https://a.example"), "direct");
}

TEST(ProxyRules, FP166_FormsOfAProxy) {
  const auto form = [](const std::string& text) {
    return way(ProxyRules("", text, ""), "https://a.example");
  };
  EXPECT_EQ(form("http://p.example:3128"), "p.example:3128");
  EXPECT_EQ(form("http://p.example/"), "p.example:80");
  EXPECT_EQ(form("p.example:3128"), "p.example:3128");
  EXPECT_EQ(form("[fd00::1]:3128"), "fd00::1:3128");
  for (const char* text :
       {"socks5://p:1", "https://p:1", "http://p:1/path", "http://:1", "http://p:0", "p q"}) {
    EXPECT_EQ(form(text), "HTTPS_PROXY: only http://host:port is supported") << text;
  }
  const ProxyRules known("", "me:se%3Acret@p.example:3128", "");
  EXPECT_EQ((*known.pick(url("https://a.example")))->authorization.view(),
            "Basic bWU6c2U6Y3JldA==");
  EXPECT_EQ(way(ProxyRules("", "ftp://me:secret@p:1", ""), "https://a.example").find("secret"),
            std::string::npos);
}

TEST(ProxyRules, FP166_LoopbackIsNeverProxied) {
  const ProxyRules rules("", "http://p:1", "");
  for (const char* host : {"localhost", "LOCALHOST", "127.0.0.1", "127.9.8.7", "[::1]",
                           "a.localhost", "[::ffff:127.0.0.1]"}) {
    EXPECT_EQ(way(rules, "https://" + std::string(host) + ":6443"), "direct") << host;
  }
  EXPECT_EQ(way(rules, "https://128.0.0.1"), "p:1");
  EXPECT_EQ(way(rules, "https://localhost.example"), "p:1");
}

TEST(ProxyRules, FP166_FormsOfNoProxy) {
  struct Row {
    const char *no_proxy, *server;
    bool direct;
  };
  const Row rows[] = {
      {"*", "https://a.example", true},
      {"x.example, *", "https://a.example", true},
      {"example.com", "https://example.com", true},
      {"example.com", "https://EXAMPLE.com", true},
      {"Example.COM", "https://a.b.example.com:6443", true},
      {"example.com", "https://badexample.com", false},
      {".example.com", "https://a.example.com", true},
      {".example.com", "https://example.com", false},
      {"*.example.com", "https://a.example.com", true},
      {"*.example.com", "https://example.com", false},
      {"example.com:6443", "https://example.com:6443", true},
      {"example.com:6443", "https://example.com", false},
      {"example.com:443", "https://example.com", true},
      {".example.com:8443", "https://a.example.com:8443", true},
      {"example.com:no", "https://example.com", false},
      {":443", "https://example.com", false},
      {"10.1.2.3", "https://10.1.2.3:6443", true},
      {"10.1.2.3", "https://10.1.2.4", false},
      {"10.1.2.3:6443", "https://10.1.2.3:6443", true},
      {"10.1.2.3:6443", "https://10.1.2.3", false},
      {"10.0.0.0/8", "https://10.255.2.3", true},
      {"10.1.2.3/8", "https://10.255.2.3", true},
      {"10.0.0.0/8", "https://11.0.0.1", false},
      {"0.0.0.0/0", "https://11.0.0.1", true},
      {"0.0.0.0/0", "https://[fd00::1]", false},
      {"10.0.0.0/33", "https://10.0.0.1", false},
      {"10.0.0.0/8", "https://ten.example", false},  // names are not resolved for it
      {"fd00::/8", "https://[fd12::1]", true},
      {"fd00::1", "https://[fd00::1]:6443", true},
      {"[fd00::1]:6443", "https://[fd00::1]:6443", true},
      {"[fd00::1]:6443", "https://[fd00::1]", false},
      {"FD00:0::1", "https://[fd00::1]", true},
      {"a.example,,  b.example ", "https://b.example", true},
      {"", "https://a.example", false},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(way(ProxyRules("", "http://p:1", row.no_proxy), row.server),
              row.direct ? "direct" : "p:1")
        << row.no_proxy << " " << row.server;
  }
}

TEST(ProxyRules, FP166_WhatIsWrongCountsOnlyWhereTheProxyWould) {
  const ProxyRules rules("", "socks5://p:1", "a.example");
  EXPECT_EQ(way(rules, "https://a.example"), "direct");
  EXPECT_EQ(way(rules, "https://127.0.0.1"), "direct");
  EXPECT_EQ(way(rules, "http://b.example"), "direct");
  EXPECT_NE(way(rules, "https://b.example"), "direct");
}

}  // namespace
}  // namespace kintsugi::net
