#include "shards/refusals.h"

#include <gtest/gtest.h>

namespace kintsugi::shards {
namespace {

/// Lines that were written to stderr meanwhile, with this text.
std::size_t lines_with(const std::string& log, const std::string& text) {
  std::size_t count = 0;
  for (std::size_t at = log.find(text); at != std::string::npos; at = log.find(text, at + 1)) {
    ++count;
  }
  return count;
}

TEST(Refusals, WhenAServerRefusesForLong_FP157_OneLineTellsThatItBegins) {
  Refusals refusals([](const std::string& server) { return "me-at-" + server; });
  ::testing::internal::CaptureStderr();
  for (int i = 0; i < 100; ++i) {
    refusals.heard("reader", "alpha", "/clusters/%2A/things?watch=true&secret=x", 403,
                   R"({"message":"things is forbidden"})");
  }
  const std::string begun = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(lines_with(begun, "a server refuses"), 1U) << begun;
  for (const char* part :
       {"alpha", "/clusters/%2A/things", "403", "me-at-alpha", "things is forbidden"}) {
    EXPECT_NE(begun.find(part), std::string::npos) << part;
  }
  EXPECT_EQ(begun.find("secret"), std::string::npos);
  ASSERT_EQ(refusals.now().size(), 1U);
  EXPECT_EQ(refusals.now().front().times, 100U);
  EXPECT_EQ(refusals.now().front().text(),
            "alpha: /clusters/%2A/things: 403 things is forbidden (asked as me-at-alpha)");

  ::testing::internal::CaptureStderr();
  for (int i = 0; i < 3; ++i) {
    refusals.heard("reader", "alpha", "/clusters/%2A/things?watch=true", 200, "");
  }
  const std::string ended = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(lines_with(ended, "answers again"), 1U) << ended;
  EXPECT_TRUE(refusals.now().empty());
}

TEST(Refusals, WhenListsAreAnsweredAndWatchesAreNot_FP157_ItIsOneState) {
  Refusals refusals({});
  ::testing::internal::CaptureStderr();
  for (int i = 0; i < 10; ++i) {
    refusals.heard("reader", "alpha", "/things?limit=500", 200, "");
    refusals.heard("reader", "alpha", "/things?watch=true&resourceVersion=1", 400, "no watches");
  }
  const std::string told = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(lines_with(told, "\"msg\""), 1U) << told;
  EXPECT_EQ(refusals.now().front().times, 10U);
}

TEST(Refusals, WhenTwoReadersAreRefused_FP157_EachHasALineAndAServerThatGoesTakesItsOwn) {
  Refusals refusals({});
  refusals.heard("one", "alpha", "/a", 500, std::string(10'000, 'x'));
  refusals.heard("two", "beta", "/b", 401, "not json");
  ASSERT_EQ(refusals.now().size(), 2U);
  EXPECT_EQ(refusals.now()[0].message.size(), Refusals::kMostMessage);
  EXPECT_EQ(refusals.now()[1].text(), "beta: /b: 401 not json");
  refusals.forget("alpha");
  ASSERT_EQ(refusals.now().size(), 1U);
  refusals.heard("two", "beta", "/b", 403, "");  // another one, which is the same state
  EXPECT_EQ(refusals.now().front().code, 403);
}

}  // namespace
}  // namespace kintsugi::shards
