#include "workers/messaging/placing/address_scheduler.h"

#include <gtest/gtest.h>
#include <malloc.h>

#include <chrono>
#include <cstdlib>
#include <map>
#include <random>
#include <set>

namespace kintsugi::workers {
namespace {

using Hosts = std::vector<std::string>;
constexpr std::int64_t kFull = std::int64_t{64} << 20;  // counted in bytes

BrokerView broker(std::int64_t n, std::int64_t capacity = kFull, bool connected = true) {
  return {"b" + std::to_string(n), n, capacity, connected, false};
}

AddressDemand demand(std::int64_t created, std::int64_t memory = 0) {
  AddressDemand out;
  out.age.created = static_cast<std::uint32_t>(created);
  out.memory = memory;
  return out;
}

struct World {
  AddressScheduler pool;
  void brokers(std::int64_t n, std::int64_t min = 0, std::int64_t max = 8) {
    pool.set_scale(min, max);
    for (std::int64_t i = 0; i < n; ++i) {
      pool.set_broker(broker(i));
    }
  }
  AddressPlacing place(ObjectId object, const AddressDemand& what) {
    pool.set(object, what);
    (void)pool.decide();
    return pool.placing(object);
  }
};

TEST(AddressScheduler, MS_038_PartitionsAreOnDifferentBrokers) {
  World three;
  three.brokers(3, 0, 3);
  AddressDemand two = demand(1);
  two.partitions_min = two.partitions_max = 2;
  EXPECT_EQ(three.place(1, two).hosts, (Hosts{"b0", "b1"}));
  EXPECT_TRUE(three.pool.placing(1).scheduled());

  World one;
  one.brokers(1, 0, 1);
  EXPECT_EQ(one.place(1, two).reason, PlacingReason::kMaxBrokersReached);
  EXPECT_TRUE(one.pool.placing(1).hosts.empty());
  EXPECT_FALSE(one.pool.placing(1).scheduled());
  EXPECT_EQ(one.pool.placing(1).message,
            "no room for 0 bytes on 2 brokers: there are 1 of at most 1 brokers");
  EXPECT_EQ(one.pool.brokers_wanted(), 1);

  one.pool.set_scale(0, 2);
  EXPECT_EQ(one.pool.decide(), std::vector<ObjectId>{1});
  EXPECT_EQ(one.pool.placing(1).reason, PlacingReason::kWaitingForBroker);
  EXPECT_EQ(one.pool.brokers_wanted(), 2);
  one.pool.set_broker(broker(1, kFull, false));  // it starts: no third one
  EXPECT_TRUE(one.pool.decide().empty());
  EXPECT_EQ(one.pool.brokers_wanted(), 2);
  one.pool.set_broker(broker(1));
  EXPECT_EQ(one.pool.decide(), std::vector<ObjectId>{1});
  EXPECT_EQ(one.pool.placing(1).hosts, (Hosts{"b0", "b1"}));
}

TEST(AddressScheduler, MS_038_MorePartitionsOnlyIfFewerDoNotHoldIt) {
  World world;
  world.brokers(3);
  AddressDemand large = demand(1, 3 * kFull / 2);
  large.partitions_max = 3;
  EXPECT_EQ(world.place(1, large).hosts, (Hosts{"b0", "b1"}));
  AddressDemand small = demand(2, kFull / 4);
  small.partitions_max = 3;
  EXPECT_EQ(world.place(2, small).hosts, Hosts{"b2"});
}

TEST(AddressScheduler, MS_039_TheFreestBrokerAndAlwaysTheSame) {
  World unequal;
  unequal.brokers(3);
  EXPECT_EQ(unequal.place(1, demand(1, 500)).hosts, Hosts{"b0"});
  EXPECT_EQ(unequal.place(2, demand(2, 300)).hosts, Hosts{"b1"});
  EXPECT_EQ(unequal.place(3, demand(3, 400)).hosts, Hosts{"b2"});
  EXPECT_EQ(unequal.place(4, demand(4, 1)).hosts, Hosts{"b1"});
  EXPECT_EQ(unequal.pool.use("b1").memory, 301);
  EXPECT_EQ(unequal.pool.use("b1").queues, 2);
  std::vector<Hosts> first;
  for (int round = 0; round < 100; ++round) {
    World world;
    world.pool.set_scale(0, 3);
    for (const std::int64_t n : {2, 0, 1}) {
      world.pool.set_broker(broker((n + round) % 3));
    }
    std::vector<Hosts> hosts;
    for (ObjectId i = 0; i < 7; ++i) {
      hosts.push_back(world.place(i, demand(i)).hosts);
    }
    EXPECT_EQ(hosts[0], Hosts{"b0"});
    EXPECT_EQ(hosts[1], Hosts{"b1"}) << "fewest queues, then name";
    if (round == 0) {
      first = hosts;
    }
    EXPECT_EQ(hosts, first);
  }
}

TEST(AddressScheduler, MS_040_ARestartMovesNothing) {
  World world;
  world.pool.set_scale(0, 3);
  AddressDemand there = demand(1, kFull);
  there.recorded = {"b1"};
  world.pool.set(1, there);  // before any broker is known
  for (std::int64_t i = 0; i < 3; ++i) {
    world.pool.set_broker(broker(i, kFull, i != 1));
  }
  (void)world.pool.decide();
  EXPECT_EQ(world.pool.placing(1).hosts, Hosts{"b1"});
  EXPECT_EQ(world.pool.placing(1).reason, PlacingReason::kScheduled) << "not connected is not gone";
  AddressDemand more = demand(2, 2 * kFull);
  more.recorded = {"b1"};
  EXPECT_EQ(world.place(2, more).hosts, Hosts{"b1"}) << "also where there is no room for it";
  EXPECT_EQ(world.place(3, demand(3)).hosts, Hosts{"b0"});
  there.recorded.clear();  // the status was not written yet
  EXPECT_EQ(world.place(1, there).hosts, Hosts{"b1"});
  EXPECT_TRUE(world.pool.decide().empty());
}

TEST(AddressScheduler, MS_040_WhatIsWhereItsStatusSaysIsNoChangeAfterARestart) {
  World world;
  world.pool.set_scale(0, 3);
  AddressDemand there = demand(1);
  for (ObjectId object = 1; object <= 3; ++object) {
    there.age.created = object;
    there.recorded = {"b" + std::to_string(object)};
    world.pool.set(object, there);  // before any broker is known
  }
  world.pool.set(4, demand(4));
  for (std::int64_t i = 0; i < 3; ++i) {
    world.pool.set_broker(broker(i));
  }
  EXPECT_EQ(world.pool.decide(), (std::vector<ObjectId>{3, 4})) << "b3 is gone, and a new one";
  AddressDemand again = demand(2);
  again.recorded = {"b2"};
  world.pool.set(2, again);
  EXPECT_TRUE(world.pool.decide().empty());
  world.pool.broker_gone("b2");
  EXPECT_EQ(world.pool.decide(), std::vector<ObjectId>{2});
  world.pool.set_broker(broker(2));
  EXPECT_EQ(world.pool.decide(), std::vector<ObjectId>{2}) << "what was told is told again";
  there = demand(1);
  there.recorded = {"b0"};
  world.pool.set(1, there);
  EXPECT_EQ(world.pool.decide(), std::vector<ObjectId>{1});
}

TEST(AddressScheduler, MS_041_RequestsStayWithinCapacityAndAskForBrokersUpToMax) {
  World world;
  world.brokers(1, 0, 2);
  EXPECT_EQ(world.place(1, demand(1, kFull - 10)).hosts, Hosts{"b0"});
  EXPECT_EQ(world.place(2, demand(2, 11)).reason, PlacingReason::kWaitingForBroker);
  EXPECT_EQ(world.place(3, demand(3, 10)).hosts, Hosts{"b0"}) << "to the byte";
  EXPECT_EQ(world.place(4, demand(4, 0)).hosts, Hosts{"b0"}) << "without a request: always";
  EXPECT_EQ(world.pool.brokers_wanted(), 2);
  world.pool.set_broker(broker(1));
  EXPECT_EQ(world.pool.decide(), std::vector<ObjectId>{2});
  EXPECT_EQ(world.pool.placing(2).hosts, Hosts{"b1"});
  EXPECT_EQ(world.place(5, demand(5, 2 * kFull)).reason, PlacingReason::kMaxBrokersReached);
  EXPECT_EQ(world.pool.brokers_wanted(), 2);
  world.pool.set_broker(broker(1, 4 * kFull));
  (void)world.pool.decide();
  EXPECT_EQ(world.pool.placing(5).hosts, Hosts{"b1"}) << "tried again when the capacity changes";
}

TEST(AddressScheduler, MS_041_CapacitiesUpToTwoToThe63) {
  World world;
  world.pool.set_scale(0, 2);
  const std::int64_t most = std::numeric_limits<std::int64_t>::max();
  world.pool.set_broker(broker(0, 1000));
  EXPECT_EQ(world.place(1, demand(1, 1000)).hosts, Hosts{"b0"});
  world.pool.set_broker(broker(1, most));
  EXPECT_EQ(world.place(2, demand(2, most / 4)).hosts, Hosts{"b1"});
  EXPECT_EQ(world.place(3, demand(3, most / 4)).hosts.size(), 1U);
  EXPECT_EQ(world.place(4, demand(4, most - 2 * (most / 4))).reason,
            PlacingReason::kMaxBrokersReached);
  AddressDemand bogus = demand(5, most);
  bogus.recorded = {"b0"};
  EXPECT_EQ(world.place(5, bogus).hosts, Hosts{"b0"});
  EXPECT_EQ(world.pool.use("b0").memory, most);
}

TEST(AddressScheduler, MS_024_ASpaceStaysWithItsBroker) {
  World world;
  world.brokers(2);
  AddressDemand queue = demand(2);
  queue.pinned_to = 1;
  EXPECT_EQ(world.place(2, queue).reason, PlacingReason::kWaitingForSpace);
  EXPECT_EQ(world.place(1, demand(1)).hosts, Hosts{"b0"});
  EXPECT_EQ(world.pool.placing(2).hosts, Hosts{"b0"});
  world.pool.set_broker(broker(0, kFull, false));
  EXPECT_TRUE(world.pool.decide().empty());
  AddressDemand late = demand(3);
  late.pinned_to = 1;
  EXPECT_EQ(world.place(3, late).reason, PlacingReason::kBrokerNotConnected);
  EXPECT_EQ(world.pool.placing(3).message, "broker b0 takes nothing now");
  world.pool.set_broker(broker(0));
  EXPECT_EQ(world.pool.decide(), std::vector<ObjectId>{3});
  EXPECT_EQ(world.pool.placing(3).hosts, Hosts{"b0"});
  AddressDemand large = demand(4, 2 * kFull);
  large.pinned_to = 1;
  EXPECT_EQ(world.place(4, large).reason, PlacingReason::kBrokerFull);
  EXPECT_EQ(world.pool.brokers_wanted(), 1) << "another broker would not help";
}

TEST(AddressScheduler, MS_032_ASubscriptionFollowsItsTopic) {
  World world;
  world.brokers(2);
  AddressDemand subscription = demand(1);
  subscription.type = AddressType::kSubscription;
  subscription.pinned_to = 2;
  EXPECT_EQ(world.place(1, subscription).reason, PlacingReason::kWaitingForTopic);
  world.pool.set(3, demand(2, 7));
  AddressDemand topic = demand(3);
  topic.type = AddressType::kTopic;
  world.pool.set(2, topic);
  EXPECT_EQ(world.pool.decide(), (std::vector<ObjectId>{1, 3, 2}));
  EXPECT_EQ(world.pool.placing(3).hosts, Hosts{"b0"});
  EXPECT_EQ(world.pool.placing(2).hosts, Hosts{"b1"});
  EXPECT_EQ(world.pool.placing(1).hosts, Hosts{"b1"});
  world.pool.broker_gone("b1");
  topic.reschedule = true;
  world.pool.set(2, topic);
  (void)world.pool.decide();
  EXPECT_EQ(world.pool.placing(2).hosts, Hosts{"b0"});
  EXPECT_EQ(world.pool.placing(1).hosts, Hosts{"b0"});
}

TEST(AddressScheduler, MD9_MS_033_ADeadLetterIsOnEveryBrokerAlsoOnANewOne) {
  World world;
  world.pool.set_scale(0, 3);
  AddressDemand letters = demand(1);
  letters.type = AddressType::kDeadLetter;
  EXPECT_EQ(world.place(1, letters).reason, PlacingReason::kWaitingForBroker);
  EXPECT_EQ(world.pool.brokers_wanted(), 1);
  world.pool.set_broker(broker(0));
  EXPECT_EQ(world.pool.decide(), std::vector<ObjectId>{1});
  EXPECT_EQ(world.pool.placing(1).hosts, Hosts{"b0"});
  world.pool.set_broker(broker(1));
  EXPECT_EQ(world.pool.decide(), std::vector<ObjectId>{1});
  EXPECT_EQ(world.pool.placing(1).hosts, (Hosts{"b0", "b1"}));
  EXPECT_TRUE(world.pool.is_on(1, "b1"));
  EXPECT_EQ(world.pool.use("b1").queues, 1);
  world.pool.broker_gone("b0");
  (void)world.pool.decide();
  EXPECT_EQ(world.pool.placing(1).hosts, Hosts{"b1"});
}

TEST(AddressScheduler, MS_034_TargetsAreWhereTheirSourcesAre) {
  World world;
  world.brokers(3);
  (void)world.place(9, demand(0, 5));  // b0 is not the freest
  AddressDemand source = demand(1, 10);
  source.targets = {2, 3};
  world.pool.set(1, source);
  world.pool.set(2, demand(2, 10));
  world.pool.set(3, demand(3, 10));
  (void)world.pool.decide();
  EXPECT_EQ(world.pool.placing(1).hosts, Hosts{"b1"});
  EXPECT_EQ(world.pool.placing(2).hosts, Hosts{"b1"});
  EXPECT_EQ(world.pool.placing(3).hosts, Hosts{"b1"});
  EXPECT_EQ(world.pool.use("b1").memory, 30);
  AddressDemand second = demand(4, 10);
  second.targets = {2};
  EXPECT_EQ(world.place(4, second).hosts, Hosts{"b1"}) << "where its target is, not where most is";
  AddressDemand third = demand(5, kFull - 25);
  third.targets = {2};
  EXPECT_EQ(world.place(5, third).hosts, Hosts{"b2"}) << "no room there";
  EXPECT_EQ(world.pool.placing(2).hosts, (Hosts{"b1", "b2"})) << "its target comes along";
  AddressDemand late = demand(6, 10);  // a target that comes after its source
  AddressDemand early = demand(7, 10);
  early.targets = {6};
  EXPECT_EQ(world.place(7, early).hosts, Hosts{"b0"});
  EXPECT_EQ(world.place(8, demand(8, 1)).hosts, Hosts{"b0"});
  EXPECT_EQ(world.place(6, late).hosts, Hosts{"b0"});
}

TEST(AddressScheduler, MS_056_ALostBrokerMovesNothingUnlessAskedTo) {
  World world;
  world.brokers(2);
  EXPECT_EQ(world.place(1, demand(1)).hosts, Hosts{"b0"});
  world.pool.broker_gone("b0");
  EXPECT_EQ(world.pool.decide(), std::vector<ObjectId>{1});
  AddressPlacing placing = world.pool.placing(1);
  EXPECT_EQ(placing.reason, PlacingReason::kBrokerGone);
  EXPECT_TRUE(placing.scheduled());
  EXPECT_EQ(placing.hosts, Hosts{"b0"});
  EXPECT_EQ(placing.message, "broker b0 is gone");
  world.pool.set_broker(broker(0));  // it comes back
  EXPECT_EQ(world.pool.decide(), std::vector<ObjectId>{1});
  EXPECT_EQ(world.pool.placing(1).reason, PlacingReason::kScheduled);
  world.pool.broker_gone("b0");
  (void)world.pool.decide();
  EXPECT_EQ(world.pool.moves(), 0U);
  AddressDemand move = demand(1);
  move.reschedule = true;
  move.recorded = {"b0"};
  placing = world.place(1, move);
  EXPECT_EQ(placing.hosts, Hosts{"b1"});
  EXPECT_EQ(placing.reason, PlacingReason::kScheduled);
  EXPECT_EQ(world.pool.moves(), 1U);
  world.pool.broker_gone("b1");
  (void)world.place(2, demand(2));
  std::vector<PlacingReason> waits;
  world.pool.each_waiting([&](PlacingReason reason) { waits.push_back(reason); });
  EXPECT_EQ(waits.size(), 2U) << "one that may move and has nowhere to, one without a place";
  EXPECT_EQ(world.pool.moves(), 1U);
}

TEST(AddressScheduler, BrokersWithoutAddressesGoFromTheLastOne) {
  World world;
  world.brokers(4, 1, 8);
  EXPECT_EQ(world.pool.brokers_wanted(), 1);
  AddressDemand there = demand(1);
  there.recorded = {"b2"};
  (void)world.place(1, there);
  EXPECT_EQ(world.pool.brokers_wanted(), 3);
  world.pool.remove(1);
  EXPECT_TRUE(world.pool.decide().empty());
  EXPECT_EQ(world.pool.brokers_wanted(), 1);
  EXPECT_EQ(world.pool.size(), 0U);
  world.pool.set_scale(0, 8);
  EXPECT_EQ(world.pool.brokers_wanted(), 0);
}

struct Random {
  std::mt19937_64 engine;
  std::int64_t operator()(std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(engine);
  }
};

/// Any events: capacities hold, nothing moves, everything is decided the same way.
void history(std::uint64_t seed, std::vector<Hosts>* trace) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  Random pick{std::mt19937_64(seed)};
  AddressScheduler pool;
  const std::int64_t scale = pick(0, 1) == 0 ? 1 : std::int64_t{1} << pick(20, 50);
  pool.set_scale(0, 6);
  std::map<std::int64_t, BrokerView> brokers;
  std::map<ObjectId, AddressDemand> demands;
  std::map<ObjectId, Hosts> before;
  for (int step = 0; step < 60; ++step) {
    std::set<ObjectId> touched;
    bool gone = false, shrunk = false;
    for (std::int64_t events = pick(1, 4); events > 0; --events) {
      const std::int64_t what = pick(0, 9);
      if (what == 0) {
        const std::int64_t n = pick(0, 4);
        if (brokers.erase(n) > 0) {
          pool.broker_gone("b" + std::to_string(n));
          gone = true;
        }
      } else if (what <= 3) {
        const std::int64_t n = pick(0, 4);
        BrokerView view = broker(n, pick(10, 40) * scale, pick(0, 3) != 0);
        view.excluded = pick(0, 9) == 0;
        const auto had = brokers.find(n);
        shrunk = shrunk || (had != brokers.end() && had->second.capacity > view.capacity);
        gone = gone || had == brokers.end();  // one that comes back may take part again
        brokers[n] = view;
        pool.set_broker(view);
      } else if (what == 4 && !demands.empty()) {
        const auto at =
            std::next(demands.begin(), pick(0, static_cast<std::int64_t>(demands.size()) - 1));
        pool.remove(at->first);
        before.erase(at->first);
        touched.insert(at->first);
        demands.erase(at);
      } else {
        const auto object = static_cast<ObjectId>(pick(0, 30));
        if (demands.contains(object)) {
          continue;
        }
        AddressDemand next = demand(pick(0, 5), pick(0, 8) * scale - pick(0, 1) * (scale > 1));
        next.memory = std::max<std::int64_t>(0, next.memory);
        next.partitions_min = pick(1, 2);
        next.partitions_max = next.partitions_min + pick(0, 1);
        next.reschedule = pick(0, 3) == 0;
        if (pick(0, 3) == 0 && object > 0) {
          next.targets = {object - 1};  // never a cycle
        } else if (pick(0, 5) == 0 && object > 1) {
          next.pinned_to = object - 2;
        }
        demands[object] = next;
        touched.insert(object);
        pool.set(object, next);
      }
    }
    std::map<std::string, std::int64_t> used_before;
    for (const auto& [n, view] : brokers) {
      used_before[view.host] = pool.use(view.host).memory;
    }
    (void)pool.decide();
    ASSERT_TRUE(pool.decide().empty()) << "step " << step;
    std::map<std::string, std::int64_t> sums;
    for (const auto& [object, wanted] : demands) {
      const AddressPlacing placing = pool.placing(object);
      std::set<std::string> different(placing.hosts.begin(), placing.hosts.end());
      ASSERT_EQ(different.size(), placing.hosts.size());
      if (placing.reason == PlacingReason::kScheduled && !wanted.pinned_to) {
        ASSERT_GE(static_cast<std::int64_t>(placing.hosts.size()), wanted.partitions_min);
      }
      const Hosts& had = before[object];
      if (!had.empty() && !(wanted.reschedule || wanted.pinned_to || gone)) {
        for (const std::string& host : had) {
          ASSERT_TRUE(different.contains(host)) << object << " left " << host << " step " << step;
        }
      }
      if (!wanted.reschedule && !wanted.pinned_to) {  // whatever happens
        for (const std::string& host : had) {
          ASSERT_TRUE(different.contains(host)) << object << " left " << host << " step " << step;
        }
      }
      const auto n = std::clamp(static_cast<std::int64_t>(placing.hosts.size()),
                                wanted.partitions_min, wanted.partitions_max);
      for (const std::string& host : placing.hosts) {
        sums[host] += (wanted.memory + n - 1) / n;
      }
      for (const ObjectId target : wanted.targets) {
        if (!demands.contains(target) || demands.at(target).pinned_to) {
          continue;
        }
        const AddressPlacing other = pool.placing(target);
        if (other.reason == PlacingReason::kScheduled) {
          for (const std::string& host : placing.hosts) {
            ASSERT_TRUE(std::count(other.hosts.begin(), other.hosts.end(), host) == 1 ||
                        !brokers.contains(host[1] - '0'))
                << object << " without its target on " << host << " step " << step;
          }
        }
      }
      before[object] = placing.hosts;
      trace->push_back(placing.hosts);
    }
    for (const auto& [n, view] : brokers) {
      ASSERT_EQ(pool.use(view.host).memory, sums[view.host]) << view.host << " step " << step;
      if (sums[view.host] > view.capacity) {  // it shrank below what it has: nothing may come
        ASSERT_LE(sums[view.host], used_before[view.host]) << view.host << " step " << step;
      }
    }
  }
}

TEST(AddressScheduler, MS_041_AnyEventsKeepCapacitiesMoveNothingAndAreDeterministic) {
  const std::uint64_t rounds = std::getenv("KINTSUGI_FULL_LOAD") != nullptr ? 20'000 : 300;
  for (std::uint64_t seed = 1; seed <= rounds && !::testing::Test::HasFailure(); ++seed) {
    std::vector<Hosts> first, second;
    history(seed, &first);
    if (seed % 10 == 0) {
      history(seed, &second);
      ASSERT_EQ(first, second) << "seed " << seed;
    }
  }
}

TEST(AddressScheduler, MS_065_AHundredThousandAddresses) {
  constexpr ObjectId kAddresses = 100'000;
  AddressScheduler pool;
  pool.set_scale(0, 16);
  for (std::int64_t i = 0; i < 16; ++i) {
    pool.set_broker(broker(i, 1024 * kFull));
  }
  const std::size_t heap = mallinfo2().uordblks + mallinfo2().hblkhd;
  for (ObjectId i = 0; i < kAddresses; ++i) {
    pool.set(i, demand(i, i % 3 == 0 ? 0 : 1 << 20));
  }
  const std::size_t changed = pool.decide().size();
  const double each = double((mallinfo2().uordblks + mallinfo2().hblkhd) - heap) / kAddresses;
  EXPECT_EQ(changed, kAddresses);
  EXPECT_EQ(pool.waiting(), 0U);
  EXPECT_LT(each, 700);
}

}  // namespace
}  // namespace kintsugi::workers
