#include "aggregation/watch/watch_group.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "aggregation/asking/merge_query.h"
#include "proxy/testing/rig.h"

namespace kintsugi::proxy {
namespace {

using testing::Rig;

class WatchGroups : public ::testing::Test {
 protected:
  static aggregation::MergeParams params() {
    aggregation::MergeParams out;
    out.group_linger = milliseconds(1);
    return out;
  }
  std::shared_ptr<aggregation::WatchGroup> ask(const std::string& selector) {
    aggregation::MergeRoute route;
    route.scope = {"", "", "configmaps"};
    route.path = "/clusters/*/api/v1/configmaps";
    route.members = [] { return std::vector<aggregation::Member>(); };
    aggregation::MergeQuery query;
    query.passed_on = "&labelSelector=" + selector;
    return shared_.watches.group_of(Rig::get(route.path), route, query);
  }

  Rig rig_;
  serving::WatchDrain drain_{rig_.loop};
  aggregation::MergeLoop shared_{rig_.loop, *rig_.pool, rig_.view, drain_, {}, params()};
};

TEST_F(WatchGroups, WhenNobodyEverReadsIt_ItIsForgotten) {
  for (int i = 0; i < 100; ++i) {  // watches that are refused before they begin
    (void)ask(std::to_string(i));
  }
  EXPECT_EQ(shared_.watches.groups.size(), 100U);
  EXPECT_TRUE(rig_.until([this] { return shared_.watches.groups.empty(); }))
      << shared_.watches.groups.size();
}

TEST_F(WatchGroups, WhenSomebodyHasIt_NoOtherIsMadeInItsPlace) {
  std::shared_ptr<aggregation::WatchGroup> held = ask("held");
  (void)ask("free");
  ASSERT_TRUE(rig_.until([this] { return shared_.watches.groups.size() == 1; }));
  EXPECT_EQ(ask("held"), held);
  held.reset();
  EXPECT_TRUE(rig_.until([this] { return shared_.watches.groups.empty(); }));
}

}  // namespace
}  // namespace kintsugi::proxy
