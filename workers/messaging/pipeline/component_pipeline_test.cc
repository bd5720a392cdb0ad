#include "workers/messaging/pipeline/component_pipeline.h"

#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>

#include "workers/testing/scripted_component.h"

namespace kintsugi::workers {
namespace {

constexpr ComponentKind kRouter = ComponentKind::kRouter;
constexpr ComponentKind kBroker = ComponentKind::kBroker;

std::ptrdiff_t place(const std::vector<std::string>& log, const std::string& line) {
  return std::find(log.begin(), log.end(), line) - log.begin();
}

TEST(ComponentPipeline, MS_030_QueueTakesThreeRequestsPerRouterAndTwo) {
  PipelineBench r0(kRouter, {}), r1(kRouter, {}), b0(kBroker, {});
  for (PipelineBench* one : {&r0, &r1, &b0}) {
    one->ready();
    one->settle();
    one->want(1, one == &b0 ? broker_queue(1) : router_queue(1));
    one->settle();
    EXPECT_TRUE(one->pipeline.progress(1).settled());
    EXPECT_TRUE(one->pipeline.synchronized());
    EXPECT_EQ(one->pipeline.pending(), 0U);
  }
  EXPECT_EQ(r0.component.sent_for_entities() + r1.component.sent_for_entities() +
                b0.component.sent_for_entities(),
            3 * 2 + 2);
  EXPECT_EQ(r0.component.counts["CREATE"], 3);
  EXPECT_EQ(b0.component.counts["createAddress"], 1);
  EXPECT_EQ(b0.component.counts["createQueue"], 1);
}

TEST(ComponentPipeline, MS_045_NothingIsSentForWhatIsApplied) {
  PipelineBench router(kRouter, {});
  router.want(1, router_queue(1));
  router.ready();
  router.run(seconds(1));
  const std::size_t before = router.component.log.size();
  router.told.clear();
  for (int i = 0; i < 10; ++i) {
    router.want(1, router_queue(1));
    router.settle();
  }
  EXPECT_EQ(router.component.log.size(), before);
  EXPECT_TRUE(router.told.empty());
}

TEST(ComponentPipeline, MS_055_KnowsWhichObjectsWantSomethingHere) {
  PipelineBench broker(kBroker, {});
  broker.want(1, broker_queue(1));
  EXPECT_TRUE(broker.pipeline.wants(1));
  EXPECT_FALSE(broker.pipeline.wants(0));
  EXPECT_FALSE(broker.pipeline.wants(77));
  broker.ready();
  broker.settle();
  EXPECT_TRUE(broker.pipeline.wants(1));
  broker.want(1, {});
  EXPECT_FALSE(broker.pipeline.wants(1)) << "what is to be deleted is not wanted";
  broker.settle();
  EXPECT_FALSE(broker.pipeline.wants(1));
}

TEST(ComponentPipeline, RouterRequestsOfAnObjectAreNotHeldBack) {
  PipelineBench router(kRouter, {});
  router.ready();
  router.settle();
  router.want(1, router_queue(1));
  EXPECT_EQ(router.pump(), 3U);
}

TEST(ComponentPipeline, QueueWaitsForItsAddressAndThatForItsClass) {
  PipelineBench broker(kBroker, {});
  broker.ready();
  broker.settle();
  broker.want(1, broker_queue(1, "c1"));
  EXPECT_EQ(broker.pump(), 1U);
  broker.answer_one();
  broker.settle();
  const auto& log = broker.component.log;
  const auto settings = place(log, "addAddressSettings c1.#");
  const auto address = place(log, "createAddress c1.space-a/q1");
  const auto queue = place(log, "createQueue c1.space-a/q1");
  EXPECT_LT(settings, address);
  EXPECT_LT(address, queue);
  EXPECT_LT(queue, static_cast<std::ptrdiff_t>(log.size()));
}

TEST(ComponentPipeline, MS_044_ChangedEntityIsReplacedAndItsAutoLinksAreLeft) {
  PipelineBench router(kRouter, {});
  router.ready();
  router.want(1, router_queue(1));
  router.run(seconds(1));
  router.component.log.clear();
  router.want(1, router_queue(1, "multicast"));
  router.settle();
  const std::string name = test_name(EntityKind::kAddress, 1);
  EXPECT_EQ(router.component.log, (std::vector<std::string>{"DELETE " + name, "CREATE " + name}));
  EXPECT_TRUE(router.pipeline.progress(1).settled());
}

TEST(ComponentPipeline, MS_016_VhostIsUpdated) {
  PipelineBench router(kRouter, {});
  router.ready();
  router.want(1, {test_vhost(1, 10)}, true);
  router.settle();
  EXPECT_EQ(router.component.sent_for_entities(), 1);
  router.component.log.clear();
  router.want(1, {test_vhost(1, 5)}, true);
  router.settle();
  EXPECT_EQ(router.component.log,
            std::vector<std::string>{"UPDATE " + test_name(EntityKind::kVhost, 1)});
  EXPECT_EQ(router.component.core_updates, 0);
}

TEST(ComponentPipeline, MH_7_AliasesOfAVhostAreEmptiedBeforeItGoes) {
  PipelineBench router(kRouter, {});
  router.ready();
  router.want(1, {test_vhost(1, 10)}, true);
  router.settle();
  router.component.log.clear();
  router.want(1, {});
  EXPECT_EQ(router.pipeline.progress(1).leftover, 1U);
  router.settle();
  const std::string name = test_name(EntityKind::kVhost, 1);
  EXPECT_EQ(router.component.log, (std::vector<std::string>{"UPDATE " + name, "DELETE " + name}));
  EXPECT_EQ(router.pipeline.entities(), 0U);
  EXPECT_TRUE(router.pipeline.progress(1).settled());
}

TEST(ComponentPipeline, MS_046_DeletionGoesBackwardsAndWhatIsGoneIsFine) {
  PipelineBench broker(kBroker, {});
  broker.ready();
  broker.want(1, broker_queue(1, "c1"));
  broker.settle();
  broker.component.log.clear();
  broker.component.addresses.clear();
  broker.want(1, {});
  broker.settle();
  EXPECT_EQ(broker.component.log,
            (std::vector<std::string>{"destroyQueue c1.space-a/q1", "deleteAddress c1.space-a/q1",
                                      "removeAddressSettings c1.#"}));
  EXPECT_EQ(broker.pipeline.entities(), 0U);
}

TEST(ComponentPipeline, MS_082_ClassIsWrittenOnceAndGoesWithItsLastObject) {
  PipelineBench broker(kBroker, {});
  broker.ready();
  broker.settle();
  for (int i = 0; i < 500; ++i) {
    broker.want(static_cast<ObjectId>(i), broker_queue(i, "c1"));
  }
  broker.settle();
  EXPECT_EQ(broker.component.counts["addAddressSettings"], 1);
  EXPECT_EQ(broker.component.queues.size(), 500U);
  EXPECT_EQ(broker.pipeline.classes(), 1U);
  for (int i = 0; i < 500; ++i) {
    auto entities = broker_queue(i, "c1");
    entities[0].attributes = {{"expiryDelay", std::int64_t{5000}}};
    broker.want(static_cast<ObjectId>(i), std::move(entities));
  }
  broker.settle();
  EXPECT_EQ(broker.component.counts["addAddressSettings"], 2);
  EXPECT_EQ(broker.pipeline.counts().class_writes, 2U);
  EXPECT_EQ(broker.pipeline.counts().exact_writes, 0U);
  EXPECT_EQ(broker.pipeline.entities(EntityKind::kAddressSettings), 1U);
  EXPECT_EQ(broker.pipeline.entities(EntityKind::kQueue), 500U);
  EXPECT_EQ(broker.pipeline.entities(), 1'001U);
  for (int i = 0; i < 499; ++i) {
    broker.want(static_cast<ObjectId>(i), {});
  }
  broker.settle();
  EXPECT_EQ(broker.component.settings.count("c1.#"), 1U);
  broker.want(499, {});
  broker.settle();
  EXPECT_TRUE(broker.component.settings.empty());
  EXPECT_EQ(broker.pipeline.classes(), 0U);
  EXPECT_EQ(broker.pipeline.entities(), 0U);
}

TEST(ComponentPipeline, BH_1_SettingsAreWrittenOneAtATimeAndAFifthOfTheTime) {
  ComponentPipeline::Params params;
  params.window = 10;
  PipelineBench broker(kBroker, params);
  broker.ready();
  broker.settle();
  for (int i = 0; i < 200; ++i) {
    auto entities = broker_queue(i);
    if (i < 20) {
      entities.insert(
          entities.begin() + 1,
          {EntityKind::kAddressSettings, entities[0].name, {{"expiryDelay", std::int64_t{i + 1}}}});
    }
    broker.want(static_cast<ObjectId>(i), std::move(entities));
  }
  Duration writing{}, bulk_end{};
  std::size_t most = 0;
  int in_bulk = 0;
  const TimePoint begin = broker.now;
  while (broker.pump() > 0) {
    const auto writes = static_cast<std::size_t>(
        std::count_if(broker.waiting.begin(), broker.waiting.end(), [](const auto& one) {
          return std::get<std::string>(one.request.properties[1].value) == "addAddressSettings";
        }));
    most = std::max(most, writes);
    const bool is_write =
        std::get<std::string>(broker.waiting.front().request.properties[1].value) ==
        "addAddressSettings";
    broker.now += milliseconds(1);
    writing += is_write ? milliseconds(1) : milliseconds(0);
    broker.answer_one();
    if (broker.component.queues.size() < 180) {
      in_bulk = broker.component.counts["addAddressSettings"];
      bulk_end = broker.now - begin;
    }
  }
  broker.run(seconds(1));
  EXPECT_EQ(most, 1U);
  EXPECT_GT(in_bulk, 0);
  // A write waits for its turn behind the window: it takes 10 ms and then 40 ms pass.
  EXPECT_LE(in_bulk, bulk_end / milliseconds(50) + 1);
  EXPECT_EQ(broker.component.counts["addAddressSettings"], 20);
  EXPECT_EQ(broker.component.queues.size(), 200U);
}

TEST(ComponentPipeline, MS_059_LostAnswerOfAnEffectiveCreateIsReadAndAccepted) {
  PipelineBench router(kRouter, {});
  router.ready();
  router.settle();
  router.want(1, router_queue(1));
  router.pump();
  router.lose_one(true);
  router.settle();
  EXPECT_FALSE(router.pipeline.progress(1).settled());
  EXPECT_NE(router.pipeline.progress(1).error, "");
  router.run(seconds(3));
  EXPECT_TRUE(router.pipeline.progress(1).settled());
  EXPECT_EQ(router.pipeline.progress(1).error, "");
  EXPECT_EQ(router.component.counts["DELETE"], 0);
  EXPECT_EQ(router.component.entities.size(), 3U);
  EXPECT_FALSE(router.pipeline.wants_reset());
}

TEST(ComponentPipeline, ManyLostAnswersEndInAReadAllTheSame) {
  PipelineBench router(kRouter, {});
  router.ready();
  router.settle();
  router.want(1, {router_queue(1)[0]});
  for (int i = 0; i < 4; ++i) {
    router.pump();
    ASSERT_TRUE(router.lose_one(i == 3));
    router.now += seconds(10);
    router.pipeline.on_timer(router.now);
  }
  router.run(seconds(20));
  EXPECT_TRUE(router.pipeline.progress(1).settled());
}

TEST(ComponentPipeline, ConflictWithAnotherContentIsReplaced) {
  PipelineBench router(kRouter, {});
  const auto wanted = router_queue(1);
  router.component.entities[{std::string(router_type(EntityKind::kAddress)), wanted[0].name}] =
      krm::Json::object({{"pattern", "other"}, {"distribution", "multicast"}, {"waypoint", false}});
  router.ready();
  router.want(1, wanted);
  router.settle();
  const std::string& name = wanted[0].name;
  const auto& log = router.component.log;
  EXPECT_LT(place(log, "READ " + name), place(log, "DELETE " + name));
  EXPECT_TRUE(router.pipeline.progress(1).settled());
  EXPECT_EQ(router.component.entities.begin()->second.text({"distribution"}), "balanced");
}

TEST(ComponentPipeline, MS_081_ExistingQueueIsComparedAndUpdated) {
  PipelineBench broker(kBroker, {});
  broker.component.addresses["space-a/q1"] = "ANYCAST";
  broker.component.queues["space-a/q1"] = {krm::Json::object({{"address", "space-a/q1"},
                                                              {"routing-type", "ANYCAST"},
                                                              {"durable", true},
                                                              {"max-consumers", 7},
                                                              {"purge-on-no-consumers", false}}),
                                           9, 3};
  broker.want(1, broker_queue(1));
  broker.ready();
  broker.settle();
  broker.run(seconds(5));
  EXPECT_TRUE(broker.pipeline.progress(1).settled());
  EXPECT_EQ(broker.component.counts["updateQueue"], 1);
  EXPECT_EQ(broker.component.counts["destroyQueue"], 0);
  EXPECT_EQ(broker.component.queues["space-a/q1"].attributes.find("max-consumers")->as_integer(),
            -1);
}

TEST(ComponentPipeline, ManyExistingQueuesAreComparedByTheList) {
  PipelineBench broker(kBroker, {});
  broker.ready();
  broker.settle();
  for (int i = 0; i < 300; ++i) {
    const std::string name = "space-a/q" + std::to_string(i);
    broker.component.addresses[name] = "ANYCAST";
    broker.component.queues[name] = {krm::Json::object({{"address", std::string_view(name)},
                                                        {"routing-type", "ANYCAST"},
                                                        {"durable", i % 2 == 0},
                                                        {"max-consumers", -1},
                                                        {"purge-on-no-consumers", false}}),
                                     i + 1, 1};
    broker.want(static_cast<ObjectId>(i), broker_queue(i));
  }
  broker.component.counts.clear();
  broker.run(seconds(10));
  EXPECT_EQ(broker.pipeline.pending(), 0U);
  EXPECT_EQ(broker.component.counts["updateQueue"], 150);
  EXPECT_LT(broker.component.counts["listQueues"], 40);
  EXPECT_EQ(broker.component.counts["destroyQueue"], 0);
}

TEST(ComponentPipeline, MS_058_RefusalIsOfOneObjectAndTriedAgainLaterAndLater) {
  PipelineBench router(kRouter, {});
  const std::string bad = test_name(EntityKind::kVhost, 1);
  bool refuses = true;
  router.component.instead = [&](std::string_view, std::string_view name) {
    return refuses && name == bad ? std::optional(router_reply(500, "PolicyError: x"))
                                  : std::nullopt;
  };
  router.ready();
  router.want(1, {test_vhost(1, 10)}, true);
  router.want(2, {test_vhost(2, 10)}, true);
  router.settle();
  EXPECT_TRUE(router.pipeline.progress(2).settled());
  EXPECT_EQ(router.pipeline.progress(1).error, "vh " + bad + ": PolicyError: x");
  EXPECT_EQ(router.pipeline.failures().size(), 1U);
  router.run(seconds(8));  // after 1, 2 and 4 s
  EXPECT_EQ(std::count(router.component.log.begin(), router.component.log.end(), "CREATE " + bad),
            4);
  EXPECT_FALSE(router.pipeline.synchronized());
  refuses = false;
  router.run(seconds(9));
  EXPECT_TRUE(router.pipeline.synchronized());
  EXPECT_EQ(router.pipeline.progress(1).error, "");
}

TEST(ComponentPipeline, ForbiddenIsOfTheComponentAndStopsIt) {
  PipelineBench router(kRouter, {});
  router.ready();
  router.settle();
  bool refuses = true;
  router.component.instead = [&](std::string_view, std::string_view) {
    return refuses ? std::optional(router_reply(403, "Forbidden")) : std::nullopt;
  };
  for (int i = 0; i < 1000; ++i) {
    router.want(static_cast<ObjectId>(i), router_queue(i));
  }
  router.component.log.clear();
  router.run(seconds(60));
  ASSERT_TRUE(router.pipeline.trouble());
  EXPECT_EQ(router.pipeline.trouble()->reason, "Forbidden");
  EXPECT_LT(router.component.log.size(), 800U);
  refuses = false;
  router.run(std::chrono::minutes(10));
  EXPECT_TRUE(router.pipeline.synchronized());
}

TEST(ComponentPipeline, BH_5_MS_086_FullBrokerIsHeldAndOfNoUseUntilItAnswers) {
  PipelineBench broker(kBroker, {});
  EXPECT_FALSE(broker.pipeline.is_usable());
  broker.ready();
  EXPECT_FALSE(broker.pipeline.is_usable());
  broker.settle();
  EXPECT_TRUE(broker.pipeline.is_usable());
  bool full = true;
  broker.component.instead = [&](std::string_view, std::string_view) {
    return full ? std::optional(broker_exception(
                      "amqp:resource-limit-exceeded: AMQ229102: Address \"a\" is full."))
                : std::nullopt;
  };
  for (int i = 0; i < 200; ++i) {
    broker.want(static_cast<ObjectId>(i), broker_queue(i));
  }
  broker.component.log.clear();
  broker.run(seconds(120));
  ASSERT_TRUE(broker.pipeline.trouble());
  EXPECT_EQ(broker.pipeline.trouble()->reason, "BrokerFull");
  EXPECT_FALSE(broker.pipeline.is_usable());
  EXPECT_LT(broker.component.log.size(), 1000U);
  EXPECT_EQ(broker.pipeline.progress(1).error, "") << "it is not the queue's fault";
  full = false;
  broker.run(seconds(61));
  EXPECT_TRUE(broker.pipeline.is_usable());
  EXPECT_TRUE(broker.pipeline.synchronized());
}

TEST(ComponentPipeline, MR_30_NothingIsKnownUntilItConnectedOrCouldNotBeReached) {
  PipelineBench there(kRouter, {});
  EXPECT_TRUE(there.pipeline.is_unheard());
  there.ready();
  EXPECT_TRUE(there.pipeline.is_unheard()) << "it has not said whether it began anew";
  there.settle();
  EXPECT_FALSE(there.pipeline.is_unheard());
  there.lost();
  EXPECT_FALSE(there.pipeline.is_unheard());
  PipelineBench away(kRouter, {});
  away.lost();
  EXPECT_FALSE(away.pipeline.is_unheard());
}

TEST(ComponentPipeline, ThreeLostAnswersAskForAReset) {
  PipelineBench router(kRouter, {});
  router.ready();
  router.settle();
  router.want(1, router_queue(1));
  router.pump();
  router.lose_one(false);
  router.lose_one(false);
  EXPECT_FALSE(router.pipeline.wants_reset());
  EXPECT_EQ(router.pipeline.trouble()->reason, "NoAnswer");
  router.lose_one(false);
  EXPECT_TRUE(router.pipeline.wants_reset());
  router.lost();
  EXPECT_FALSE(router.pipeline.is_connected());
  EXPECT_FALSE(router.pipeline.next(router.now));
  router.ready();
  router.run(seconds(5));
  EXPECT_FALSE(router.pipeline.wants_reset());
  EXPECT_TRUE(router.pipeline.synchronized());
}

TEST(ComponentPipeline, MH_8_FourRequestsToTheAgentAtATime) {
  PipelineBench router(kRouter, {});
  router.ready();
  router.settle();
  for (int i = 0; i < 50; ++i) {
    router.want(static_cast<ObjectId>(i), {test_vhost(i, 10)}, true);
    router.want(static_cast<ObjectId>(100 + i), router_queue(i));
  }
  EXPECT_EQ(router.pump(), 100U);
  int agents = 0;
  for (const auto& one : router.waiting) {
    agents +=
        std::get<std::string>(one.request.properties[1].value).find("vhost") != std::string::npos;
  }
  EXPECT_EQ(agents, 4);
  router.settle();
  EXPECT_TRUE(router.pipeline.synchronized());
}

TEST(ComponentPipeline, UnsupportedComponentsAreLeftAlone) {
  PipelineBench router(kRouter, {});
  router.want(1, router_queue(1));
  router.pipeline.on_ready("other", "9.0", router.now);
  EXPECT_EQ(router.pump(), 0U);
  EXPECT_EQ(router.pipeline.trouble()->reason, "UnsupportedRouter");
  router.run(seconds(100));
  EXPECT_TRUE(router.component.log.empty());
}

TEST(ComponentPipeline, CallbacksMayWantAndForget) {
  const TimePoint now{std::chrono::hours(1)};
  ScriptedComponent component(kRouter);
  std::map<ObjectId, std::vector<DesiredEntity>> objects;
  ComponentPipeline* self = nullptr;
  ComponentPipeline pipeline(
      {}, {[&](ObjectId object) { return objects[object]; },
           [&](ObjectId object) {
             if (object == 1 && self->progress(1).settled() && !objects[1].empty()) {
               objects[1].clear();
               self->want(1, {});
               objects[2] = router_queue(2);
               self->want(2, objects[2]);
             } else if (object == 1 && objects[1].empty() && self->progress(1).settled()) {
               self->forget(1);
             }
           },
           {},
           {},
           {}});
  self = &pipeline;
  objects[1] = router_queue(1);
  pipeline.want(1, objects[1]);
  pipeline.on_ready("qpid-dispatch-router", "1.19.0", now);
  for (int i = 0; i < 100; ++i) {
    const auto send = pipeline.next(now);
    if (!send) {
      break;
    }
    const ManagementReply reply = component.answer(send->request);
    pipeline.on_answer(send->tag, &reply, now);
  }
  EXPECT_EQ(component.entities.size(), 3U);
  EXPECT_EQ(pipeline.entities(), 3U);
  EXPECT_TRUE(pipeline.progress(2).settled());
}

TEST(ComponentPipeline, EntityTakesLessThanTwoHundredBytes) {
  constexpr int kObjects = 100'000;
  std::vector<std::vector<DesiredEntity>> texts;
  ComponentPipeline pipeline({}, {});
  pipeline.want(0, router_queue(0));
  ::malloc_trim(0);
  const std::size_t before = ::mallinfo2().uordblks;
  for (int i = 0; i < kObjects; ++i) {
    pipeline.want(static_cast<ObjectId>(i), router_queue(i));
  }
  const std::size_t grown = ::mallinfo2().uordblks - before;
  const double each = static_cast<double>(grown) / (3.0 * kObjects);
  EXPECT_EQ(pipeline.entities(), 3U * kObjects);
  EXPECT_LT(each, 200.0);
}

}  // namespace
}  // namespace kintsugi::workers
