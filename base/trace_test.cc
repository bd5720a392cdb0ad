#include "base/trace.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>

namespace kintsugi {
namespace {

constexpr const char* kValid = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

TEST(TraceContext, OP_502_WhatIsValidIsReadAndWrittenAgain) {
  const auto parent = parse_trace_parent(kValid);
  ASSERT_TRUE(parent);
  EXPECT_TRUE(parent->sampled);
  EXPECT_EQ(parent->span, 0xb7ad6b7169203331U);
  EXPECT_EQ(trace_parent_text(*parent), kValid);
  const std::string off = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-02";
  ASSERT_TRUE(parse_trace_parent(off));
  EXPECT_FALSE(parse_trace_parent(off)->sampled);
  // A later version, as far as it is known.
  EXPECT_EQ(parse_trace_parent("cc" + std::string(kValid).substr(2) + "-what-comes"), parent);
}

TEST(TraceContext, OP_502_WhatIsMalformedIsNone) {
  const std::string valid = kValid;
  for (const std::string& text :
       {std::string(), valid.substr(1), valid + "-", valid + "x", "ff" + valid.substr(2),
        "00-00000000000000000000000000000000-b7ad6b7169203331-01" + std::string(),
        "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01" + std::string(),
        "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01" + std::string(),
        "00_0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01" + std::string(),
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0g" + std::string(),
        "cc" + valid.substr(2) + "what", valid + "," + valid}) {
    EXPECT_EQ(parse_trace_parent(text), std::nullopt) << text;
  }
}

TEST(TraceContext, OP_502_TheShareIsByTheTrace) {
  TraceId low{}, high{};
  low[15] = 1;
  for (std::size_t i = 9; i < high.size(); ++i) {
    high[i] = 0xFF;
  }
  EXPECT_FALSE(is_in_share(low, 0));
  EXPECT_TRUE(is_in_share(low, 1));
  EXPECT_FALSE(is_in_share(high, 999'999));
  EXPECT_TRUE(is_in_share(high, 1'000'000));
  int chosen = 0;
  for (int i = 0; i < 10'000; ++i) {
    chosen += is_in_share(new_trace_id(), 100'000) ? 1 : 0;
  }
  EXPECT_NEAR(chosen, 1'000, 200);  // six deviations
}

TEST(Trace, OP_504_EachThreadHasARing_AndWhatFindsNoRoomIsCounted) {
  (void)take_spans(100'000);
  const TraceStats before = trace_stats();
  constexpr int kMany = 3'000;
  const auto record = [](std::uint64_t first) {
    for (int i = 0; i < kMany; ++i) {
      Span span;
      span.id = first + static_cast<std::uint64_t>(i);
      record_span(std::move(span));
    }
  };
  std::thread one(record, 1'000'000), other(record, 2'000'000);
  one.join();
  other.join();
  const TraceStats after = trace_stats();
  const std::uint64_t kept = after.recorded - before.recorded;
  EXPECT_EQ(kept, 2'048U);
  EXPECT_EQ(after.dropped - before.dropped, 2 * kMany - kept);
  const auto some = take_spans(10);
  ASSERT_EQ(some.size(), 10U);
  EXPECT_NE(some[0].id / 1'000'000, some[1].id / 1'000'000);  // of both
  EXPECT_EQ(some[2].id, some[0].id + 1);                      // in their order
  EXPECT_EQ(take_spans(100'000).size(), kept - 10);
}

}  // namespace
}  // namespace kintsugi
