#include "base/inner_span.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>

namespace kintsugi {
namespace {

constexpr const char* kRecorded = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

class InnerSpanTest : public ::testing::Test {
 protected:
  InnerSpanTest() {
    set_tracing(true);
    (void)take_spans(10'000);
  }
  ~InnerSpanTest() override { set_tracing(false); }
};

TEST_F(InnerSpanTest, OP_503_ItIsBelowTheSpanThatTheHeaderNames) {
  const auto span = InnerSpan::begin(kRecorded, "store commit");
  ASSERT_NE(span, nullptr);
  span->note("kintsugi.rows", 3);
  span->end();
  span->end("too late");
  const auto taken = take_spans(10);
  ASSERT_EQ(taken.size(), 1U);
  EXPECT_EQ(taken[0].trace, parse_trace_parent(kRecorded)->trace);
  EXPECT_EQ(taken[0].parent, 0x00f067aa0ba902b7U);
  EXPECT_NE(taken[0].id, taken[0].parent);
  EXPECT_EQ(taken[0].kind, SpanKind::kInternal);
  EXPECT_EQ(taken[0].name, "store commit");
  EXPECT_EQ(taken[0].fault, "");
  EXPECT_EQ(taken[0].attributes.at(0).number, 3);
  EXPECT_LE(taken[0].begin, taken[0].end);
}

TEST_F(InnerSpanTest, OP_503_WhatIsLeftWasCancelledAndWhatIsDroppedWasNot) {
  InnerSpan::begin(kRecorded, "queue").reset();
  const auto dropped = InnerSpan::begin(kRecorded, "queue");
  dropped->drop();
  const auto taken = take_spans(10);
  ASSERT_EQ(taken.size(), 1U);
  EXPECT_EQ(taken[0].fault, "cancelled");
}

TEST_F(InnerSpanTest, OP_503_ThereIsNoneOfWhatIsNotRecorded) {
  EXPECT_EQ(InnerSpan::begin("", "queue"), nullptr);
  EXPECT_EQ(InnerSpan::begin("00-made-up-01", "queue"), nullptr);
  EXPECT_EQ(InnerSpan::begin("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00", "queue"),
            nullptr);
  set_tracing(false);
  EXPECT_EQ(InnerSpan::begin(kRecorded, "queue"), nullptr);
}

}  // namespace
}  // namespace kintsugi
