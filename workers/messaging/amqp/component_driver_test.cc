// A pipeline, its driver and a router behind a socket that answers what it is told.
#include "workers/messaging/amqp/component_driver.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "workers/messaging/amqp/testing/joined.h"
#include "workers/messaging/amqp/testing/node.h"

namespace kintsugi::workers {
namespace {

using amqp_testing::ManagementPeer;
using amqp_testing::Node;
using amqp_testing::session_params;

DesiredEntity address(int number) {
  DesiredEntity entity;
  entity.kind = EntityKind::kAddress;
  entity.name = "ktg.shard-1.addr." + std::to_string(number);
  entity.attributes = {{"pattern", "space/" + std::to_string(number)},
                       {"distribution", std::string("balanced")}};
  return entity;
}

struct Driven {
  using Edit = std::function<void(ComponentPipeline::Params&, ComponentLink::Params&)>;
  explicit Driven(const Edit& edit = {}) {
    node.answers = false;
    node.on_connect = [this] {
      node.peer->on_request = [this](const ManagementPeer::Request& request) { answer(request); };
    };
    ComponentPipeline::Callbacks callbacks;
    callbacks.render = [this](ObjectId object) {
      return object < objects ? std::vector{address(static_cast<int>(object))}
                              : std::vector<DesiredEntity>{};
    };
    callbacks.changed = [](ObjectId) {};
    callbacks.repaired = [](const DriftRepair&) {};
    callbacks.facts = [] {};
    callbacks.ours = [](std::string_view) { return true; };
    ComponentPipeline::Params params;
    params.owner = "shard-1";
    ComponentLink::Params link;
    link.host = "127.0.0.1";
    link.port = node.port;
    link.session = session_params();
    link.session.request_deadline = milliseconds(50);
    link.least_wait = milliseconds(5);
    link.most_wait = milliseconds(50);
    if (edit) {
      edit(params, link);
    }
    pipeline = std::make_unique<ComponentPipeline>(params, std::move(callbacks));
    driver = std::make_unique<ComponentDriver>(loop, *pipeline, link, [this] { return may_act; });
  }
  ~Driven() { driver.reset(); }

  void answer(const ManagementPeer::Request& request) {
    if (silent) {
      return;
    }
    if (request.properties.find("\"CREATE\"") == std::string::npos) {
      // Of tables only the router's own has a row.
      const bool counters = request.body.find("addrCount") != std::string::npos;
      node.peer->answer(request.correlation, ManagementPeer::status(200), [&](pn_data_t* data) {
        pn_data_put_map(data);
        pn_data_enter(data);
        ManagementPeer::put(data, "attributeNames");
        pn_data_put_list(data);
        pn_data_enter(data);
        for (const char* name : {"addrCount", "linkCount", "autoLinkCount", "linkRouteCount",
                                 "connectionCount", "memoryUsage", "uptimeSeconds", "id"}) {
          if (counters) {
            ManagementPeer::put(data, name);
          }
        }
        pn_data_exit(data);
        ManagementPeer::put(data, "results");
        pn_data_put_list(data);
        pn_data_enter(data);
        if (counters) {
          pn_data_put_list(data);
          pn_data_enter(data);
          for (int i = 0; i < 7; ++i) {
            pn_data_put_ulong(data, 0);
          }
          ManagementPeer::put(data, "R1");
          pn_data_exit(data);
        }
        pn_data_exit(data);
        pn_data_exit(data);
      });
      return;
    }
    ++created;
    node.peer->answer(request.correlation, ManagementPeer::status(201, "Created"),
                      [&](pn_data_t* data) { node.peer->copy_body(data); });
  }
  void want(ObjectId count) {
    objects = count;
    for (ObjectId object = 0; object < count; ++object) {
      const std::vector entities{address(static_cast<int>(object))};
      pipeline->want(object, entities);
    }
    driver->wake();
  }
  bool all_applied() const {
    for (ObjectId object = 0; object < objects; ++object) {
      if (!pipeline->progress(object).settled()) {
        return false;
      }
    }
    return true;
  }
  bool until(const std::function<bool()>& condition) {
    return amqp_testing::run_until(loop, node, condition);
  }

  Node node;
  net::Loop loop{"test"};
  ObjectId objects = 0;
  bool silent = false, may_act = true;
  int created = 0;
  std::unique_ptr<ComponentPipeline> pipeline;
  std::unique_ptr<ComponentDriver> driver;
};

TEST(ComponentDriver, MR28_WhatIsWantedIsMadeOnceByTheWindow) {
  Driven d;
  d.want(500);
  ASSERT_TRUE(d.until([&] { return d.all_applied(); })) << d.pipeline->progress(0).error;
  EXPECT_TRUE(d.pipeline->is_connected());
  EXPECT_EQ(d.created, 500);
  EXPECT_EQ(d.node.connections, 1);
  EXPECT_EQ(d.loop.stats().writes_outside_flush, 0U);
}

TEST(ComponentDriver, MR30_AfterALostConnectionItGoesOn) {
  Driven d;
  d.want(10);
  ASSERT_TRUE(d.until([&] { return d.all_applied(); }));
  d.node.hang_up();
  ASSERT_TRUE(d.until([&] { return !d.pipeline->is_connected(); }));
  d.want(20);
  ASSERT_TRUE(d.until([&] { return d.pipeline->is_connected() && d.all_applied(); }));
  EXPECT_EQ(d.node.connections, 2);
}

TEST(ComponentDriver, BH5_RequestsWithoutAnAnswerEndTheConnection) {
  Driven d;
  d.silent = true;
  d.want(5);
  ASSERT_TRUE(d.until([&] { return d.node.connections >= 2; }));
  d.silent = false;
  ASSERT_TRUE(d.until([&] { return d.all_applied(); }));
}

TEST(ComponentDriver, MD_5_ByReconnect_NoConnectionWaitsLongerThanTheOneBefore) {
  // With a wait that doubles the sixteenth connection would come after half a minute.
  Driven d([](ComponentPipeline::Params& params, ComponentLink::Params& link) {
    params.resync_by_reconnect = true;
    params.sweep = milliseconds(20);
    link.least_wait = milliseconds(1);
    link.most_wait = std::chrono::hours(1);
  });
  d.want(5);
  ASSERT_TRUE(d.until([&] { return d.node.connections >= 16; }));
  ASSERT_TRUE(d.until([&] { return d.all_applied(); }));
}

TEST(ComponentDriver, WhileWeMayNotAct_NothingIsSent) {
  Driven d;
  d.may_act = false;
  d.want(5);
  ASSERT_TRUE(d.until([&] { return d.pipeline->is_connected(); }));
  int turns = 0;
  ASSERT_TRUE(d.until([&] { return ++turns > 50; }));
  EXPECT_TRUE(d.node.peer->requests.empty());
  d.may_act = true;
  d.driver->wake();
  ASSERT_TRUE(d.until([&] { return d.all_applied(); }));
  d.driver->stop();
  d.driver->wake();
  ASSERT_TRUE(d.until([&] { return d.node.peer->closed; }));
}

}  // namespace
}  // namespace kintsugi::workers
