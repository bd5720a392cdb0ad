#include "net/address_rules.h"

#include <gtest/gtest.h>

namespace kintsugi::net {
namespace {

IpBytes ip(std::string_view text) {
  const auto found = canonical_ip(text);
  EXPECT_TRUE(found) << text;
  return found.value_or(IpBytes{});
}

/// An IPv4 address in an IPv6 address that has it in these bytes.
IpBytes inside(IpBytes around, std::size_t at, std::string_view v4) {
  const IpBytes four = ip(v4);
  for (std::size_t i = 0; i < 4; ++i) {
    around[at + i] = four[12 + i];
  }
  return around;
}

struct Range {
  const char *first, *last, *before, *behind;
};

// Every range of SE-106: its ends, and its neighbours where they are free ("" where not).
constexpr Range kIpv4[] = {
    {"0.0.0.0", "0.255.255.255", "", "1.0.0.0"},
    {"10.0.0.0", "10.255.255.255", "9.255.255.255", "11.0.0.0"},
    {"100.64.0.0", "100.127.255.255", "100.63.255.255", "100.128.0.0"},
    {"127.0.0.0", "127.255.255.255", "126.255.255.255", "128.0.0.0"},
    {"169.254.0.0", "169.254.255.255", "169.253.255.255", "169.255.0.0"},
    {"172.16.0.0", "172.31.255.255", "172.15.255.255", "172.32.0.0"},
    {"192.0.0.0", "192.0.0.255", "191.255.255.255", "192.0.1.0"},
    {"192.0.2.0", "192.0.2.255", "192.0.1.255", "192.0.3.0"},
    {"192.88.99.0", "192.88.99.255", "192.88.98.255", "192.88.100.0"},
    {"192.168.0.0", "192.168.255.255", "192.167.255.255", "192.169.0.0"},
    {"198.18.0.0", "198.19.255.255", "198.17.255.255", "198.20.0.0"},
    {"198.51.100.0", "198.51.100.255", "198.51.99.255", "198.51.101.0"},
    {"203.0.113.0", "203.0.113.255", "203.0.112.255", "203.0.114.0"},
    {"224.0.0.0", "239.255.255.255", "223.255.255.255", ""},
    {"240.0.0.0", "255.255.255.255", "", ""},
};
constexpr Range kIpv6[] = {
    {"::", "::", "", ""},
    {"::1", "::1", "", ""},
    {"100::", "100::ffff:ffff:ffff:ffff", "", "100:0:0:1::"},
    {"64:ff9b:1::", "64:ff9b:1:ffff:ffff:ffff:ffff:ffff", "64:ff9b:0:ffff::", "64:ff9b:2::"},
    {"2001::", "2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff", "2000:ffff::1", "2001:200::"},
    {"2001:db8::", "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff", "2001:db7:ffff::", "2001:db9::"},
    {"3fff::", "3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff", "3ffe:ffff::", "3fff:1000::"},
    {"5f00::", "5f00:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "5eff:ffff::", "5f01::"},
    {"fc00::", "fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "fbff::", "fe00::"},
    {"fe80::", "febf:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "fe7f:ffff::", ""},
    {"fec0::", "feff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "", ""},
    {"ff00::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "", ""},
};

TEST(AddressRules, SE106_EveryRange_ItsEndsAreDeniedItsNeighboursAreNot) {
  const auto check = [](const Range& range) {
    for (const char* denied : {range.first, range.last}) {
      EXPECT_TRUE(is_special_address(ip(denied))) << denied;
    }
    for (const char* free : {range.before, range.behind}) {
      EXPECT_TRUE(*free == '\0' || !is_special_address(ip(free))) << free;
    }
  };
  for (const Range& range : kIpv4) {
    check(range);
  }
  for (const Range& range : kIpv6) {
    check(range);
  }
}

TEST(AddressRules, SE106_AnIpv4AddressInsideIpv6_IsJudgedAsIpv4) {
  IpBytes nat64 = ip("64:ff9b::101:101"), compatible{}, sixtofour = ip("2002::1"), mapped{};
  mapped[10] = mapped[11] = 0xff;
  for (const Range& range : kIpv4) {
    for (const char* v4 : {range.first, range.last}) {
      EXPECT_TRUE(is_special_address(inside(nat64, 12, v4))) << v4;
      EXPECT_TRUE(is_special_address(inside(compatible, 12, v4))) << v4;
      EXPECT_TRUE(is_special_address(inside(sixtofour, 2, v4))) << v4;
      EXPECT_TRUE(is_special_address(inside(mapped, 12, v4))) << v4;
    }
  }
  for (const char* v4 : {"8.8.8.8", "1.1.1.1", "11.0.0.0"}) {
    EXPECT_FALSE(is_special_address(inside(nat64, 12, v4))) << v4;
    EXPECT_FALSE(is_special_address(inside(sixtofour, 2, v4))) << v4;
    EXPECT_FALSE(is_special_address(inside(mapped, 12, v4))) << v4;
  }
  EXPECT_EQ(ip_text(*embedded_ipv4(ip("2002:7f00:1::"))), "127.0.0.1");
  EXPECT_EQ(ip_text(*embedded_ipv4(ip("64:ff9b::a9fe:a9fe"))), "169.254.169.254");
  EXPECT_FALSE(embedded_ipv4(ip("2001:200::1")));
}

TEST(AddressRules, SE104_OnlyTheCanonicalForm_IsAnAddress) {
  for (const char* text : {"127.0.0.1", "::1", "fe80::1", "2001:200::1", "::ffff:127.0.0.1"}) {
    EXPECT_TRUE(canonical_ip(text)) << text;
  }
  for (const char* text :
       {"127.1", "0177.0.0.1", "127.0.0.01", "0x7f.0.0.1", "2130706433", "127.0.0.1.", "127.0.0",
        "::0001", "0:0:0:0:0:0:0:1", "FE80::1", "fe80::1%lo", "::ffff:7f00:1", "[::1]", "", " ::1",
        "1.2.3.4/8", "256.0.0.1"}) {
    EXPECT_FALSE(canonical_ip(text)) << text;
  }
}

TEST(AddressRules, SE104_WhatAResolverTakesForANumber_IsNoHostName) {
  for (const char* text : {"example.com", "a-b.c_d.internal", "1and1.com", "x"}) {
    EXPECT_TRUE(is_host_name(text)) << text;
  }
  for (const char* text : {"0x7f.1", "2130706433", "127.1", "0177.1", "a.0x10", "example.com.", "",
                           ".", "a..b", "-a.b", "a-.b", "A.b", "a%2eb", "a b", "x.127"}) {
    EXPECT_FALSE(is_host_name(text)) << text;
  }
  EXPECT_FALSE(is_host_name(std::string(64, 'a')));
  EXPECT_TRUE(is_host_name(std::string(63, 'a')));
  std::string longest(253, 'a');
  for (std::size_t i = 50; i < longest.size(); i += 50) {
    longest[i] = '.';
  }
  EXPECT_TRUE(is_host_name(longest));
  EXPECT_FALSE(is_host_name(longest + "a"));
}

TEST(AddressRules, SE106_Ranges_AreReadStrictly) {
  for (const char* text : {"10.0.0.0/8", "::1", "fd00::/8", "0.0.0.0/0", "::/0", "1.2.3.4/32"}) {
    EXPECT_TRUE(AddressRange::parse(text)) << text;
  }
  for (const char* text : {"10.0.0.1/8", "10.0.0.0/33", "10.0.0.0/", "::/129", "fd00::1/8", "/8",
                           "10/8", "10.0.0.0/08x"}) {
    EXPECT_FALSE(AddressRange::parse(text)) << text;
  }
  EXPECT_TRUE(AddressRange::parse("0.0.0.0/0")->contains(ip("9.9.9.9")));
  EXPECT_FALSE(AddressRange::parse("0.0.0.0/0")->contains(ip("2001:200::1")));
  EXPECT_TRUE(AddressRange::parse("2001:200::/33")->contains(ip("2001:200:7fff::1")));
  EXPECT_FALSE(AddressRange::parse("2001:200::/33")->contains(ip("2001:200:8000::1")));
}

TEST(AddressRules, SE106_OwnAddresses_AreThoseOfTheInterfacesAndWhatIsTold) {
  OwnAddresses own;
  EXPECT_TRUE(own.has(ip("127.0.0.1")));
  EXPECT_FALSE(own.has(ip("9.9.9.9")));
  own.set_hosts({"9.9.9.9", "shard.example"});
  EXPECT_TRUE(own.has(ip("9.9.9.9")));
  EXPECT_TRUE(own.has_host("shard.example"));
  own.set_hosts({});
  EXPECT_FALSE(own.has(ip("9.9.9.9")));
}

}  // namespace
}  // namespace kintsugi::net
