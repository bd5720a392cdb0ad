#include "workers/runtime/status/event_recorder.h"

#include <gtest/gtest.h>

#include <string>

namespace kintsugi::workers {
namespace {

using krm::Json;
using Write = EventRecorder::Write;

constexpr std::int64_t kWall = 1'767'323'045'000'006;  // 2026-01-02T03:04:05.000006Z

struct Bench {
  EventRecorder recorder;
  TimePoint now{seconds(1'000)};
  const TimePoint start = now;

  explicit Bench(const Redactor* redactor = nullptr, EventRecorder::Params params = {})
      : recorder(
            [&] {
              params.controller = "kintsugi.dev/network";
              params.instance = "host-1";
              return params;
            }(),
            redactor, 5) {}

  std::optional<Write> record(std::string_view note, std::string_view object = "vpc-a",
                              std::string_view reason = "PeerDown") {
    return recorder.record({.about = {"c1", "net.dev/v1", "VPC", "ns", object, "u1"},
                            .warning = true,
                            .reason = reason,
                            .action = "Reconcile",
                            .note = note},
                           now, kWall + (now - start) / std::chrono::microseconds(1));
  }
  int writes_until(TimePoint end) {
    int writes = 0;
    while (recorder.next_timer() && *recorder.next_timer() <= end) {
      now = *recorder.next_timer();
      while (recorder.take_due(now)) {
        ++writes;
      }
    }
    now = end;
    return writes;
  }
};

TEST(EventRecorder, RT83_AnEventIsAnObjectOfEventsV1InTheObjectsCluster) {
  Bench b;
  const std::optional<Write> write = b.record("droplet d1 does not answer");
  ASSERT_TRUE(write);
  EXPECT_TRUE(write->create);
  EXPECT_EQ(write->cluster, "c1");
  EXPECT_EQ(write->ns, "ns");
  EXPECT_TRUE(write->name.starts_with("vpc-a."));
  EXPECT_EQ(write->name.size(), 22U);
  EXPECT_EQ(write->body,
            R"({"action":"Reconcile","apiVersion":"events.k8s.io/v1",)"
            R"("eventTime":"2026-01-02T03:04:05.000006Z","kind":"Event","metadata":{"name":")" +
                write->name +
                R"(","namespace":"ns"},"note":"droplet d1 does not answer","reason":"PeerDown",)"
                R"("regarding":{"apiVersion":"net.dev/v1","kind":"VPC","name":"vpc-a",)"
                R"("namespace":"ns","uid":"u1"},"reportingController":"kintsugi.dev/network",)"
                R"("reportingInstance":"host-1","type":"Warning"})");
}

TEST(EventRecorder, RT83_AnObjectOutsideNamespacesHasItsEventsInDefault_NamesAreValid) {
  Bench b;
  const auto write = b.recorder.record(
      {.about = {"c1", "v1", "Node", "", "System:A_b.-c-", ""}, .reason = "R"}, b.now, kWall);
  ASSERT_TRUE(write);
  EXPECT_EQ(write->ns, "default");
  EXPECT_TRUE(write->name.starts_with("systemxaxb.xc.")) << write->name;
  const auto longest = b.recorder.record(
      {.about = {"c1", "v1", "Node", "", std::string(300, 'n'), ""}, .reason = "R"}, b.now, kWall);
  ASSERT_TRUE(longest);
  EXPECT_EQ(longest->name.size(), 253U);
}

TEST(EventRecorder, RT83_RT_T102_TheSameErrorAThousandTimesIsOneSeries) {
  Bench b;
  const std::optional<Write> first = b.record("no route");
  ASSERT_TRUE(first);
  int patches = 0;
  std::optional<Write> last;
  for (int i = 1; i < 1'000; ++i) {  // one each 300 ms: 5 minutes
    b.now += milliseconds(300);
    ASSERT_FALSE(b.record("no route"));
    while (std::optional<Write> write = b.recorder.take_due(b.now)) {
      EXPECT_GE(b.now - b.start, std::chrono::minutes(1) * (patches + 1));
      ++patches;
      last = std::move(write);
    }
  }
  EXPECT_EQ(b.recorder.series(), 1U);
  EXPECT_EQ(patches, 4);
  ASSERT_TRUE(b.recorder.next_timer());
  last = b.recorder.take_due(*b.recorder.next_timer());
  ASSERT_TRUE(last);
  EXPECT_FALSE(last->create);
  EXPECT_EQ(last->name, first->name);
  EXPECT_EQ(last->body,
            R"({"series":{"count":1000,"lastObservedTime":"2026-01-02T03:09:04.700006Z"}})");
  EXPECT_FALSE(b.recorder.next_timer());
}

TEST(EventRecorder, RT83_AfterTenQuietMinutesASeriesBeginsAnew) {
  Bench b;
  const auto first = b.record("x");
  b.now += std::chrono::minutes(10);
  EXPECT_FALSE(b.record("x"));
  b.now += std::chrono::minutes(10) + Duration(1);
  const auto second = b.record("x");
  ASSERT_TRUE(first && second);
  EXPECT_NE(first->name, second->name);
  EXPECT_FALSE(b.recorder.next_timer());  // the old count goes with its series
}

TEST(EventRecorder, RT83_OtherReasonsMessagesAndObjectsAreOtherSeries) {
  Bench b;
  EXPECT_TRUE(b.record("x"));
  EXPECT_TRUE(b.record("y"));
  EXPECT_TRUE(b.record("x", "vpc-b"));
  EXPECT_TRUE(b.record("x", "vpc-a", "Other"));
  EXPECT_FALSE(b.record("x"));
  EXPECT_EQ(b.recorder.series(), 4U);
}

TEST(EventRecorder, RT83_Burst25ThenOneEachFiveMinutesPerObject) {
  Bench b;
  int made = 0;
  for (int i = 0; i < 100; ++i) {
    made += b.record("m" + std::to_string(i)) ? 1 : 0;
  }
  EXPECT_EQ(made, 25);
  EXPECT_EQ(b.recorder.dropped(), 75U);
  EXPECT_TRUE(b.record("x", "vpc-b"));
  b.now += std::chrono::minutes(5) - Duration(1);
  EXPECT_FALSE(b.record("n"));
  b.now += Duration(1);
  EXPECT_TRUE(b.record("n"));
  EXPECT_FALSE(b.record("o"));
  b.now += std::chrono::hours(24);
  made = 0;
  for (int i = 0; i < 100; ++i) {
    made += b.record("p" + std::to_string(i)) ? 1 : 0;
  }
  EXPECT_EQ(made, 25);
}

TEST(EventRecorder, RT83_MemoryIsBounded) {
  Bench b(nullptr, {.max_series = 10, .max_objects = 20});
  for (int i = 0; i < 1'000; ++i) {
    ASSERT_TRUE(b.record("x", "o" + std::to_string(i)));
    ASSERT_FALSE(b.record("x", "o" + std::to_string(i)));
  }
  EXPECT_EQ(b.recorder.series(), 10U);
  EXPECT_EQ(b.recorder.objects(), 20U);
  EXPECT_EQ(b.writes_until(b.now + std::chrono::minutes(2)), 10);
  EXPECT_TRUE(b.record("x", "o1"));     // forgotten
  EXPECT_FALSE(b.record("x", "o999"));  // the latest is not
}

TEST(EventRecorder, RT83_WhenItsObjectIsGone_TheNextOccurrenceIsCreated) {
  Bench b;
  const auto first = b.record("x");
  EXPECT_FALSE(b.record("x"));
  ASSERT_TRUE(first);
  b.recorder.forget("c1", "ns", "another");
  EXPECT_EQ(b.recorder.series(), 1U);
  b.recorder.forget(first->cluster, first->ns, first->name);
  EXPECT_FALSE(b.recorder.next_timer());
  EXPECT_TRUE(b.record("x"));
}

TEST(EventRecorder, RT84_RT_T103_NotesHaveNoSecretsAndAreAtMost1024Bytes) {
  Redactor redactor;
  ASSERT_TRUE(redactor.know("a", Secret::copy_of("hunter2hunter2")));
  Bench b(&redactor);
  const auto write = b.record("broker said: hunter2hunter2\x1b");
  ASSERT_TRUE(write);
  EXPECT_NE(write->body.find(R"("note":"broker said: ***")"), std::string::npos);
  const auto longest = b.record(std::string(2'000, 'n'));
  ASSERT_TRUE(longest);
  const Expected<Json> object = Json::parse(longest->body);
  ASSERT_TRUE(object);
  EXPECT_EQ(object->text({"note"}).size(), 1'024U);
}

}  // namespace
}  // namespace kintsugi::workers
