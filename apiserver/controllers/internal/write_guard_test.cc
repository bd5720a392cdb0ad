#include "apiserver/controllers/internal/write_guard.h"

#include <gtest/gtest.h>

#include "apiserver/testing/controller_server.h"

namespace kintsugi::apiserver {
namespace {

using krm::Json;
using Verdict = WriteGuard::Verdict;

Json object(int value, const char* spec = "{}") {
  Expected<Json> parsed = Json::parse(spec);
  EXPECT_TRUE(parsed);
  Json out = Json::object({{"spec", std::move(*parsed)}});
  out.make({"status", "value"}) = std::int64_t{value};
  return out;
}

class WriteGuardTest : public ::testing::Test {
 protected:
  int allowed_within(Duration time, const std::function<Json(int)>& next) {
    int written = 0;
    for (const TimePoint end = now_ + time; now_ < end; now_ += milliseconds(1)) {
      written += guard_.ask("k", next(written), now_) == Verdict::kWrite ? 1 : 0;
    }
    return written;
  }
  WriteGuard guard_;
  TimePoint now_ = TimePoint{} + seconds(1'000);
};

TEST_F(WriteGuardTest, SE101_WhenItGoesToAndFro_RestsAfterSixWrites) {
  EXPECT_EQ(allowed_within(seconds(60), [](int i) { return object(i % 2); }), 6);
  EXPECT_EQ(guard_.resting(), 1U);
  // Also when the window is over, and for any number of states that come again.
  EXPECT_EQ(allowed_within(seconds(120), [](int i) { return object(i % 2); }), 0);
  EXPECT_EQ(allowed_within(seconds(300), [](int i) { return object(i % 2); }), 1);
  EXPECT_EQ(guard_.ask("other", object(1), now_), Verdict::kWrite);
  EXPECT_NE(guard_.ask("k", object(9), now_), Verdict::kRest) << "that is no state of the loop";
}

TEST_F(WriteGuardTest, SE101_WhenTheSpecChanges_Wakes) {
  allowed_within(seconds(1), [](int i) { return object(i % 3); });
  ASSERT_EQ(guard_.resting(), 1U);
  EXPECT_EQ(guard_.ask("k", object(1), now_), Verdict::kRest);
  EXPECT_NE(guard_.ask("k", object(7, R"({"a": 1})"), now_), Verdict::kRest);
  EXPECT_EQ(guard_.resting(), 0U);
}

TEST_F(WriteGuardTest, SE101_WhenTimesAndRevisionsDiffer_TheStateIsTheSame) {
  const auto next = [](int i) {
    Json out = object(i % 2);
    out.make({"metadata", "resourceVersion"}) = std::to_string(i);
    out.make({"status", "conditions"})
        .push_back(Json::object({{"type", "T"}, {"lastTransitionTime", std::to_string(i)}}));
    return out;
  };
  EXPECT_EQ(allowed_within(seconds(60), next), 6);
}

TEST_F(WriteGuardTest, SE100_WhenItAlwaysDiffers_IsSlowedDownAndNeverStops) {
  const int first = allowed_within(seconds(60), [](int i) { return object(i); });
  EXPECT_GT(first, 12);
  EXPECT_LT(first, 30);
  int base = 1'000;
  const int second = allowed_within(seconds(60), [&base](int i) { return object(base + i); });
  EXPECT_GE(second, 5);
  EXPECT_LE(second, 20);
}

TEST_F(WriteGuardTest, WhenItIsQuietForAMinute_SixAreFreeAgain) {
  allowed_within(seconds(1), [](int i) { return object(i); });
  now_ += seconds(61);
  for (int i = 0; i < 6; ++i) {
    EXPECT_EQ(guard_.ask("k", object(i), now_), Verdict::kWrite);
  }
  EXPECT_EQ(guard_.ask("k", object(6), now_), Verdict::kLater);
}

/// A controller that never agrees with itself.
class Restless final : public ControllerBase {
 public:
  explicit Restless(const ControllerContext& context) : ControllerBase(context, "restless") {}
  void start() override {
    follow("", "configmaps", [this](const ApiServer::Change& change) {
      queue_.add(ObjectKey{change.cluster, "", change.resource, change.ns, change.name}.pack());
    });
  }
  void add_cluster(std::string_view) override {}
  int rounds = 0;

 private:
  void process(const std::string& text, Finished finished) override {
    const ObjectKey key = ObjectKey::unpack(text);
    Json next = *get(key);
    next.make({"status", "side"}) = ++rounds % 2 == 0 ? "left" : "right";
    update(key, "status", std::move(next),
           [finished](Expected<Json> stored) { finished(stored.has_value()); });
  }
};

class RestlessTest : public ControllerTest {};

TEST_F(RestlessTest, SET050_WhenAControllerLoops_TheObjectSaysSoAndTheStoreIsStill) {
  Restless controller(context());
  controller.start();
  server_.put(config_map("m"));
  const auto stalled = [&] {
    const Json* condition = find_condition(*server_.find(config_map("m")), "Stalled");
    return condition != nullptr && condition->text({"status"}) == "True";
  };
  server_.run_until(stalled);
  const int writes = server_.writes;
  EXPECT_LE(writes, 8);
  EXPECT_NE(
      find_condition(*server_.find(config_map("m")), "Stalled")->text({"message"}).find("restless"),
      std::string_view::npos);
  const int rounds = controller.rounds;
  server_.run_until([&] { return controller.rounds > rounds + 2; });
  EXPECT_EQ(server_.writes, writes);
  // A change of the spec wakes it.
  Json changed = *server_.find(config_map("m"));
  changed.make({"spec", "x"}) = std::int64_t{1};
  server_.put(config_map("m"), std::move(changed));
  server_.run_until([&] { return server_.writes > writes; });
}

}  // namespace
}  // namespace kintsugi::apiserver
