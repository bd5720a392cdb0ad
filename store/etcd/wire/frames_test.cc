#include "store/etcd/wire/frames.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace kintsugi::store::etcd {
namespace {

using ::testing::ElementsAre;
using namespace std::string_view_literals;

TEST(Frames, AMessageHasFiveBytesInFront) {
  std::string out;
  put_frame(out, "abc");
  put_frame(out, std::string(300, 'x'));
  EXPECT_EQ(out.substr(0, 13),
            "\0\0\0\0\x03"
            "abc"
            "\0\0\0\x01\x2C"sv);
}

TEST(Frames, CutAnywhere_GivesTheSameMessages) {
  std::string body;
  put_frame(body, "one");
  put_frame(body, "");
  put_frame(body, "three");
  for (std::size_t first = 0; first <= body.size(); ++first) {
    for (std::size_t second = first; second <= body.size(); ++second) {
      FrameReader reader(100);
      std::vector<std::string> messages;
      const auto visit = [&](std::string_view message) { messages.emplace_back(message); };
      EXPECT_TRUE(reader.feed(std::string_view(body).substr(0, first), visit));
      EXPECT_TRUE(reader.feed(std::string_view(body).substr(first, second - first), visit));
      EXPECT_TRUE(reader.feed(std::string_view(body).substr(second), visit));
      EXPECT_THAT(messages, ElementsAre("one", "", "three")) << first << " " << second;
      EXPECT_TRUE(reader.at_boundary());
    }
  }
}

TEST(Frames, WhatIsTooLargeOrCompressed_EndsTheBody) {
  const auto none = [](std::string_view) { FAIL(); };
  FrameReader large(100);
  const auto too_large = large.feed("\0\0\0\0\x65"sv, none);
  ASSERT_FALSE(too_large);
  EXPECT_EQ(too_large.error().code(), Errc::kRequestEntityTooLarge);
  EXPECT_FALSE(large.feed("\0\0\0\0\x01x"sv, none));
  FrameReader compressed(100);
  const auto refused = compressed.feed("\1\0\0\0\1x"sv, none);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Errc::kProtocol);
  EXPECT_FALSE(compressed.at_boundary());
}

TEST(Frames, StatusIsReadFromFields) {
  const GrpcStatus status = parse_status("14", "etcdserver: no%20leader%2");
  EXPECT_EQ(status.code, GrpcCode::kUnavailable);
  EXPECT_EQ(status.message, "etcdserver: no leader%2");
  EXPECT_EQ(parse_status("0", "").code, GrpcCode::kOk);
  EXPECT_EQ(parse_status("17", "").code, GrpcCode::kUnknown);
  EXPECT_EQ(parse_status("x", "").code, GrpcCode::kUnknown);
}

TEST(Frames, TimeoutsHaveEightDigits) {
  EXPECT_EQ(timeout_text(2'500), "2500m");
  EXPECT_EQ(timeout_text(0), "1m");
  EXPECT_EQ(timeout_text(100'000'000), "100000S");
}

}  // namespace
}  // namespace kintsugi::store::etcd
