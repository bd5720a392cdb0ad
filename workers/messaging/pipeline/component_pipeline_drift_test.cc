// Restarts, lost connections, edits by hand, states of links.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "workers/messaging/pipeline/component_pipeline.h"
#include "workers/testing/scripted_component.h"

namespace kintsugi::workers {
namespace {

constexpr ComponentKind kRouter = ComponentKind::kRouter;
constexpr ComponentKind kBroker = ComponentKind::kBroker;

TEST(ComponentPipelineDrift, MS_053_RestartedRouterGetsEverythingWithoutAQuery) {
  PipelineBench router(kRouter, {});
  router.ready();
  for (int i = 0; i < 1000; ++i) {
    router.want(static_cast<ObjectId>(i), router_queue(i));
  }
  router.run(seconds(1));
  EXPECT_EQ(router.component.entities.size(), 3000U);
  router.lost();
  router.restart();
  router.component.log.clear();
  router.component.counts.clear();
  router.now += seconds(2);
  router.ready();
  router.settle();
  EXPECT_EQ(router.component.counts["CREATE"], 3000);
  EXPECT_EQ(router.component.counts["QUERY"], 1);  // of its counters
  EXPECT_EQ(router.component.counts["DELETE"], 0);
  EXPECT_TRUE(router.pipeline.synchronized());
}

TEST(ComponentPipelineDrift, MS_053_RouterThatEndedYoungIsNotTakenForTheOneThatFollows) {
  for (const bool links : {true, false}) {
    for (const bool restarts : {true, false}) {
      PipelineBench router(kRouter, {});
      router.restart();
      router.now += milliseconds(300);
      router.ready();
      router.settle();
      std::vector<DesiredEntity> wanted = router_queue(1);
      wanted.resize(links ? wanted.size() : 1);
      router.want(1, wanted);
      router.settle();
      ASSERT_EQ(router.component.entities.size(), wanted.size());
      router.lost();
      router.now += milliseconds(200);
      if (restarts) {
        router.restart();
      }
      router.now += milliseconds(400);  // both have been up for 0 whole seconds
      router.ready();
      router.run(seconds(1));
      EXPECT_EQ(router.component.entities.size(), wanted.size());
      EXPECT_TRUE(router.pipeline.synchronized());
      EXPECT_TRUE(router.repairs.empty());
    }
  }
}

TEST(ComponentPipelineDrift, MS_054_CutConnectionPushesNothing) {
  PipelineBench router(kRouter, {});
  router.ready();
  for (int i = 0; i < 100; ++i) {
    router.want(static_cast<ObjectId>(i), router_queue(i));
  }
  router.run(seconds(1));
  router.lost();
  router.component.counts.clear();
  router.now += seconds(2);
  router.ready();
  router.run(seconds(60));
  EXPECT_EQ(router.component.sent_for_entities(), 0);
  EXPECT_TRUE(router.pipeline.synchronized());
}

TEST(ComponentPipelineDrift, MS_059_LinkWithoutAnAnswerIsNoDriftOfTheCounts) {
  ComponentPipeline::Params params;
  params.counters = milliseconds(500);
  params.retry_least = seconds(5);
  for (const bool done : {true, false}) {
    PipelineBench router(kRouter, params);
    router.ready();
    for (int i = 0; i < 50; ++i) {
      router.want(static_cast<ObjectId>(i), router_queue(i));
    }
    router.run(seconds(2));
    router.component.counts.clear();
    router.want(50, router_queue(50));
    router.pump();
    EXPECT_TRUE(router.answer_one());    // its address
    EXPECT_TRUE(router.lose_one(done));  // one link
    router.run(seconds(4));              // it rests, and the counters are looked at
    EXPECT_EQ(router.pipeline.pending(), 1U);
    EXPECT_GE(router.component.counts["QUERY"], 4);
    EXPECT_EQ(router.component.counts["CREATE"], done ? 3 : 2);
    router.run(seconds(10));
    EXPECT_EQ(router.component.counts["CREATE"], done ? 4 : 3);
    EXPECT_EQ(router.pipeline.pending(), 0U);
    EXPECT_EQ(router.component.entities.size(), 153U);
    EXPECT_TRUE(router.repairs.empty());
  }
}

TEST(ComponentPipelineDrift, MS_049_CountsThatNoUnansweredRequestExplainsAreDrift) {
  ComponentPipeline::Params params;
  params.counters = milliseconds(500);
  params.retry_least = seconds(60);
  PipelineBench router(kRouter, params);
  router.ready();
  for (int i = 0; i < 50; ++i) {
    router.want(static_cast<ObjectId>(i), router_queue(i));
  }
  router.run(seconds(2));
  router.want(50, router_queue(50));
  router.pump();
  EXPECT_TRUE(router.answer_one());
  EXPECT_TRUE(router.lose_one(false));
  router.run(seconds(2));
  EXPECT_TRUE(router.repairs.empty());
  const std::string type(router_type(EntityKind::kAutoLink));
  EXPECT_EQ(router.component.entities.erase({type, router_queue(7)[1].name}), 1U);
  EXPECT_EQ(router.component.entities.erase({type, router_queue(8)[1].name}), 1U);
  router.run(seconds(3));
  EXPECT_EQ(router.repairs.size(), 2U);
  EXPECT_EQ(router.pipeline.pending(), 1U);
}

TEST(ComponentPipelineDrift, MS_059_QueueWithoutAnAnswerIsNoDriftOfTheCounts) {
  ComponentPipeline::Params params;
  params.counters = milliseconds(500);
  params.retry_least = seconds(5);
  PipelineBench broker(kBroker, params);
  broker.ready();
  for (int i = 0; i < 50; ++i) {
    broker.want(static_cast<ObjectId>(i), broker_queue(i));
  }
  broker.run(seconds(2));
  broker.want(50, broker_queue(50));
  broker.pump();
  EXPECT_TRUE(broker.answer_one());  // its address
  broker.pump();
  EXPECT_TRUE(broker.lose_one(true));  // the queue
  broker.component.counts.clear();
  broker.run(seconds(4));
  EXPECT_GE(broker.component.counts["listQueues"], 4);
  EXPECT_EQ(broker.component.counts["getQueueNames"], 0);
  broker.run(seconds(10));
  EXPECT_EQ(broker.component.counts["getQueueNames"], 0);
  EXPECT_EQ(broker.pipeline.pending(), 0U);
}

TEST(ComponentPipelineDrift, RestartOfTheWorkerTrustsAndSweepsInTheBackground) {
  ComponentPipeline::Params params;
  params.most_queried = 100;
  PipelineBench router(kRouter, params);
  for (int i = 0; i < 1000; ++i) {
    const auto entities = router_queue(i);
    for (const auto& one : entities) {
      if (i != 500) {
        krm::Json made = krm::Json::object();
        for (const auto& attribute : one.attributes) {
          const auto* text = std::get_if<std::string>(&attribute.value);
          made[attribute.name] = text != nullptr ? krm::Json(*text) : krm::Json(true);
        }
        router.component.entities[{std::string(router_type(one.kind)), one.name}] = made;
      }
    }
    router.objects[static_cast<ObjectId>(i)] = entities;
    router.pipeline.assume(static_cast<ObjectId>(i), entities);
    router.want(static_cast<ObjectId>(i), entities);
  }
  EXPECT_EQ(router.pipeline.pending(), 0U);
  router.ready();
  router.settle();
  router.component.log.clear();
  router.want(2000, router_queue(2000));
  router.settle();
  EXPECT_EQ(router.component.log[0], "CREATE " + test_name(EntityKind::kAddress, 2000));
  router.run(milliseconds(400));
  EXPECT_LT(router.component.counts["CREATE"], 2200);  // 5,000 a second
  router.run(seconds(2));
  // Once each, the three new ones twice, and two links that a look missed first.
  EXPECT_GE(router.component.counts["CREATE"], 3003);
  EXPECT_LE(router.component.counts["CREATE"], 3008);
  EXPECT_EQ(router.repairs.size(), 3U);
  EXPECT_EQ(router.component.entities.size(), 3003U);
}

TEST(ComponentPipelineDrift, MS_063_WhatAnotherProcessDeletedInPartGoesAsAWhole) {
  for (const bool later : {false, true}) {
    PipelineBench router(kRouter, {});
    const auto entities = router_queue(1);
    router.component.entities[{std::string(router_type(entities[0].kind)), entities[0].name}] =
        krm::Json::object();  // its links were deleted
    router.objects[1] = entities;
    router.pipeline.assume(1, entities);
    router.want(1, later ? entities : std::vector<DesiredEntity>());
    router.ready();
    router.pump();
    EXPECT_TRUE(router.answer_one());  // its counters: there is no link
    router.want(1, {});
    router.settle();
    EXPECT_TRUE(router.component.entities.empty());
    EXPECT_TRUE(router.pipeline.progress(1).settled());
    EXPECT_EQ(router.pipeline.pending(), 0U);
  }
}

TEST(ComponentPipelineDrift, MS_066_SteadyStateTakesTwoRequestsInThirtySeconds) {
  PipelineBench router(kRouter, {}), broker(kBroker, {});
  DesiredEntity connector{EntityKind::kConnector,
                          test_name(EntityKind::kConnector, 1),
                          {{"host", std::string("h")}, {"port", std::string("5672")}}};
  for (PipelineBench* one : {&router, &broker}) {
    if (one == &router) {
      one->want(5000, {connector}, true);
    }
    for (int i = 0; i < 200; ++i) {
      one->want(static_cast<ObjectId>(i), one == &broker ? broker_queue(i) : router_queue(i));
    }
    one->ready();
    one->run(seconds(60));
    EXPECT_TRUE(one->pipeline.synchronized());
    one->component.log.clear();
    one->run(seconds(240));
    EXPECT_LE(one->component.log.size(), one == &router ? 16U : 8U);
    EXPECT_GE(one->component.log.size(), one == &router ? 14U : 7U);
    EXPECT_EQ(one->component.sent_for_entities(), one == &router ? 601 : 400);
  }
  EXPECT_EQ(router.pipeline.connector(connector.name).state, LinkState::kActive);
}

TEST(ComponentPipelineDrift, MR31_MS_050_LinksAreLookedAtAndDegradeAfterTwoNegatives) {
  PipelineBench router(kRouter, {});
  router.ready();
  router.settle();
  router.component.links_active = false;
  router.want(1, router_queue(1));
  router.settle();
  EXPECT_TRUE(router.pipeline.progress(1).link_unknown);
  EXPECT_EQ(router.component.counts["READ"], 0);
  router.run(milliseconds(49));
  EXPECT_EQ(router.component.counts["READ"], 0);
  router.run(milliseconds(2));
  EXPECT_EQ(router.component.counts["READ"], 2);
  EXPECT_EQ(router.pipeline.progress(1).active, 0U);
  EXPECT_EQ(router.pipeline.progress(1).link_error,
            "al " + test_name(EntityKind::kAutoLink, 1, "in") + ": no route");
  router.component.links_active = true;
  router.run(milliseconds(200));
  EXPECT_EQ(router.pipeline.progress(1).active, 2U);
  EXPECT_EQ(router.pipeline.progress(1).link_error, "");
  router.component.links_active = false;
  router.component.counts.clear();
  const TimePoint end = router.now + std::chrono::minutes(11);
  bool degraded = false;
  while (router.now < end && !degraded) {
    router.run(milliseconds(500));
    degraded = router.pipeline.progress(1).active < 2;
  }
  EXPECT_TRUE(degraded);
  EXPECT_GE(router.component.counts["READ"], 1);  // the second look
}

TEST(ComponentPipelineDrift, MH_2_FewLinksAreReadByNameAndManyByPages) {
  const std::string pages = "QUERY " + std::string(router_type(EntityKind::kAutoLink));
  for (const int objects : {5, 50}) {
    ComponentPipeline::Params params;
    params.most_read = 20;
    PipelineBench router(kRouter, params);
    router.ready();
    router.settle();
    router.component.links_active = false;
    for (int i = 0; i < objects; ++i) {
      router.want(static_cast<ObjectId>(i), router_queue(i));
    }
    router.run(seconds(3));
    const auto asked = std::count(router.component.log.begin(), router.component.log.end(), pages);
    if (objects == 5) {
      EXPECT_GE(router.component.counts["READ"], 10);
      EXPECT_EQ(asked, 0);
    } else {
      EXPECT_EQ(router.component.counts["READ"], 0);
      EXPECT_GE(asked, 1);
    }
    router.component.links_active = true;
    router.run(seconds(30));
    for (int i = 0; i < objects; ++i) {
      EXPECT_EQ(router.pipeline.progress(static_cast<ObjectId>(i)).active, 2U);
    }
  }
}

TEST(ComponentPipelineDrift, MS_049_WhatIsDeletedOrChangedByHandIsSetRight) {
  ComponentPipeline::Params params;
  params.sweep = seconds(120);
  PipelineBench router(kRouter, params);
  router.ready();
  router.want(1, router_queue(1));
  router.want(2, router_queue(2));
  router.run(seconds(31));
  const std::string link = test_name(EntityKind::kAutoLink, 1, "in");
  const ScriptedComponent::Key key{std::string(router_type(EntityKind::kAutoLink)), link};
  router.component.entities.erase(key);
  router.run(seconds(31));
  EXPECT_EQ(router.component.entities.count(key), 1U);
  ASSERT_EQ(router.repairs.size(), 1U);
  EXPECT_EQ(router.repairs[0].name, link);
  EXPECT_EQ(router.repairs[0].object, 1U);
  EXPECT_EQ(router.repairs[0].cause, DriftRepair::Cause::kMissing);
  router.component.entities[key]["externalAddress"] = "elsewhere";
  router.run(seconds(130));
  ASSERT_EQ(router.repairs.size(), 2U);
  EXPECT_EQ(router.repairs[1].cause, DriftRepair::Cause::kDifferent);
  EXPECT_EQ(router.component.entities[key].text({"externalAddress"}), "space-a/q1");
}

TEST(ComponentPipelineDrift, MS_064_OfARouterThatOthersHaveTooNothingIsDeletedAsAnOrphan) {
  ComponentPipeline::Params params;
  params.sweep = seconds(120);
  PipelineBench router(kRouter, params);
  router.shared = true;
  router.want(1, router_queue(1));
  router.ready();
  router.run(seconds(31));
  router.pipeline.complete(router.now);
  const std::string type(router_type(EntityKind::kAddress));
  router.component.entities[{type, test_name(EntityKind::kAddress, 77)}] =
      krm::Json::object({{"pattern", "x"}});
  router.run(seconds(300));
  EXPECT_EQ(router.component.entities.size(), 4U);
  router.shared = false;
  router.run(seconds(130));
  EXPECT_EQ(router.component.entities.size(), 3U);
}

TEST(ComponentPipelineDrift, MS_051_OrphansOfOursGoAndForeignOnesStay) {
  ComponentPipeline::Params params;
  params.sweep = seconds(120);
  PipelineBench router(kRouter, params);
  router.want(1, router_queue(1));
  router.ready();
  router.run(seconds(31));
  const std::string type(router_type(EntityKind::kAddress));
  router.component.entities[{type, test_name(EntityKind::kAddress, 77)}] =
      krm::Json::object({{"pattern", "x"}});
  router.component.entities[{type, "ktg.other.addr.x"}] = krm::Json::object({{"pattern", "y"}});
  router.component.entities[{type, "by-hand"}] = krm::Json::object({{"pattern", "z"}});
  router.run(seconds(130));
  EXPECT_EQ(router.component.entities.size(), 6U);  // not all objects are known yet
  router.pipeline.complete(router.now);
  router.run(seconds(130));
  EXPECT_EQ(router.component.entities.size(), 5U);
  std::size_t orphans = 0, foreign = 0;
  for (const DriftRepair& one : router.repairs) {
    orphans += one.cause == DriftRepair::Cause::kOrphan ? 1 : 0;
    if (one.cause == DriftRepair::Cause::kForeign) {
      EXPECT_EQ(one.name, "by-hand");  // those of other owners are no news
      ++foreign;
    }
  }
  EXPECT_EQ(orphans, 1U);
  EXPECT_GE(foreign, 1U);
  EXPECT_EQ(router.pipeline.counts().repairs.at(EntityKind::kAddress), 1U);
  EXPECT_EQ(router.component.entities.count({type, "ktg.other.addr.x"}), 1U);
  EXPECT_EQ(router.pipeline.entities(), 3U);
}

TEST(ComponentPipelineDrift, MS_052_QueuesAreRestoredAndThoseWithMessagesNeverDestroyed) {
  ComponentPipeline::Params params;
  params.sweep = seconds(300);
  PipelineBench broker(kBroker, params);
  broker.want(1, broker_queue(1, "c1"));
  broker.want(2, broker_queue(2, "c1"));
  broker.pipeline.complete(broker.now);
  broker.ready();
  broker.run(seconds(31));
  broker.component.queues.erase("c1.space-a/q1");
  broker.component.settings["c1.#"]["expiryDelay"] = 77;
  broker.run(seconds(31));
  EXPECT_EQ(broker.component.queues.count("c1.space-a/q1"), 1U);
  EXPECT_EQ(broker.component.settings["c1.#"].find("expiryDelay")->as_integer(), 1000);
  broker.component.queues["c1.space-a/q2"].attributes["durable"] = false;
  broker.component.queues["c1.space-a/q2"].messages = 5;
  broker.component.addresses["space-a/old"] = "ANYCAST";
  broker.component.queues["space-a/old"] = {krm::Json::object({{"address", "space-a/old"}}), 50, 5};
  broker.component.addresses["space-a/empty"] = "ANYCAST";
  broker.component.queues["space-a/empty"] = {krm::Json::object({{"address", "space-a/empty"}}), 51,
                                              0};
  broker.component.queues["foreign"] = {krm::Json::object({{"address", "foreign"}}), 52, 0};
  broker.run(seconds(700));
  EXPECT_TRUE(broker.component.queues["c1.space-a/q2"].attributes.find("durable")->as_bool());
  EXPECT_EQ(broker.component.queues.count("space-a/old"), 1U);
  EXPECT_EQ(broker.component.queues.count("space-a/empty"), 0U);
  EXPECT_EQ(broker.component.addresses.count("space-a/empty"), 0U);
  EXPECT_EQ(broker.component.queues.count("foreign"), 1U);
  EXPECT_EQ(broker.component.lost_messages, 0);
}

TEST(ComponentPipelineDrift, MS_085_BrokerThatLostEverythingGetsItBack) {
  PipelineBench broker(kBroker, {});
  for (int i = 0; i < 50; ++i) {
    broker.want(static_cast<ObjectId>(i), broker_queue(i, "c1"));
  }
  broker.ready();
  broker.run(seconds(1));
  broker.lost();
  broker.restart();
  broker.ready();
  broker.run(seconds(5));
  EXPECT_EQ(broker.component.queues.size(), 50U);
  EXPECT_EQ(broker.component.settings.size(), 1U);
  EXPECT_TRUE(broker.pipeline.synchronized());
  broker.lost();
  broker.component.counts.clear();
  broker.ready();
  broker.run(seconds(5));
  EXPECT_EQ(broker.component.sent_for_entities(), 0);  // MS-055
}

TEST(ComponentPipelineDrift, MS_085_ABrokerThatIsBackIsLookedAtBeforeAnythingIsSaidOfIt) {
  PipelineBench broker(kBroker, {});
  EXPECT_TRUE(broker.pipeline.is_unheard());
  broker.want(1, broker_queue(1));
  broker.ready();
  broker.settle();
  EXPECT_TRUE(broker.pipeline.is_looked_at());
  broker.lost();
  EXPECT_FALSE(broker.pipeline.is_looked_at());
  broker.component.queues.clear();
  broker.component.addresses.clear();
  broker.ready();
  EXPECT_TRUE(broker.pipeline.is_connected());
  EXPECT_TRUE(broker.pipeline.is_unheard());
  EXPECT_TRUE(broker.pipeline.progress(1).settled()) << "what it had when it was lost";
  while (!broker.pipeline.is_looked_at()) {
    broker.pump();
    ASSERT_TRUE(broker.answer_one());
  }
  EXPECT_FALSE(broker.pipeline.progress(1).settled());
  broker.run(seconds(5));
  EXPECT_TRUE(broker.pipeline.progress(1).settled());
  EXPECT_EQ(broker.component.queues.size(), 1U);
}

TEST(ComponentPipelineDrift, MS_053_ARouterIsLookedAtOnceItHasToldItsCounters) {
  PipelineBench router(kRouter, {});
  router.want(1, router_queue(1));
  router.ready();
  EXPECT_FALSE(router.pipeline.is_looked_at());
  router.settle();
  EXPECT_TRUE(router.pipeline.is_looked_at());
  router.lost();
  router.restart();
  router.now += seconds(2);
  router.ready();
  while (!router.pipeline.is_looked_at()) {
    router.pump();
    ASSERT_TRUE(router.answer_one());
  }
  EXPECT_FALSE(router.pipeline.progress(1).settled());
}

}  // namespace
}  // namespace kintsugi::workers
