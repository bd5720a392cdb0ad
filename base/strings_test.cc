#include "base/strings.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <ctime>
#include <random>

#include "base/bytes.h"
#include "base/error.h"
#include "base/time.h"

namespace kintsugi {
namespace {

TEST(Split, WhenSeparatorsMeet_KeepsEmptyParts) {
  EXPECT_EQ(split("a::b:", ':'), (std::vector<std::string_view>{"a", "", "b", ""}));
  EXPECT_EQ(split("", ':'), (std::vector<std::string_view>{""}));
}

TEST(ParseDecimal, WhenTextIsNoPlainNumber_Refuses) {
  EXPECT_EQ(parse_decimal("18446744073709551615"), 18446744073709551615U);
  for (const char* bad : {"", "-1", "+1", " 1", "1 ", "0x1", "18446744073709551616", "1a"}) {
    EXPECT_FALSE(parse_decimal(bad)) << bad;
  }
}

TEST(PercentCoding, WhenDecoded_GivesTheOriginal) {
  EXPECT_EQ(percent_encode("a/b c%*"), "a%2Fb%20c%25%2A");
  EXPECT_EQ(percent_decode("a%2fb%20c%25%2A"), "a/b c%*");
  EXPECT_EQ(percent_decode("a+b", true), "a b");
  for (const char* bad : {"%", "%2", "%zz", "a%g0"}) {
    EXPECT_FALSE(percent_decode(bad)) << bad;
  }
}

TEST(Base64, WhenDecoded_GivesTheOriginalAtEveryLength) {
  std::string bytes;
  for (int i = 0; i < 70; ++i) {
    EXPECT_EQ(base64_decode(base64_encode(bytes)), bytes);
    EXPECT_EQ(base64url_decode(base64url_encode(bytes)), bytes);
    bytes += static_cast<char>(i * 37 + 200);
  }
  EXPECT_EQ(base64_encode("hi?>"), "aGk/Pg==");
  EXPECT_EQ(base64url_encode("hi?>"), "aGk_Pg");
  for (const char* bad : {"a", "a===", "aGk/Pg", "aG k", "=aGk", "aG=k", "a=Gk", "====", " aGk",
                          "aGk\n", "aGk/Pg==\n", "aGk_Pg==", "aGk-", "aGk/P=g="}) {
    EXPECT_FALSE(base64_decode(bad)) << bad;
  }
  for (const char* bad : {"a", "aGk/Pg", "aGk+", "aGk_Pg=", "aG k", "aG=k", "aGk=="}) {
    EXPECT_FALSE(base64url_decode(bad)) << bad;
  }
  EXPECT_EQ(base64url_decode("aGk_Pg=="), "hi?>");
  EXPECT_EQ(base64url_decode(""), "");
  EXPECT_FALSE(base64_decode(std::string_view("aG\0k", 4)));
  EXPECT_EQ(base64_decode("QR=="), "A");  // bits that mean nothing, as Go's decoder
}

TEST(Base64, WhenTextIsLongerThanOneCallTakes_IsTheSame) {
  std::string bytes(std::size_t{3} * (1U << 20U) * 2 + 1, 'x');
  bytes[std::size_t{3} * (1U << 20U)] = 'y';
  const std::string text = base64_encode(bytes);
  EXPECT_EQ(text.size(), (bytes.size() + 2) / 3 * 4);
  EXPECT_EQ(base64_decode(text), bytes);
}

TEST(Hex, WhenEncoded_IsLowerCase) {
  EXPECT_EQ(hex_encode(""), "");
  EXPECT_EQ(hex_encode(std::string_view("\0\xAB\xff\x9", 4)), "00abff09");
}

TEST(Utf8, WhenSequencesAreBroken_SaysSo) {
  EXPECT_TRUE(is_valid_utf8("föö \xF0\x9F\x98\x80"));
  for (const char* bad :
       {"\xC0\x80", "\xED\xA0\x80", "\xF5\x80\x80\x80", "\xE2\x82", "\xFF", "\x80"}) {
    EXPECT_FALSE(is_valid_utf8(bad));
  }
}

TEST(GoDuration, WhenUnitsAreMissing_Refuses) {
  EXPECT_EQ(parse_go_duration_ns("1h30m"), 5'400'000'000'000);
  EXPECT_EQ(parse_go_duration_ns("1.5s"), 1'500'000'000);
  EXPECT_EQ(parse_go_duration_ns("300ms"), 300'000'000);
  EXPECT_EQ(parse_go_duration_ns("0"), 0);
  for (const char* bad : {"", "5", "1x", "s", "1h5", "99999999h"}) {
    EXPECT_FALSE(parse_go_duration_ns(bad)) << bad;
  }
}

TEST(Uuid, WhenMadeTwice_Differs) {
  const std::string uuid = random_uuid();
  EXPECT_EQ(uuid.size(), 36U);
  EXPECT_EQ(uuid[14], '4');
  EXPECT_NE(uuid, random_uuid());
}

TEST(Rfc3339, WhenGivenSeconds_WritesUtc) {
  EXPECT_EQ(rfc3339(1'767'225'599), "2025-12-31T23:59:59Z");
  EXPECT_EQ(rfc3339_micro(1'767'225'599'000'042), "2025-12-31T23:59:59.000042Z");
}

TEST(Rfc3339, WhenGivenAnyDay_WritesWhatTheLibraryDoes) {
  std::mt19937_64 random(1);
  constexpr std::int64_t kFrom = -62'167'219'200, kTo = 253'402'300'799;  // years 0 to 9999
  for (int i = 0; i < 20'000; ++i) {
    const std::int64_t at =
        i == 0 ? kFrom
        : i == 1
            ? kTo
            : kFrom + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(kTo - kFrom));
    const auto time = static_cast<std::time_t>(at);
    std::tm parts{};
    gmtime_r(&time, &parts);
    char text[40];
    std::snprintf(text, sizeof text, "%04d-%02d-%02dT%02d:%02d:%02dZ", parts.tm_year + 1900,
                  parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec);
    ASSERT_EQ(rfc3339(at), text) << at;
  }
}

TEST(SharedBytes, WhenCopied_SharesTheBlock) {
  const SharedBytes a("ab", "", "cd");
  const SharedBytes b = a;  // NOLINT: the copy is the point
  EXPECT_EQ(b.view(), "abcd");
  EXPECT_EQ(a.view().data(), b.view().data());
  EXPECT_TRUE(SharedBytes().view().empty());
}

TEST(Error, WhenContextIsAdded_KeepsCodeAndDetail) {
  Error error(Errc::kNotFound, "gone");
  error.edit().retry_after_seconds = 3;
  const Error outer = std::move(error).at("dial");
  EXPECT_EQ(outer.to_string(), "NotFound: dial: gone");
  EXPECT_EQ(outer.clone().detail().retry_after_seconds, 3);
  EXPECT_LE(sizeof(Error), 16U);
}

}  // namespace
}  // namespace kintsugi
