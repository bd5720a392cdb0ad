#include "krm/formats.h"

#include <gtest/gtest.h>

#include <string>

namespace kintsugi::krm {
namespace {

TEST(IsRequestUri, AM393_TakesWhatGoTakes) {
  for (const char* good : {"https://a", "https://shard.example.test:1", "http://[::1]:80/x?y",
                           "/a/b", "urn:x", "https://a/b c"}) {
    EXPECT_TRUE(is_request_uri(good)) << good;
  }
  for (const char* bad : {"", "x y", "a", "://a", "1http://a", "https://a b", "https://a\"b/",
                          "a\x01:b", "ht tp://a"}) {
    EXPECT_FALSE(is_request_uri(bad)) << bad;
  }
}

struct Sample {
  const char* format;
  const char* text;
  bool good;
};

constexpr Sample kSamples[] = {
    {"bsonobjectid", "507f1f77bcf86cd799439011", true},
    {"bsonobjectid", "507f1f77bcf86cd79943901", false},
    {"uri", "https://a", true},
    {"uri", "a", false},
    {"email", "a@b", true},
    {"email", "Some One <a.b@c.example>", true},
    {"email", "\"x y\"@c", true},
    {"email", "a@[127.0.0.1]", true},
    {"email", "zz", false},
    {"email", "a..b@c", false},
    {"email", "a@b c@d", false},
    {"email", "<a@b", false},
    {"email", "@b", false},
    {"email", "\"a", false},
    {"hostname", "localhost", true},
    {"hostname", "a-b.example.com", true},
    {"hostname", "a-b", true},
    {"hostname", "ab-c", false},
    {"hostname",
     "b\xC3\xBC"
     "cher.example",
     true},
    {"hostname", "a.b-c", true},
    {"hostname", "a.b--c", false},
    {"hostname", "a..bc", false},
    {"hostname", "example.c", false},
    {"hostname", "-a.example", false},
    {"hostname", "a_b", false},
    {"hostname", "", false},
    {"ipv4", "10.0.0.1", true},
    {"ipv4", "1.2.3", false},
    {"ipv4", "01.2.3.4", false},
    {"ipv4", "::1", false},
    {"ipv6", "fe80::1", true},
    {"ipv6", "::ffff:1.2.3.4", true},
    {"ipv6", "10.0.0.1", false},
    {"ipv6", "fe80::1%eth0", false},
    {"cidr", "10.0.0.0/8", true},
    {"cidr", "fe80::/128", true},
    {"cidr", "10.0.0.0/33", false},
    {"cidr", "10.0.0.0", false},
    {"cidr", "10.0.0.0/", false},
    {"cidr", "10.0.0.0/+8", false},
    {"mac", "01:02:03:04:ab:CD", true},
    {"mac", "01-02-03-04-05-06", true},
    {"mac", "0102.0304.0506", true},
    {"mac", "01:02:03:04:05", false},
    {"mac", "01:02:03-04:05:06", false},
    {"uuid", "a8098c1a-f86e-11da-bd1a-00112444be1e", true},
    {"uuid", "A8098C1AF86E11DABD1A00112444BE1E", true},
    {"uuid", "x", false},
    {"uuid3", "bcd02e22-68f0-3046-a512-327cca9def8f", true},
    {"uuid3", "025b0d74-00a2-4048-bf57-227c5111bb34", false},
    {"uuid4", "025b0d74-00a2-4048-bf57-227c5111bb34", true},
    {"uuid4", "025b0d74-00a2-4048-cf57-227c5111bb34", false},
    {"uuid5", "886313e1-3b8a-5372-9b90-0c9aee199e5d", true},
    {"uuid5", "025b0d74-00a2-4048-bf57-227c5111bb34", false},
    {"isbn", "0321751043", true},
    {"isbn", "978-0321751041", true},
    {"isbn", "836217463", false},
    {"isbn10", "0-8044-2957-X", true},
    {"isbn10", "978-0321751041", false},
    {"isbn13", "978 3 401 01319 0", true},
    {"isbn13", "978-0321751042", false},
    {"creditcard", "4111-1111-1111-1111", true},
    {"creditcard", "4111111111111112", false},
    {"creditcard", "99999", false},
    {"ssn", "111-11-1111", true},
    {"ssn", "111 11 1111", true},
    {"ssn", "111111111", false},
    {"hexcolor", "#FFFFFF", true},
    {"hexcolor", "abc", true},
    {"hexcolor", "#fffz", false},
    {"rgbcolor", "rgb(0, 10,255)", true},
    {"rgbcolor", "rgb(0,10,256)", false},
    {"byte", "aGk=", true},
    {"byte", "%%", false},
    {"byte", "", false},
    {"password", "", true},
    {"date", "2024-02-29", true},
    {"date", "2023-02-29", false},
    {"date", "2023-2-1", false},
    {"date", "2023-13-01", false},
    {"duration", "1h30m", true},
    {"duration", "-1.5us", true},
    {"duration", "3 days 4 hours", true},
    {"duration", "2w", true},
    {"duration", "about 3.5 Days", true},
    {"duration", "P3D", true},
    {"duration", "3 parsecs", false},
    {"duration", "0", true},
    {"duration", "5x", false},
    {"duration", "5", false},
    {"duration", "", false},
    {"duration", "99999999999999999999 days", false},
    {"date-time", "2024-02-29T23:59:59Z", true},
    {"datetime", "2024-02-29t23:59:59.123456+01:00", true},
    {"date-time", "2024-02-29T24:00:00Z", false},
    {"date-time", "2024-02-29 23:59:59Z", false},
    {"date-time", "2024-02-29T23:59:59", false},
    {"date-time", "x", false},
    {"k8s-short-name", "a-b", true},
    {"k8s-short-name", "a.b", false},
    {"k8s-long-name", "a.b", true},
    {"k8s-long-name", "A", false},
    {"int32", "x", true},
    {"no-such-format", "x", true},
};

TEST(MatchesFormat, AM393_ChecksTheWholeList) {
  for (const Sample& sample : kSamples) {
    EXPECT_EQ(matches_format(sample.format, sample.text), sample.good)
        << sample.format << " " << sample.text;
  }
  EXPECT_TRUE(matches_format("hostname", std::string(63, 'a') + ".example"));
  EXPECT_FALSE(matches_format("hostname", std::string(64, 'a') + ".example"));
  EXPECT_TRUE(is_known_format("date-time"));
  EXPECT_TRUE(is_known_format("k8s-long-name"));
  EXPECT_FALSE(is_known_format("int32"));
}

}  // namespace
}  // namespace kintsugi::krm
