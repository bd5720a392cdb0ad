// Which broker a connection leads to, and what is there already when it is wanted.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <variant>
#include <vector>

#include "workers/messaging/pipeline/component_pipeline.h"
#include "workers/testing/scripted_component.h"

namespace kintsugi::workers {
namespace {

constexpr ComponentKind kBroker = ComponentKind::kBroker;

TEST(ComponentPipelineIdentity, BH_10_ABrokerIsAskedWhichOneItIsBeforeAllElse) {
  PipelineBench broker(kBroker, {});
  EXPECT_TRUE(broker.pipeline.is_unidentified());
  broker.component.node = "n7";
  broker.want(1, broker_queue(1));
  broker.ready();
  EXPECT_TRUE(broker.pipeline.is_unidentified());
  broker.settle();
  EXPECT_FALSE(broker.pipeline.is_unidentified());
  EXPECT_EQ(broker.pipeline.broker().node, "n7");
  const std::vector<std::string>& log = broker.component.log;
  ASSERT_FALSE(log.empty());
  EXPECT_EQ(log.front(), "NodeID");
  EXPECT_TRUE(broker.pipeline.synchronized());
  broker.lost();
  EXPECT_FALSE(broker.pipeline.is_unidentified());
  EXPECT_EQ(broker.pipeline.broker().node, "n7");  // that of the last connection
  broker.component.node = "n8";
  broker.ready();
  broker.settle();
  EXPECT_EQ(broker.pipeline.broker().node, "n8");
}

TEST(ComponentPipelineIdentity, BH_10_OneThatTellsNoIdentityIsUsed) {
  PipelineBench broker(kBroker, {});
  broker.component.node.clear();
  broker.want(1, broker_queue(1));
  broker.ready();
  broker.run(seconds(2));
  EXPECT_EQ(broker.pipeline.broker().node, "");
  EXPECT_TRUE(broker.pipeline.synchronized());
}

TEST(ComponentPipelineIdentity, BH_10_AnIdentityThatIsNoTextOrGetsLostIsAskedForAgain) {
  PipelineBench broker(kBroker, {});
  broker.want(1, broker_queue(1));
  broker.ready();
  broker.pump();
  EXPECT_TRUE(broker.lose_one(false));
  broker.settle();
  EXPECT_EQ(broker.pipeline.broker().node, "n0");
  broker.lost();
  broker.ready();
  broker.pump();
  const ManagementReply wrong = broker_reply(std::int64_t{7});
  broker.pipeline.on_answer(broker.waiting.front().tag, &wrong, broker.now);
  broker.waiting.pop_front();
  broker.settle();
  EXPECT_TRUE(broker.pipeline.is_unidentified());
  EXPECT_EQ(broker.pipeline.failures().back().text, "NodeID is not a text");
  broker.run(seconds(5));
  EXPECT_FALSE(broker.pipeline.is_unidentified());
  EXPECT_TRUE(broker.pipeline.synchronized());
}

TEST(ComponentPipelineIdentity, BH_10_OneThatHasAnotherNameIsSentNothing) {
  PipelineBench broker(kBroker, {});
  broker.pipeline.complete(broker.now);
  broker.component.addresses["space-a/theirs"] = "ANYCAST";
  broker.ready();
  while (broker.pipeline.is_unidentified()) {
    ASSERT_GT(broker.pump(), 0U);
    ASSERT_TRUE(broker.answer_one());
  }
  EXPECT_TRUE(broker.pipeline.set_twin("it is b1", broker.now));
  EXPECT_FALSE(broker.pipeline.set_twin("it is b1", broker.now));
  ASSERT_TRUE(broker.pipeline.trouble());
  EXPECT_EQ(broker.pipeline.trouble()->reason, "SameBroker");
  EXPECT_EQ(broker.pipeline.trouble()->message, "it is b1");
  EXPECT_FALSE(broker.pipeline.is_usable());
  broker.settle();
  broker.component.log.clear();
  broker.want(1, broker_queue(1));
  broker.run(std::chrono::hours(2));
  EXPECT_TRUE(broker.component.log.empty()) << broker.component.log.front();
  broker.lost();
  EXPECT_EQ(broker.pipeline.trouble()->reason, "ConnectionLost");
  broker.ready();
  broker.run(seconds(60));
  EXPECT_EQ(broker.pipeline.trouble()->reason, "SameBroker");
  for (const std::string& one : broker.component.log) {
    EXPECT_TRUE(one == "NodeID" || one == "Version" || one == "GlobalMaxSize") << one;
  }
  EXPECT_EQ(broker.component.addresses.count("space-a/theirs"), 1U);
  EXPECT_TRUE(broker.pipeline.set_twin("", broker.now));
  broker.run(seconds(1));
  EXPECT_FALSE(broker.pipeline.trouble());
  EXPECT_TRUE(broker.pipeline.synchronized());
  EXPECT_EQ(broker.component.queues.size(), 1U);
  EXPECT_EQ(broker.component.addresses.count("space-a/theirs"), 0U);
}

TEST(ComponentPipelineIdentity, BH_10_OrphansStayWhileAnotherBrokerHasNotSaidWhichOneItIs) {
  PipelineBench broker(kBroker, {});
  broker.shared = true;
  broker.component.addresses["space-a/theirs"] = "ANYCAST";
  broker.pipeline.complete(broker.now);
  broker.ready();
  broker.run(seconds(60));
  EXPECT_EQ(broker.component.counts["deleteAddress"], 0);
  broker.shared = false;
  broker.pipeline.complete(broker.now);
  broker.run(seconds(1));
  EXPECT_TRUE(broker.component.addresses.empty());
}

/// A queue that is found before anybody wants it, with its address: that one is about to be
/// deleted.
struct Found {
  PipelineBench broker{kBroker, {}};
  DesiredEntity address = broker_queue(1)[0], queue = broker_queue(1)[1];

  explicit Found(std::int64_t messages) {
    krm::Json attributes = krm::Json::object({{"address", std::string_view(address.name)},
                                              {"routing-type", "ANYCAST"},
                                              {"durable", true},
                                              {"max-consumers", -1},
                                              {"purge-on-no-consumers", false}});
    broker.component.addresses[address.name] = "ANYCAST";
    broker.component.queues[queue.name] = {std::move(attributes), 7, messages};
    broker.pipeline.complete(broker.now);
    broker.ready();
  }
  /// Until the request for the address's deletion is sent and not answered.
  void until_deleting() {
    const auto deletes = [](const PipelineBench::Waiting& one) {
      const auto& properties = one.request.properties;
      return std::any_of(properties.begin(), properties.end(), [](const Attribute& each) {
        const auto* text = std::get_if<std::string>(&each.value);
        return text != nullptr && *text == "deleteAddress";
      });
    };
    while (true) {
      broker.pump();
      ASSERT_FALSE(broker.waiting.empty());
      if (deletes(broker.waiting.front())) {
        return;
      }
      ASSERT_TRUE(broker.answer_one());
    }
  }
};

TEST(ComponentPipelineIdentity, MS_056_WhatIsThereWithMessagesIsTakenOverWhereItIsWantedNow) {
  Found found(3);
  found.until_deleting();
  found.broker.want(1, {found.address, found.queue});
  found.broker.settle();  // AMQ229205: it has a queue
  found.broker.run(seconds(5));
  EXPECT_TRUE(found.broker.pipeline.progress(1).settled())
      << found.broker.pipeline.progress(1).error;
  EXPECT_EQ(found.broker.component.counts["deleteAddress"], 1);
  EXPECT_EQ(found.broker.component.counts["destroyQueue"], 0);
  EXPECT_EQ(found.broker.component.lost_messages, 0);
}

TEST(ComponentPipelineIdentity, MS_056_AnOrphanThatIsWantedBeforeItIsDeletedIsComparedInstead) {
  ComponentPipeline::Params params;
  PipelineBench broker(kBroker, params);
  broker.component.addresses[broker_queue(1)[0].name] = "ANYCAST";
  broker.pipeline.complete(broker.now);
  broker.ready();
  while (broker.pipeline.entities() == 0) {  // until it is found
    ASSERT_GT(broker.pump(), 0U);
    ASSERT_TRUE(broker.answer_one());
  }
  broker.want(1, broker_queue(1));
  broker.run(seconds(1));
  EXPECT_TRUE(broker.pipeline.progress(1).settled());
  EXPECT_EQ(broker.component.counts["deleteAddress"], 0);
}

TEST(ComponentPipelineIdentity, MS_081_AnAddressInUseOfAnotherRoutingIsTriedLaterAndLater) {
  Found found(3);
  found.broker.component.addresses[found.address.name] = "MULTICAST";
  found.until_deleting();
  found.broker.want(1, {found.address, found.queue});
  found.broker.run(std::chrono::minutes(30));
  EXPECT_NE(found.broker.pipeline.progress(1).error.find("AMQ229205"), std::string::npos);
  EXPECT_LT(found.broker.component.counts["deleteAddress"], 30);
  EXPECT_EQ(found.broker.component.lost_messages, 0);
}

}  // namespace
}  // namespace kintsugi::workers
