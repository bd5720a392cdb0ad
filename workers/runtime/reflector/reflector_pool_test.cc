#include "workers/runtime/reflector/reflector_pool.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>

#include "net/task.h"
#include "shards/testing/support.h"

namespace kintsugi::workers {
namespace {

using shards::testing::FakeServer;
using shards::testing::run_until;

struct Thing {
  std::string color;
};
struct Other {
  int size = 0;
};

Projection<Thing> things() {
  Projection<Thing> result;
  result.make = [](const shards::ObjectKey&, const krm::Json& object) {
    return Thing{std::string(object.text({"spec", "color"}))};
  };
  result.indexes.push_back({"color", [](const shards::ObjectKey&, const Thing& thing,
                                        IndexValues& values) { values.add(thing.color); }});
  return result;
}

class ReflectorPoolTest : public ::testing::Test {
 protected:
  ReflectorPoolTest() : server(loop), other(loop) {
    server.open();
    other.open();
    server.add_collection("/things");
    other.add_collection("/things");
    upstream = net::Upstream::make(loop, FakeServer::upstream(server.url()));
    spec.target = "/things";
    spec.kind = "Thing";
    params.rest_min = milliseconds(1);
    params.linger = milliseconds(30);
    params.headers.add("user-agent", "kintsugi-worker/test (delivery)");
    put("a", "red");
  }
  void put(const std::string& name, const std::string& color) {
    server.put("/things", "one", name, R"(,"spec":{"color":")" + color + "\"}", R"(,"uid":"u")");
  }
  [[nodiscard]] std::string color(const ObjectCache<Thing>& cache, const std::string& name) {
    const auto at = cache.find({"one", "", name});
    return !at ? "?" : *at == nullptr ? "" : (*at)->color;
  }
  net::Loop loop{"test"};
  FakeServer server, other;
  std::unique_ptr<net::Upstream> upstream;
  ReflectorSpec spec;
  ReflectorPoolParams params;
};

net::Task<> read(CacheUse<Thing>* use, net::Loop* loop, std::string* result) {
  net::Answer<Expected<void>> answer;
  (*use)->when_synced(answer.callback(), loop->now() + seconds(10));
  const Expected<void> synced = co_await answer;
  if (synced) {
    const auto at = (*use)->find({"one", "", "a"});
    *result = at && *at != nullptr ? (*at)->color : "none";
  }
}

TEST_F(ReflectorPoolTest, RT20_RT32_ACoroutineWaitsForTheFirstListAndReads) {
  ReflectorPool pool(loop, *upstream, params);
  CacheUse<Thing> use = pool.use(spec, things());
  std::string result;
  const net::Job job(read(&use, &loop, &result));
  EXPECT_EQ(result, "");
  ASSERT_TRUE(run_until(loop, [&] { return !result.empty(); }));
  EXPECT_EQ(result, "red");
  ASSERT_EQ(server.log.size(), 1U);
  EXPECT_EQ(server.log[0].headers.get("user-agent"), "kintsugi-worker/test (delivery)");
  put("b", "blue");
  ASSERT_TRUE(run_until(loop, [&] { return color(*use, "b") == "blue"; }));
}

TEST_F(ReflectorPoolTest, RT30_EqualSpecsShareOneReflector) {
  ReflectorPool pool(loop, *upstream, params);
  CacheUse<Thing> first = pool.use(spec, things());
  CacheUse<Thing> second = pool.use(spec, things());
  EXPECT_EQ(&*first, &*second);
  EXPECT_EQ(first.reflector().users(), 2U);
  ReflectorSpec selected = spec;
  selected.selector = "labelSelector=a%3Db";
  const CacheUse<Thing> third = pool.use(selected, things());
  ReflectorSpec named = spec;
  named.projection = "second";
  const CacheUse<Thing> fourth = pool.use(named, things());
  Projection<Other> sizes;
  sizes.make = [](const shards::ObjectKey&, const krm::Json&) { return Other{}; };
  const CacheUse<Other> fifth = pool.use(spec, sizes);
  EXPECT_EQ(pool.size(), 4U);
  ASSERT_TRUE(run_until(loop, [&] { return server.watches("/things") == 4; }));
  ASSERT_TRUE(run_until(loop, [&] { return third->synced(); }));
  EXPECT_EQ(third->size(), 1U);
}

TEST_F(ReflectorPoolTest, RT30_AReflectorOutlivesItsLastUserForAWhile) {
  EXPECT_EQ(ReflectorPoolParams().linger, seconds(60));
  ReflectorPool pool(loop, *upstream, params);
  std::optional<CacheUse<Thing>> use = pool.use(spec, things());
  ASSERT_TRUE(run_until(loop, [&] { return (*use)->synced(); }));
  const CacheCore* const before = &**use;
  use.reset();
  EXPECT_EQ(pool.size(), 1U);
  use = pool.use(spec, things());
  EXPECT_EQ(&**use, before);
  EXPECT_TRUE((*use)->synced());
  bool late = false;
  loop.after(2 * params.linger, [&] { late = true; });
  ASSERT_TRUE(run_until(loop, [&] { return late; }));
  EXPECT_EQ(pool.size(), 1U) << "the new user keeps it";
  use.reset();
  ASSERT_TRUE(run_until(loop, [&] { return pool.size() == 0; }));
  ASSERT_TRUE(run_until(loop, [&] { return server.watches("/things") == 0; }));
}

TEST_F(ReflectorPoolTest, RT21_WhatIsKnownOfAResourceOutlivesItsReflector) {
  server.remove_collection("/things");
  server.serve("/things", 422, "{}");
  ReflectorPool pool(loop, *upstream, params);
  std::optional<CacheUse<Thing>> use = pool.use(spec, things());
  ASSERT_TRUE(run_until(loop, [&] { return server.count("/things?limit=500") > 0; }));
  use.reset();
  ASSERT_TRUE(run_until(loop, [&] { return pool.size() == 0; }));
  const std::size_t asked = server.count("/things?watch=true");
  use = pool.use(spec, things());
  const std::size_t lists = server.count("/things?limit=500");
  ASSERT_TRUE(run_until(loop, [&] { return server.count("/things?limit=500") > lists; }));
  EXPECT_EQ(server.count("/things?watch=true"), asked);
}

TEST_F(ReflectorPoolTest, RT23_WhenTheConnectionBreaks_GoesOnAtTheCursorWithoutAList) {
  ReflectorPool pool(loop, *upstream, params);
  const CacheUse<Thing> use = pool.use(spec, things());
  ASSERT_TRUE(run_until(loop, [&] { return use->synced(); }));
  const std::uint16_t port = server.port();
  for (int i = 0; i < 3; ++i) {
    server.close();
    server.open(port);
    ASSERT_TRUE(run_until(loop, [&] { return server.watches("/things") == 1; }));
  }
  put("b", "blue");
  ASSERT_TRUE(run_until(loop, [&] { return color(*use, "b") == "blue"; }));
  EXPECT_EQ(use.reflector().machine().counters().lists, 1U);
  EXPECT_EQ(server.count("/things?limit"), 0U);
  EXPECT_EQ(server.count("/things?resourceVersion"), 0U);
}

TEST_F(ReflectorPoolTest, RT29_RT_T031_WhenDiscoveryChanges_AnAbsentTypeIsAskedAtOnce) {
  server.remove_collection("/things");
  ReflectorPool pool(loop, *upstream, params);
  const CacheUse<Thing> use = pool.use(spec, things());
  ASSERT_TRUE(run_until(loop, [&] { return use->synced(); }));
  EXPECT_TRUE(use.reflector().machine().absent());
  EXPECT_EQ(use->size(), 0U);
  server.add_collection("/things");
  put("a", "red");
  pool.kick();
  ASSERT_TRUE(run_until(loop, [&] { return color(*use, "a") == "red"; }));
  EXPECT_FALSE(use.reflector().machine().absent());
}

TEST_F(ReflectorPoolTest, RT34_AnOwnWriteEndsByItself) {
  ReflectorPool pool(loop, *upstream, params);
  const CacheUse<Thing> use = pool.use(spec, things());
  ASSERT_TRUE(run_until(loop, [&] { return use->synced(); }));
  const auto written =
      krm::Json::parse(R"({"metadata":{"name":"n","uid":"v","resourceVersion":"900",)"
                       R"("annotations":{"kcp.io/cluster":"one"}},"spec":{"color":"green"}})");
  use->lay(*written, loop.now() - seconds(5) + milliseconds(20));
  EXPECT_EQ(color(*use, "n"), "green");
  ASSERT_TRUE(run_until(loop, [&] { return color(*use, "n").empty(); }));
}

TEST_F(ReflectorPoolTest, RT27_WhenTheUnitIsElsewhere_ListsThereAndDropsWhatIsGone) {
  other.put("/things", "one", "c", R"(,"spec":{"color":"white"})", R"(,"uid":"u")");
  ReflectorPool pool(loop, *upstream, params);
  const CacheUse<Thing> use = pool.use(spec, things());
  ASSERT_TRUE(run_until(loop, [&] { return use->synced(); }));
  const auto next = net::Upstream::make(loop, FakeServer::upstream(other.url()));
  pool.set_upstream(*next);
  ASSERT_TRUE(run_until(loop, [&] { return color(*use, "c") == "white"; }));
  ASSERT_TRUE(run_until(loop, [&] { return color(*use, "a").empty(); }));
  ASSERT_TRUE(run_until(loop, [&] { return server.watches("/things") == 0; }));
}

TEST_F(ReflectorPoolTest, WhenThePoolDiesBeforeAUse_TheCacheStaysReadable) {
  auto pool = std::make_unique<ReflectorPool>(loop, *upstream, params);
  CacheUse<Thing> use = pool->use(spec, things());
  ASSERT_TRUE(run_until(loop, [&] { return use->synced(); }));
  pool.reset();
  EXPECT_EQ(color(*use, "a"), "red");
  ASSERT_TRUE(run_until(loop, [&] { return server.watches("/things") == 0; }));
  use.end();
  EXPECT_FALSE(use);
}

}  // namespace
}  // namespace kintsugi::workers
