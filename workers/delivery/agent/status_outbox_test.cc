#include "workers/delivery/agent/status_outbox.h"

#include <gtest/gtest.h>

#include <vector>

namespace kintsugi::workers {
namespace {

StatusOutbox::Item item(std::string payload, bool must = false) {
  StatusOutbox::Item out;
  out.payload = std::move(payload);
  out.must = must;
  return out;
}

class StatusOutboxTest : public testing::Test {
 protected:
  /// Sends what goes; payloads in their order.
  std::vector<std::string> send(bool acknowledge = true) {
    std::vector<std::string> out;
    while (const auto next = box_.next(now_)) {
      out.push_back(next->item->payload);
      box_.sent(next->uid, ++id_);
      if (acknowledge) {
        EXPECT_EQ(box_.acknowledged(id_, true, now_), next->uid);
      }
    }
    return out;
  }
  using Sent = std::vector<std::string>;
  StatusOutbox box_{{.per_second = 5, .in_flight = 3, .of_one = 4}};
  TimePoint now_ = TimePoint{} + seconds(100);
  int id_ = 0;
};

TEST_F(StatusOutboxTest, CM_36_TheLatestTakesThePlaceOfOneThatWaits) {
  box_.put("u", item("1"));
  box_.put("u", item("2"));
  EXPECT_EQ(box_.items(), 1U);
  EXPECT_EQ(send(), Sent{"2"});
  EXPECT_FALSE(box_.has("u"));
}

TEST_F(StatusOutboxTest, CM_37_FirstAnswersAndLastWordsStay) {
  box_.put("u", item("answer", true));
  box_.put("u", item("later"));
  box_.put("u", item("deleted", true));
  EXPECT_EQ(send(), (Sent{"answer", "deleted"}));
}

TEST_F(StatusOutboxTest, CM_T034_SoManyASecondAndTheLastOne) {
  std::size_t sent = 0;
  std::string last;
  for (int i = 0; i < 1'000; ++i, now_ += milliseconds(1)) {
    box_.put("u", item(std::to_string(i)));
    for (const std::string& one : send()) {
      ++sent;
      last = one;
    }
  }
  now_ += seconds(1);
  for (const std::string& one : send()) {
    ++sent;
    last = one;
  }
  EXPECT_LE(sent, 7U);
  EXPECT_EQ(last, "999");
}

TEST_F(StatusOutboxTest, CM_35_SoManyInFlightAndOneOfEachObject) {
  for (const char* const uid : {"a", "b", "c", "d"}) {
    box_.put(uid, item(uid, true));
  }
  box_.put("a", item("a2", true));
  EXPECT_EQ(send(false).size(), 3U);
  EXPECT_EQ(box_.in_flight(), 3U);
  EXPECT_FALSE(box_.next_time());
  EXPECT_EQ(box_.acknowledged(1, true, now_), "a");
  EXPECT_EQ(send(false).size(), 1U);
}

TEST_F(StatusOutboxTest, CM_T050_WhatTheBrokerRefusesGoesAgain) {
  box_.put("u", item("1", true));
  ASSERT_EQ(send(false), Sent{"1"});
  EXPECT_EQ(box_.acknowledged(1, false, now_), "u");
  EXPECT_EQ(box_.refused(), 1U);
  EXPECT_EQ(send(), Sent{});
  box_.lost();  // as some brokers do
  EXPECT_EQ(send(), Sent{});
  now_ = *box_.next_time();
  EXPECT_EQ(send(), Sent{"1"});
  EXPECT_EQ(box_.refused(), 0U);
  EXPECT_EQ(box_.acknowledged(77, true, now_), std::nullopt);
}

TEST_F(StatusOutboxTest, CM_39_APrefixThatIsRefusedIsTriedOneAtATimeAndLessOften) {
  const auto put = [this](const std::string& uid, const char* prefix) {
    StatusOutbox::Item one = item(uid, true);
    one.prefix = prefix;
    box_.put(uid, std::move(one));
  };
  for (int i = 0; i < 50; ++i) {
    put("a" + std::to_string(i), "v2/");
  }
  const TimePoint begin = now_;
  std::size_t refused = 0;
  std::size_t others = 0;
  for (; now_ < begin + seconds(600); now_ += seconds(1)) {
    put("other" + std::to_string(others), "v1/");
    while (const auto next = box_.next(now_)) {
      box_.sent(next->uid, ++id_);
      const bool good = next->item->prefix == "v1/";
      (good ? others : refused) += 1;
      box_.acknowledged(id_, good, now_);
      if (!good) {
        box_.lost();
      }
    }
  }
  EXPECT_EQ(others, 600U);
  EXPECT_GE(refused, 5U);
  EXPECT_LE(refused, 9U);
  // What is taken again frees the others, one after the other and then all.
  std::size_t taken = 0;
  for (; taken < 50 && now_ < begin + seconds(1'500); now_ += seconds(1)) {
    taken += send().size();
  }
  EXPECT_EQ(taken, 50U);
  EXPECT_EQ(box_.refused(), 0U);
  EXPECT_EQ(box_.items(), 0U);
}

TEST_F(StatusOutboxTest, CM_39_AnObjectThatIsRefusedDoesNotHoldUpItsPrefix) {
  box_.put("bad", item("bad", true));
  ASSERT_EQ(send(false), Sent{"bad"});
  EXPECT_EQ(box_.acknowledged(1, false, now_), "bad");
  now_ += seconds(5);
  for (const char* const uid : {"a", "b", "c", "d"}) {
    box_.put(uid, item(uid, true));
  }
  std::size_t good = 0;
  std::size_t bad = 0;
  for (int second = 0; second < 60; ++second, now_ += seconds(1)) {
    while (const auto next = box_.next(now_)) {
      EXPECT_EQ(box_.in_flight(), 1U);
      const bool refuses = next->uid == "bad";
      (refuses ? bad : good) += 1;
      box_.sent(next->uid, ++id_);
      box_.acknowledged(id_, !refuses, now_);
    }
  }
  EXPECT_EQ(good, 4U);
  EXPECT_GE(bad, 2U);
  EXPECT_LE(bad, 4U);
}

TEST_F(StatusOutboxTest, CM_T016_WhatWasInFlightGoesAgainAfterALoss) {
  box_.put("u", item("1", true));
  ASSERT_EQ(send(false), Sent{"1"});
  box_.lost();
  EXPECT_EQ(box_.in_flight(), 0U);
  EXPECT_EQ(box_.acknowledged(1, true, now_), std::nullopt);
  EXPECT_EQ(send(), Sent{"1"});
  EXPECT_EQ(box_.bytes(), 0U);
}

TEST_F(StatusOutboxTest, CM_38_ItIsBounded) {
  for (int i = 0; i < 100; ++i) {
    box_.put("u", item("x", true));
  }
  EXPECT_EQ(box_.items(), 4U);
  EXPECT_EQ(box_.bytes(), 4U);
  EXPECT_EQ(box_.dropped(), 96U);
}

}  // namespace
}  // namespace kintsugi::workers
