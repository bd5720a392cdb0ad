#include "base/alive.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace kintsugi {
namespace {

TEST(Alive, WhileTheOwnerLives_CallbacksRunAsOftenAsTheyAreCalled) {
  const Alive alive;
  int runs = 0;
  auto callback = alive.guard([&runs] { ++runs; });
  callback();
  callback();
  EXPECT_EQ(runs, 2);
}

TEST(Alive, WhenTheOwnerIsGone_CallbacksDoNothing) {
  std::optional<Alive> alive(std::in_place);
  int runs = 0;
  const std::function<void()> callback = alive->guard([&runs] { ++runs; });
  const Alive::Guard guard = alive->weak();
  EXPECT_TRUE(guard);
  alive.reset();
  EXPECT_FALSE(guard);
  callback();
  EXPECT_EQ(runs, 0);
}

TEST(Alive, WhenTheCallbackDestroysTheOwner_ItRunsToItsEnd) {
  struct Owner {
    std::string name = "a name that no small string holds in itself";
    Alive alive;
  };
  auto owner = std::make_unique<Owner>();
  std::string seen;
  auto callback = owner->alive.guard([&owner, &seen] {
    owner.reset();
    seen = "through";
  });
  callback();
  EXPECT_EQ(seen, "through");
  seen.clear();
  callback();
  EXPECT_EQ(seen, "");
}

TEST(Alive, WhenItIsMadeAnew_OnlyWhatWasGuardedBeforeIsLost) {
  Alive alive;
  int before = 0;
  int after = 0;
  auto old = alive.guard([&before] { ++before; });
  alive.renew();
  auto young = alive.guard([&after] { ++after; });
  old();
  young();
  EXPECT_EQ(before, 0);
  EXPECT_EQ(after, 1);
}

TEST(Alive, WhenItHasEnded_NothingRunsUntilItIsMadeAnew) {
  Alive alive;
  int runs = 0;
  auto before = alive.guard([&runs] { ++runs; });
  alive.end();
  auto ended = alive.guard([&runs] { ++runs; });
  before();
  ended();
  EXPECT_FALSE(alive.weak());
  EXPECT_EQ(runs, 0);
  alive.renew();
  before();
  ended();
  EXPECT_EQ(runs, 0);
  alive.guard([&runs] { ++runs; })();
  EXPECT_EQ(runs, 1);
}

TEST(Alive, WhatIsPassedToTheCallback_ComesAsItWas) {
  const Alive alive;
  std::unique_ptr<int> taken;
  std::string changed = "as it was";
  auto callback = alive.guard([&taken](std::unique_ptr<int> one, std::string& other) {
    taken = std::move(one);
    other = "changed";
  });
  callback(std::make_unique<int>(7), changed);
  ASSERT_NE(taken, nullptr);
  EXPECT_EQ(*taken, 7);
  EXPECT_EQ(changed, "changed");
}

TEST(Alive, WhatACallbackKeeps_GoesWithItAndNotWithTheOwner) {
  const auto kept = std::make_shared<int>(1);
  std::optional<Alive> alive(std::in_place);
  {
    const auto callback = alive->guard([kept] { (void)kept; });
    alive.reset();
    EXPECT_EQ(kept.use_count(), 2);
  }
  EXPECT_EQ(kept.use_count(), 1);
}

TEST(Alive, AGuardOfNobody_SaysThatTheOwnerIsGone) { EXPECT_FALSE(Alive::Guard()); }

}  // namespace
}  // namespace kintsugi
