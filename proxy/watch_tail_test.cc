#include "proxy/watch_tail.h"

#include <gtest/gtest.h>

namespace kintsugi::proxy {
namespace {

using Form = WatchTail::Form;
constexpr std::size_t kNone = std::string_view::npos;

std::string event(std::string_view version, std::string_view before = "") {
  return R"({"type":"ADDED","object":{"kind":"ConfigMap","apiVersion":"v1",)" +
         std::string(before) +
         R"("metadata":{"name":"a \"b\\","annotations":{"x":"\"resourceVersion\":\"9\""},)" +
         R"("labels":{"resourceVersion":"8"},"resourceVersion":")" + std::string(version) +
         R"("},"data":{"resourceVersion":"7"}}})" + "\n";
}

constexpr std::string_view kBookmark5 =
    R"({"type":"BOOKMARK","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"resourceVersion":"5"}}})"
    "\n";

TEST(WatchTail, WhenEventsWereSeen_BookmarksTheLastOne) {
  WatchTail tail(Form::kJsonLines, true);
  EXPECT_TRUE(tail.at_boundary());
  EXPECT_EQ(tail.last_words(), "");
  tail.feed(event("4") + event("5"));
  EXPECT_TRUE(tail.at_boundary());
  EXPECT_EQ(tail.last_words(), kBookmark5);
}

TEST(WatchTail, WhenOtherFieldsLookLikeIt_ReadsObjectMetadataOnly) {
  WatchTail tail(Form::kJsonLines, true);
  tail.feed(
      event("5", R"("aaa":{"metadata":{"resourceVersion":"1"},"l":[{"x":"}"},[1,2]]},"n":3,)"));
  EXPECT_EQ(tail.last_words(), kBookmark5);
}

TEST(WatchTail, WhenTheVersionIsInTheFirstPiece_ItCountsOnceTheEventIsComplete) {
  WatchTail tail(Form::kJsonLines, true);
  const std::string text = event("4") + event("5");
  const std::size_t cut = text.rfind("\"data\"");
  tail.feed(std::string_view(text).substr(0, cut));
  EXPECT_FALSE(tail.at_boundary());
  EXPECT_EQ(tail.last_words(), "");
  tail.feed(std::string_view(text).substr(cut));
  EXPECT_EQ(tail.last_words(), kBookmark5);
}

TEST(WatchTail, WhenBytesComeOneByOne_NeverNamesAnOlderEvent) {
  WatchTail tail(Form::kJsonLines, true);
  tail.feed(event("4"));
  for (const char c : event("5")) {
    tail.feed(std::string_view(&c, 1));
  }
  EXPECT_TRUE(tail.at_boundary());
  EXPECT_EQ(tail.last_words(), "");  // 4 would be behind what the client has
  tail.feed(event("5"));
  EXPECT_EQ(tail.last_words(), kBookmark5);
}

TEST(WatchTail, WhenTheLastEventIsAnError_HasNoBookmark) {
  WatchTail tail(Form::kJsonLines, true);
  tail.feed(event("5"));
  tail.feed(
      R"({"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"code":410}})"
      "\n");
  EXPECT_EQ(tail.last_words(), "");
}

TEST(WatchTail, WhenTheClientAllowsNone_HasNoBookmark) {
  WatchTail tail(Form::kJsonLines, false);
  tail.feed(event("5"));
  EXPECT_TRUE(tail.at_boundary());
  EXPECT_EQ(tail.last_words(), "");
}

TEST(WatchTail, WhenTextIsMalformed_IsOnlySilent) {
  for (const std::string_view text :
       {"\n", "{}\n", "{\"object\":\n", "{\"object\":{\"metadata\":{\"resourceVersion\":5}}}\n",
        "[[[[{\"\\\n", "{\"object\":{\"metadata\":\n", "{\"a\":}}}}]\n", "{,,\n", "\"\\\\\\\"\n"}) {
    WatchTail tail(Form::kJsonLines, true);
    tail.feed(text);
    EXPECT_EQ(tail.last_words(), "") << text;
  }
}

TEST(WatchTail, WhenAnEventRuns_FindsItsEnd) {
  WatchTail lines(Form::kJsonLines, true);
  EXPECT_EQ(lines.first_boundary("abc"), 0U);
  lines.feed("{\"type\"");
  EXPECT_EQ(lines.first_boundary(":1"), kNone);
  EXPECT_EQ(lines.first_boundary(":1}\n{\n"), 4U);

  using namespace std::string_view_literals;
  WatchTail frames(Form::kLengthDelimited, true);
  EXPECT_TRUE(frames.at_boundary());
  frames.feed("\0\0\0\3ab"sv);
  EXPECT_FALSE(frames.at_boundary());
  EXPECT_EQ(frames.first_boundary("c\0\0\0\1"sv), 1U);
  frames.feed("c\0\0"sv);
  EXPECT_FALSE(frames.at_boundary());
  EXPECT_EQ(frames.first_boundary("\0\2x"sv), kNone);
  frames.feed("\0\2xy\0\0\0\0"sv);
  EXPECT_TRUE(frames.at_boundary());
  EXPECT_EQ(frames.last_words(), "");
}

TEST(WatchTail, WhenHeadersAreLookedAt_KnowsTheForm) {
  http::HeaderList headers;
  EXPECT_EQ(WatchTail::form_of(headers), Form::kOpaque);
  headers.add("content-type", "application/json;stream=watch");
  EXPECT_EQ(WatchTail::form_of(headers), Form::kJsonLines);
  headers.add("content-encoding", "gzip");
  EXPECT_EQ(WatchTail::form_of(headers), Form::kOpaque);
  http::HeaderList protobuf;
  protobuf.add("content-type", "application/vnd.kubernetes.protobuf;stream=watch");
  EXPECT_EQ(WatchTail::form_of(protobuf), Form::kLengthDelimited);
}

}  // namespace
}  // namespace kintsugi::proxy
