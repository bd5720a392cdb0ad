// Throws planted where the callbacks of merged reads begin: the read ends with 500, or without a
// proper end where its answer has begun, and nothing else ends (SE-181).
#include <stdexcept>

#include "aggregation/asking/merge_guard.h"
#include "base/guard.h"
#include "proxy/testing/list_rig.h"
#include "proxy/testing/watch_rig.h"

namespace kintsugi::proxy {
namespace {

using krm::Json;
using namespace testing;  // NOLINT: the fixture's words

std::string_view planted_at;
int planted = 0;  // times that are left

void throw_there(std::string_view where) {
  if (where == planted_at && planted > 0) {
    --planted;
    throw std::out_of_range("planted");
  }
}

/// Throws once at this place, as long as it lives.
struct Planted {
  explicit Planted(std::string_view where) {
    planted_at = where;
    planted = 1;
    aggregation::planted_fault = throw_there;
  }
  ~Planted() { aggregation::planted_fault = nullptr; }
  Planted(const Planted&) = delete;
  Planted& operator=(const Planted&) = delete;
};

constexpr std::string_view kAnswer = "answer of a shard to a merged read";

TEST_F(MergedLists, WhenACallbackThrows_SE_T081_TheListIs500AndTheNextIsNot) {
  start();
  const std::uint64_t before = caught_exceptions();
  {
    Planted fault(kAnswer);
    const Answer& answer = ask();
    EXPECT_EQ(answer.status, 500);
    const auto body = Json::parse(answer.body);
    ASSERT_TRUE(body) << answer.body;
    EXPECT_EQ(body->text({"reason"}), "InternalError");
    EXPECT_EQ(answer.body.find("planted"), std::string::npos);
    EXPECT_EQ(planted, 0) << "it was thrown";
  }
  EXPECT_EQ(caught_exceptions(), before + 1);
  EXPECT_EQ(ask().status, 200);
}

TEST_F(MergedLists, WhenALateShardsCallbackThrows_SE_T081_TheListIs500) {
  start();
  scripts_[1] = kSilent;
  Planted fault("shard that is late for a merged list");
  EXPECT_EQ(ask().status, 500);
  EXPECT_EQ(planted, 0);
}

TEST_F(MergedWatches, WhenOneClientsCallbackThrows_SE_T081_TheOthersOfTheGroupGoOn) {
  start();
  Answer& first = synced();
  Answer& second = synced();
  ASSERT_TRUE(until([&] { return streams(0) == 1 && streams(1) == 1; })) << "they share";
  const std::uint64_t before = caught_exceptions();
  {
    Planted fault("client of a merged watch");
    tell(0, event("ADDED", "x", "12"));
    ASSERT_TRUE(until([&] { return first.closed || second.closed; }));
    EXPECT_EQ(planted, 0);
  }
  Answer& ended = first.closed ? first : second;
  Answer& other = first.closed ? second : first;
  ASSERT_FALSE(events(ended).empty());
  const Json last = events(ended).back();
  EXPECT_EQ(last.text({"type"}), "ERROR");
  EXPECT_EQ(last.text({"object", "reason"}), "InternalError");
  EXPECT_EQ(ended.body.find("planted"), std::string::npos);
  EXPECT_EQ(caught_exceptions(), before + 1);
  tell(0, event("ADDED", "y", "13"));
  ASSERT_TRUE(until([&] { return other.body.find(R"("name":"y")") != std::string::npos; }));
  EXPECT_FALSE(other.closed);
  EXPECT_EQ(told(other), (Told{"ADDED a", "ADDED b", "ADDED x", "ADDED y"}));
}

TEST_F(MergedWatches, WhenAStreamsCallbackThrows_SE_T081_WhoReadsItEndsAndOthersGoOn) {
  start();
  Answer& ended = synced();
  Answer& other = watch(std::string(kNewest) + "&labelSelector=a");  // of another group
  ASSERT_TRUE(until([&] { return ends(other) == 1; }));
  {
    Planted fault(kAnswer);
    open_[0].front()->stream->send_data(event("ADDED", "x", "12"), false);
    ASSERT_TRUE(until([&] { return ended.closed; }));
    EXPECT_EQ(planted, 0);
  }
  EXPECT_EQ(events(ended).back().text({"object", "reason"}), "InternalError");
  EXPECT_FALSE(other.closed);
  Answer& again = synced();
  EXPECT_EQ(again.status, 200);
}

TEST_F(MergedWatches, WhenTheFirstAnswerThrows_SE_T081_TheWatchIs500) {
  start();
  {
    Planted fault(kAnswer);
    Answer& answer = watch(kNewest);
    ASSERT_TRUE(until([&] { return answer.closed; }));
    EXPECT_EQ(answer.status, 500);
    EXPECT_EQ(planted, 0);
  }
  EXPECT_EQ(synced().status, 200);
}

}  // namespace
}  // namespace kintsugi::proxy
