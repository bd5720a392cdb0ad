#include "http/gunzip.h"

#include <gtest/gtest.h>

#include <array>
#include <string>

#include "http/gzip.h"

namespace kintsugi::http {
namespace {

std::string packed(std::string_view text) {
  std::string out;
  Gzip().write(text, true, out);
  return out;
}

struct Result {
  std::string text;
  bool good = true;
  bool complete = false;
};

/// Feeds pieces of `piece` bytes into room for `room` bytes at a time.
Result unpacked(std::string_view in, std::size_t piece, std::size_t room) {
  Result result;
  Gunzip gunzip;
  std::string out(room, '\0');
  while (!in.empty() && result.good) {
    std::string_view part = in.substr(0, piece);
    in.remove_prefix(part.size());
    bool full = false;
    while ((!part.empty() || full) && result.good) {
      const Gunzip::Step step = gunzip.next(part, out);
      result.good = step.good;
      part.remove_prefix(step.read);
      result.text.append(out, 0, step.written);
      full = step.written == room;
    }
  }
  result.complete = gunzip.at_boundary();
  return result;
}

TEST(Gunzip, WhenMembersFollowEachOther_T111_GivesAllOfThem) {
  const std::string large(100'000, 'x');
  const std::string body = packed("one\n") + packed("") + packed(large) + packed("two\n");
  for (const std::size_t piece : {std::size_t{1}, std::size_t{7}, body.size()}) {
    for (const std::size_t room : {std::size_t{1}, std::size_t{4096}}) {
      const Result result = unpacked(body, piece, room);
      EXPECT_TRUE(result.good);
      EXPECT_TRUE(result.complete);
      EXPECT_EQ(result.text, "one\n" + large + "two\n");
    }
  }
}

TEST(Gunzip, WhenMemberIsCutOff_IsNotAtBoundary) {
  const std::string body = packed("some text");
  EXPECT_TRUE(unpacked("", 1, 16).complete);
  for (std::size_t size = 1; size < body.size(); ++size) {
    const Result result = unpacked(std::string_view(body).substr(0, size), 3, 16);
    EXPECT_TRUE(result.good) << size;
    EXPECT_FALSE(result.complete) << size;
  }
}

TEST(Gunzip, WhenBytesAreNoGzip_SaysSoOnceAndForAll) {
  std::string wrong_sum = packed("some text");
  wrong_sum[wrong_sum.size() - 6] ^= 1;
  for (const std::string& body :
       {std::string("{\"type\":1}"), packed("a") + "garbage", wrong_sum}) {
    EXPECT_FALSE(unpacked(body, 2, 64).good);
  }
  Gunzip gunzip;
  std::array<char, 16> out{};
  EXPECT_FALSE(gunzip.next("no gzip", out).good);
  EXPECT_FALSE(gunzip.next(packed("a"), out).good);
}

TEST(Gunzip, WhenLittleBecomesMuch_GivesNoMoreThanAsked) {
  const std::string body = packed(std::string(1U << 24, '\0'));
  Gunzip gunzip;
  std::array<char, 64> out{};
  const Gunzip::Step step = gunzip.next(body, out);
  EXPECT_EQ(step.written, out.size());
  EXPECT_LT(step.read, body.size());
}

}  // namespace
}  // namespace kintsugi::http
