#include "proxy/forwarding/internal/watch_tail.h"

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

TEST(WatchTail, WhenAWebSocketsFramesAreCutAnywhere_SE049_KnowsWhereTheyEnd) {
  const auto frame = [](std::size_t size) {
    std::string text = "\x81";
    if (size < 126) {
      text += static_cast<char>(size);
    } else if (size < 65'536) {
      text += std::string("\x7E") + static_cast<char>(size >> 8U) + static_cast<char>(size & 255U);
    } else {
      text += "\x7F";
      for (int shift = 56; shift >= 0; shift -= 8) {
        text += static_cast<char>((size >> static_cast<unsigned>(shift)) & 255U);
      }
    }
    return text + std::string(size, 'x');
  };
  for (const std::size_t size : {0U, 1U, 125U, 126U, 127U, 65'535U, 65'536U, 70'000U}) {
    const std::string one = frame(size);
    for (const std::size_t cut : {std::size_t{1}, std::size_t{2}, std::size_t{3}, one.size() - 1}) {
      if (cut >= one.size()) {
        continue;
      }
      WatchTail split(Form::kWebSocket, true);
      split.feed(one);
      EXPECT_TRUE(split.at_boundary()) << size;
      split.feed(std::string_view(one).substr(0, cut));
      EXPECT_FALSE(split.at_boundary()) << size << " cut at " << cut;
      EXPECT_EQ(split.first_boundary(one.substr(cut) + "more"), one.size() - cut) << size;
      EXPECT_EQ(split.first_boundary(""), kNone);
    }
  }
  WatchTail masked(Form::kWebSocket, false);
  masked.feed(std::string("\x81\x83mask", 6));
  EXPECT_FALSE(masked.at_boundary());
  masked.feed("abc");
  EXPECT_TRUE(masked.at_boundary());
  EXPECT_EQ(masked.last_words(), std::string("\x88\x02\x03\xF0", 4)) << "1008";
}

}  // namespace
}  // namespace kintsugi::proxy
