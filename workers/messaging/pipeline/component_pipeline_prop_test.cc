// Random wants, lost answers, reconnects, restarts and foreign edits.
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>
#include <set>

#include "workers/messaging/pipeline/component_pipeline.h"
#include "workers/testing/scripted_component.h"

namespace kintsugi::workers {
namespace {

constexpr int kObjects = 12, kSteps = 400;

class Storm {
 public:
  Storm(ComponentKind kind, std::uint64_t seed)
      : kind_(kind), edits_(seed % 3 != 0), random_(seed), bench_(kind, params(seed)) {}

  void run() {
    bench_.pipeline.complete(bench_.now);
    for (int i = 0; i < kSteps; ++i) {
      step();
      ASSERT_LE(bench_.waiting.size(), 20U);
    }
    if (!bench_.pipeline.is_connected()) {
      bench_.ready();
    }
    bench_.run(std::chrono::minutes(15));
    check();
  }

 private:
  static ComponentPipeline::Params params(std::uint64_t seed) {
    ComponentPipeline::Params out;
    out.window = 20;
    out.sweep = seconds(90);
    out.counters = seconds(10);
    out.links = seconds(60);
    out.retry_most = seconds(10);
    out.seed = seed;
    if (seed % 3 == 0) {
      out.most_queried = 5;  // by sweeps alone
    }
    if (seed % 4 == 0) {
      out.most_read = 3;
    }
    return out;
  }

  int pick(int below) { return static_cast<int>(random_() % static_cast<unsigned>(below)); }

  std::vector<DesiredEntity> entities(int n) {
    if (kind_ == ComponentKind::kBroker) {
      auto out = broker_queue(n, n % 3 == 0 ? "c1" : n % 3 == 1 ? "c2" : "", pick(3) + 1);
      if (n % 4 == 0) {
        const std::string name = out.back().name;
        out.insert(
            out.end() - 1,
            {EntityKind::kAddressSettings, name, {{"maxSizeMessages", std::int64_t{pick(3) + 1}}}});
      }
      return out;
    }
    if (n % 3 == 0) {
      std::vector<DesiredEntity> out = {test_vhost(n, pick(3) + 1)};
      if (pick(2) == 0) {
        out.push_back({EntityKind::kLinkRoute,
                       test_name(EntityKind::kLinkRoute, n, "in"),
                       {{"prefix", "space-" + std::to_string(n)}}});
      }
      return out;
    }
    auto out = router_queue(n, pick(2) == 0 ? "balanced" : "multicast");
    if (pick(3) == 0) {
      out.pop_back();
    }
    return out;
  }

  bool is_wanted(const std::string& queue) const {
    // One whose end is on its way is lost, whoever wants it again.
    for (const PipelineBench::Waiting& one : bench_.waiting) {
      if (std::get<std::string>(one.request.properties[1].value) == "destroyQueue") {
        return false;
      }
    }
    for (const auto& [object, list] : bench_.objects) {
      for (const DesiredEntity& one : list) {
        if (one.kind == EntityKind::kQueue && one.name == queue) {
          return true;
        }
      }
    }
    return false;
  }

  void edit_by_hand() {
    if (kind_ == ComponentKind::kRouter) {
      if (bench_.component.entities.empty()) {
        return;
      }
      auto at = bench_.component.entities.begin();
      std::advance(at, pick(static_cast<int>(bench_.component.entities.size())));
      // Attributes of tables above the bound are not looked at.
      if (pick(2) == 0 || !edits_) {
        bench_.component.entities.erase(at);
      } else {
        at->second.edit_members().front().value = "by hand";
      }
      return;
    }
    if (!bench_.component.queues.empty()) {
      auto at = bench_.component.queues.begin();
      std::advance(at, pick(static_cast<int>(bench_.component.queues.size())));
      switch (pick(3)) {
        case 0:
          bench_.component.queues.erase(at);
          break;
        case 1:
          at->second.attributes["durable"] = false;
          break;
        default:
          at->second.messages = is_wanted(at->first) ? 5 : 0;
      }
    }
  }

  void step() {
    const int n = pick(kObjects);
    const auto object = static_cast<ObjectId>(n);
    switch (pick(16)) {
      case 0:
      case 1:
      case 2:
        bench_.want(object, entities(n), kind_ == ComponentKind::kRouter && n % 3 == 0);
        break;
      case 3: {
        // Only what nobody wants any more is destroyed with what it holds.
        for (const DesiredEntity& one : bench_.objects[object]) {
          if (const auto at = bench_.component.queues.find(one.name);
              at != bench_.component.queues.end()) {
            at->second.messages = 0;
          }
        }
        bench_.want(object, {});
        break;
      }
      case 4:
        if (bench_.pipeline.is_connected()) {
          bench_.lost();
        } else {
          bench_.ready();
        }
        break;
      case 5:
        bench_.lose_one(pick(2) == 0);
        if (bench_.pipeline.wants_reset()) {
          bench_.lost();
        }
        break;
      case 6:
        edit_by_hand();
        break;
      case 7:
        if (pick(4) == 0) {
          bench_.lost();
          bench_.restart();
          bench_.now += seconds(1);
          bench_.ready();
        }
        break;
      case 8:
        bench_.component.links_active = pick(2) == 0;
        break;
      case 9:
        if (!bench_.pipeline.is_connected()) {
          bench_.ready();
        }
        bench_.run(milliseconds(pick(20'000)));
        break;
      default:
        bench_.pump();
        for (int i = pick(6); i > 0; --i) {
          bench_.answer_one();
        }
    }
  }

  void check() {
    EXPECT_EQ(bench_.component.core_updates, 0);   // MS-060
    EXPECT_EQ(bench_.component.lost_messages, 0);  // BH-7
    EXPECT_EQ(bench_.pipeline.pending(), 0U);
    EXPECT_TRUE(bench_.pipeline.synchronized());
    std::set<std::pair<EntityKind, std::string>> wanted;
    for (const auto& [object, list] : bench_.objects) {
      EXPECT_TRUE(bench_.pipeline.progress(object).settled()) << object;
      for (const DesiredEntity& one : list) {
        wanted.insert({one.kind, one.name});
        check_there(one);
      }
    }
    EXPECT_EQ(bench_.pipeline.entities(), wanted.size());
    const auto held = bench_.component.entities.size() + bench_.component.queues.size() +
                      bench_.component.addresses.size() + bench_.component.settings.size();
    EXPECT_EQ(held, wanted.size());
  }

  void check_there(const DesiredEntity& one) {
    switch (one.kind) {
      case EntityKind::kBrokerAddress:
        EXPECT_EQ(bench_.component.addresses.count(one.name), 1U) << one.name;
        return;
      case EntityKind::kQueue: {
        const auto at = bench_.component.queues.find(one.name);
        ASSERT_NE(at, bench_.component.queues.end()) << one.name;
        EXPECT_TRUE(differing(one, at->second.attributes).empty()) << one.name;
        return;
      }
      case EntityKind::kAddressSettings: {
        const auto at = bench_.component.settings.find(one.name);
        ASSERT_NE(at, bench_.component.settings.end()) << one.name;
        EXPECT_TRUE(differing(one, at->second).empty()) << one.name;
        return;
      }
      default: {
        const auto at =
            bench_.component.entities.find({std::string(router_type(one.kind)), one.name});
        ASSERT_NE(at, bench_.component.entities.end()) << one.name;
        EXPECT_TRUE(differing(one, at->second).empty())
            << one.name << " " << at->second.dump() << bench_.pipeline.progress(0).error;
      }
    }
  }

  ComponentKind kind_;
  bool edits_;
  std::mt19937_64 random_;
  PipelineBench bench_;
};

void storms(ComponentKind kind) {
  const std::uint64_t rounds = std::getenv("KINTSUGI_FULL_LOAD") != nullptr ? 3000 : 60;
  for (std::uint64_t seed = 1; seed <= rounds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Storm(kind, seed).run();
    if (::testing::Test::HasFailure()) {
      return;
    }
  }
}

TEST(ComponentPipelineProperty, MS_060_RouterHoldsWhatIsWantedAfterAnyStorm) {
  storms(ComponentKind::kRouter);
}

TEST(ComponentPipelineProperty, BH_7_BrokerHoldsWhatIsWantedAfterAnyStorm) {
  storms(ComponentKind::kBroker);
}

}  // namespace
}  // namespace kintsugi::workers
