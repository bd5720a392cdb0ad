#include "serving/fair_queues.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <list>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

// Whose turn it is when more is asked for than can run: one heavy payer among light ones, wide
// requests, levels that borrow, and everything at random under the invariants.
namespace kintsugi::serving {
namespace {

using Entry = FairQueues::Entry;
using Ticket = FairQueues::Ticket;

constexpr Flow tenant(std::uint64_t payer, std::uint64_t cluster = 1) {
  return {Level::kTenant, payer, cluster};
}

/// A machine whose clock the test moves.
class FairQueuesTest : public ::testing::Test {
 protected:
  void make(const FairLimits& limits) { queues_ = std::make_unique<FairQueues>(limits, 7); }
  /// A request that has come; null: there was no place for it.
  std::shared_ptr<Ticket> ask(const Flow& flow, const FairQueues::Ask& ask = {}) {
    auto ticket = std::make_shared<Ticket>();
    entry_ = queues_->enter(*ticket, flow, ask, now_);
    return entry_ == Entry::kFull ? nullptr : ticket;
  }
  void leave(const std::shared_ptr<Ticket>& ticket) { queues_->leave(*ticket, now_); }
  Ticket* next() { return queues_->next(now_); }
  [[nodiscard]] FairQueues::LevelTotals tenants() const { return queues_->totals(Level::kTenant); }

  std::unique_ptr<FairQueues> queues_;
  TimePoint now_ = TimePoint() + seconds(1'000);
  Entry entry_ = Entry::kFull;
};

TEST_F(FairQueuesTest, WhenSeatsAreFree_NobodyWaits) {
  make({.seats = 2});
  const auto one = ask(tenant(1)), two = ask(tenant(2));
  EXPECT_TRUE(one->runs());
  EXPECT_TRUE(two->runs());
  const auto three = ask(tenant(3));
  EXPECT_TRUE(three->waits());
  EXPECT_EQ(next(), nullptr);
  leave(one);
  EXPECT_EQ(next(), three.get());
  EXPECT_TRUE(three->runs());
  EXPECT_EQ(queues_->seats_taken(), 2U);
}

TEST_F(FairQueuesTest, WithoutABound_EverythingRuns) {
  make({.seats = 0});
  std::vector<std::shared_ptr<Ticket>> all;
  for (std::uint64_t i = 0; i < 1'000; ++i) {
    all.push_back(ask(tenant(i % 3), {.width = 10}));
    ASSERT_TRUE(all.back()->runs());
  }
}

TEST_F(FairQueuesTest, SE072_OnePayerFillsHisHandAndNoOtherQueue) {
  make({.seats = 1, .queues = 128, .hand = 6, .queue_length = 50});
  const auto running = ask(tenant(99));
  std::vector<std::shared_ptr<Ticket>> heavy;
  for (std::uint64_t i = 0; i < 2'000; ++i) {  // whatever cluster he varies
    if (auto ticket = ask(tenant(1, i))) {
      heavy.push_back(std::move(ticket));
    }
  }
  EXPECT_EQ(heavy.size(), 6U * 50U);
  EXPECT_EQ(tenants().full, 2'000U - heavy.size());
  std::size_t let_in = 0;
  std::vector<std::shared_ptr<Ticket>> light;
  for (std::uint64_t payer = 1'000; payer < 2'000; ++payer) {
    light.push_back(ask(tenant(payer)));
    let_in += light.back() != nullptr ? 1U : 0U;
    light.back().reset();
  }
  EXPECT_EQ(let_in, 1'000U) << "nobody else is refused";
}

/// The flood of one payer beside others who ask now and then: how many of each got a seat, and the
/// longest that one of the others waited.
TEST_F(FairQueuesTest, SE005_AFloodOfOnePayerIsFeltByHimAlone) {
  make({.seats = 4, .wait = seconds(15)});
  struct Running {
    std::shared_ptr<Ticket> ticket;
    TimePoint ends;
  };
  std::list<Running> running;
  std::map<Ticket*, std::pair<std::shared_ptr<Ticket>, std::uint64_t>> waiting;
  std::map<std::uint64_t, std::size_t> served, refused;
  Duration longest{};
  const Duration work = milliseconds(10);
  const auto start = [&](const std::shared_ptr<Ticket>& ticket) {
    running.push_back({ticket, now_ + work});
  };
  const auto come = [&](std::uint64_t payer) {
    if (auto ticket = ask(tenant(payer)); ticket == nullptr) {
      ++refused[payer];
    } else if (ticket->runs()) {
      ++served[payer];
      start(ticket);
    } else {
      waiting[ticket.get()] = {ticket, payer};
    }
  };
  const auto pump = [&] {
    while (Ticket* ticket = next()) {
      const auto found = waiting.find(ticket);
      ASSERT_NE(found, waiting.end());
      ++served[found->second.second];
      start(found->second.first);
      waiting.erase(found);
    }
  };
  for (int tick = 0; tick < 5'000; ++tick) {  // 5 s; capacity: 400 a second
    now_ += milliseconds(1);
    for (auto it = running.begin(); it != running.end();) {
      if (it->ends <= now_) {
        leave(it->ticket);
        it = running.erase(it);
      } else {
        ++it;
      }
    }
    pump();
    for (int i = 0; i < 4; ++i) {
      come(1);  // 4,000 a second: ten times the capacity
    }
    if (tick % 50 == 0) {  // nine others: 20 a second each
      for (std::uint64_t other = 2; other < 11; ++other) {
        come(other);
      }
    }
    pump();
    for (const auto& [ticket, who] : waiting) {
      if (who.second != 1) {
        longest = std::max(longest, Duration(now_ - ticket->since()));
      }
    }
  }
  for (std::uint64_t other = 2; other < 11; ++other) {
    EXPECT_EQ(refused[other], 0U);
    EXPECT_GE(served[other], 99U);
  }
  EXPECT_GT(refused[1], 10'000U);
  EXPECT_GT(served[1], 1'000U) << "what the others leave is his";
  EXPECT_LE(longest, 4 * work) << "four seats for nine that come at once, and six queues of his";
}

TEST_F(FairQueuesTest, SE080_OfLearnedSeatsSomeAreForWhoHasNone) {
  for (const std::size_t least : {std::size_t{0}, std::size_t{8}}) {
    make({.seats = 400, .queues = 128, .hand = 6, .least = least});
    queues_->set_seats(8);
    std::vector<std::shared_ptr<Ticket>> heavy;
    for (int i = 0; i < 200; ++i) {
      heavy.push_back(ask(tenant(1)));
    }
    const std::size_t all = queues_->seats_taken();
    EXPECT_EQ(all, 8U) << "whoever has many waits for a seat of his own";
    std::vector<std::shared_ptr<Ticket>> light;
    std::size_t at_once = 0;
    for (std::uint64_t payer = 2; payer < 12; ++payer) {
      light.push_back(ask(tenant(payer)));
      at_once += light.back()->runs() ? 1U : 0U;
    }
    EXPECT_EQ(at_once, least == 0 ? 0U : 4U) << least;
    EXPECT_EQ(next(), nullptr) << "no more than these";
    if (least == 0) {
      continue;
    }
    leave(light.front());
    EXPECT_TRUE(light[4]->waits());
    EXPECT_EQ(next(), light[4].get()) << "and then the next of those, before 192 of the other";
    EXPECT_EQ(next(), nullptr);
  }
}

TEST_F(FairQueuesTest, SE005_WhileOthersCome_WhoFillsHisHandHasAnEighthOfWhatWasLearned) {
  make({.seats = 400, .queues = 128, .hand = 6, .least = 16});
  queues_->set_seats(32);
  std::list<std::shared_ptr<Ticket>> heavy, running;
  for (int i = 0; i < 200; ++i) {
    heavy.push_back(ask(tenant(1)));
  }
  EXPECT_EQ(queues_->seats_taken(), 31U) << "of nobody else, and one is kept for operators";
  // Everything that runs is done and given to whoever is next; one more newcomer before that.
  const auto turn = [&](std::uint64_t newcomer) {
    for (const auto& ticket : heavy) {
      if (ticket->runs()) {
        running.push_back(ticket);
      }
    }
    std::shared_ptr<Ticket> light = newcomer == 0 ? nullptr : ask(tenant(newcomer));
    EXPECT_TRUE(light == nullptr || light->runs());
    for (; !running.empty(); running.pop_front()) {
      heavy.remove(running.front());
      leave(running.front());
    }
    while (next() != nullptr) {
    }
    return queues_->seats_taken() - (light == nullptr ? 0U : 1U);
  };
  EXPECT_EQ(turn(2), 4U);
  EXPECT_EQ(turn(3), 4U);
  now_ += milliseconds(499);
  EXPECT_EQ(turn(0), 4U);
  now_ += milliseconds(1);
  EXPECT_EQ(turn(0), 31U) << "nobody else is there any more";
  queues_->set_seats(8);
  EXPECT_EQ(turn(0), 8U);
  EXPECT_EQ(turn(4), 2U) << "two at least";
  queues_->set_seats(400);
  EXPECT_GT(turn(5), 100U) << "what is not overloaded has seats for everybody";
}

TEST_F(FairQueuesTest, SE072_InOneQueue_PayersTakeTurnsAndThenTheirClusters) {
  make({.seats = 1, .queues = 1, .hand = 1});
  const auto running = ask(tenant(9));
  const auto a1 = ask(tenant(1, 1)), a2 = ask(tenant(1, 1)), a3 = ask(tenant(1, 1));
  const auto a4 = ask(tenant(1, 2));
  const auto b1 = ask(tenant(2, 1)), b2 = ask(tenant(2, 1));
  leave(running);
  for (const auto& expected : {a1, b1, a4, b2, a2, a3}) {
    Ticket* ticket = next();
    ASSERT_EQ(ticket, expected.get());
    queues_->leave(*ticket, now_);
  }
}

TEST_F(FairQueuesTest, SE072_WhoAlwaysHasOneWaiting_DoesNotStarveWhoHasMany) {
  make({.seats = 1, .queues = 1, .hand = 1});
  auto running = ask(tenant(9));
  std::vector<std::shared_ptr<Ticket>> many;
  for (int i = 0; i < 20; ++i) {
    many.push_back(ask(tenant(1)));
  }
  std::size_t of_many = 0;
  Ticket* last = running.get();
  std::shared_ptr<Ticket> single = ask(tenant(2));
  for (int i = 0; i < 20; ++i) {
    queues_->leave(*last, now_);
    last = next();
    ASSERT_NE(last, nullptr);
    if (last != single.get()) {
      ++of_many;
      continue;
    }
    queues_->leave(*last, now_);
    single = ask(tenant(2));
    last = next();
    ASSERT_NE(last, nullptr);
    of_many += last != single.get() ? 1U : 0U;
  }
  EXPECT_GE(of_many, 10U);
}

TEST_F(FairQueuesTest, SE073_TheTimeThatWorkTakesIsCharged) {
  make({.seats = 1, .queues = 128, .hand = 1, .queue_length = 1'000});
  auto running = ask(tenant(99));
  std::map<Ticket*, std::uint64_t> who;
  std::vector<std::shared_ptr<Ticket>> all;
  for (int i = 0; i < 300; ++i) {
    for (const std::uint64_t payer : {1U, 2U}) {
      all.push_back(ask(tenant(payer)));
      who[all.back().get()] = payer;
    }
  }
  leave(running);
  std::map<std::uint64_t, Duration> used;
  const TimePoint end = now_ + seconds(3);
  while (now_ < end) {
    Ticket* ticket = next();
    ASSERT_NE(ticket, nullptr);
    const Duration work = milliseconds(who[ticket] == 1 ? 90 : 10);
    now_ += work;
    used[who[ticket]] += work;
    queues_->leave(*ticket, now_);
  }
  EXPECT_NEAR(std::chrono::duration<double>(used[1]).count(),
              std::chrono::duration<double>(used[2]).count(), 0.35)
      << "slow requests do not get more of the seats than quick ones";
}

TEST_F(FairQueuesTest, SE074_WhoWaitsTooLongIsThrownOut) {
  make({.seats = 1, .wait = seconds(15)});
  const auto running = ask(tenant(1));
  const auto patient = ask(tenant(2)), hasty = ask(tenant(3), {.wait = seconds(2)});
  EXPECT_EQ(queues_->next_deadline(), now_ + seconds(2));
  EXPECT_EQ(queues_->expired(now_ + milliseconds(1'999)), nullptr);
  now_ += seconds(2);
  EXPECT_EQ(queues_->expired(now_), hasty.get());
  EXPECT_FALSE(hasty->waits());
  EXPECT_FALSE(hasty->runs());
  EXPECT_EQ(queues_->expired(now_), nullptr);
  EXPECT_EQ(queues_->next_deadline(), now_ + seconds(13));
  now_ += seconds(13);
  EXPECT_EQ(queues_->expired(now_), patient.get());
  EXPECT_EQ(queues_->next_deadline(), std::nullopt);
  EXPECT_EQ(tenants().late, 2U);
  leave(running);
  EXPECT_EQ(next(), nullptr);
}

TEST_F(FairQueuesTest, SE074_WhoGoesLeavesTheQueueAtOnce) {
  make({.seats = 1, .queues = 1, .hand = 1, .queue_length = 1, .queue_bytes = 100});
  const auto running = ask(tenant(1));
  auto waiting = ask(tenant(2), {.bytes = 60});
  EXPECT_EQ(ask(tenant(3)), nullptr) << "its place is taken";
  waiting.reset();
  EXPECT_EQ(tenants().waiting, 0U);
  EXPECT_EQ(queues_->next_deadline(), std::nullopt);
  const auto third = ask(tenant(3));
  ASSERT_NE(third, nullptr);
  leave(running);
  EXPECT_EQ(next(), third.get());
}

TEST_F(FairQueuesTest, SE074_AQueueHoldsSoManyBytes) {
  make({.seats = 1, .queues = 1, .hand = 1, .queue_bytes = 100});
  const auto running = ask(tenant(1), {.bytes = 1'000});
  EXPECT_TRUE(running->runs()) << "what runs is not in the queue";
  const auto waiting = ask(tenant(2), {.bytes = 60});
  EXPECT_EQ(ask(tenant(3), {.bytes = 41}), nullptr);
  EXPECT_NE(ask(tenant(3), {.bytes = 40}), nullptr);
}

TEST_F(FairQueuesTest, SE073_AWideRequestStopsNarrowOnesForAMomentOnly) {
  make({.seats = 4, .spared = 0, .block = milliseconds(100)});
  const auto one = ask(tenant(1)), two = ask(tenant(2));
  const auto wide = ask(tenant(3), {.width = 4});
  EXPECT_TRUE(wide->waits());
  const auto narrow = ask(tenant(4)), other = ask(tenant(5));
  EXPECT_TRUE(narrow->waits());
  EXPECT_EQ(next(), nullptr) << "the wide one is next";
  EXPECT_EQ(queues_->next_deadline(), now_ + milliseconds(100));
  now_ += milliseconds(100);
  EXPECT_NE(next(), nullptr);
  EXPECT_NE(next(), nullptr);
  EXPECT_TRUE(narrow->runs());
  EXPECT_TRUE(other->runs());
  for (const auto& ticket : {one, two, narrow, other}) {
    leave(ticket);
  }
  EXPECT_EQ(next(), wide.get());
}

TEST_F(FairQueuesTest, SE070_IdleSeatsAreLentAndComeBackFirst) {
  make({.seats = 20, .spared = 5});
  std::vector<std::shared_ptr<Ticket>> tenants;
  for (std::uint64_t i = 0; i < 30; ++i) {
    tenants.push_back(ask(tenant(i)));
  }
  EXPECT_EQ(queues_->seats_taken(), 19U) << "one of 20 is never lent";
  const Flow admin{Level::kOperator, 1, 1};
  const auto first = ask(admin);
  EXPECT_TRUE(first->waits()) << "others wait, so that it is not let in without a look";
  EXPECT_EQ(next(), first.get());
  EXPECT_EQ(queues_->seats_taken(), 20U);
  const auto second = ask(admin), stranger = ask({Level::kUnknown, 1, 1});
  EXPECT_EQ(next(), nullptr);
  leave(tenants[0]);
  EXPECT_EQ(next(), stranger.get()) << "it has nothing of its share";
  leave(tenants[1]);
  EXPECT_EQ(next(), second.get()) << "and so on, before those who have borrowed";
  EXPECT_EQ(queues_->totals(Level::kOperator).seats, 2U);
  leave(tenants[2]);
  EXPECT_EQ(next(), tenants[19].get());
}

TEST_F(FairQueuesTest, SE074_RetryAfterGrowsWithWhatWaits) {
  make({.seats = 1, .queue_length = 50});
  EXPECT_EQ(queues_->retry_after(Level::kTenant), 1U);
  auto slow = ask(tenant(1));
  for (int i = 0; i < 60; ++i) {  // the mean gets near to 10 s
    now_ += seconds(10);
    leave(slow);
    slow = ask(tenant(1));
  }
  EXPECT_GE(queues_->retry_after(Level::kTenant), 7U);
  EXPECT_LE(queues_->retry_after(Level::kTenant), 13U);
  std::vector<std::shared_ptr<Ticket>> waiting;
  for (std::uint64_t i = 0; i < 40; ++i) {
    waiting.push_back(ask(tenant(i + 2)));
  }
  EXPECT_EQ(queues_->retry_after(Level::kTenant), 30U);
}

TEST_F(FairQueuesTest, WhenTheQueuesGoFirst_TicketsAreNowhere) {
  make({.seats = 1});
  const auto running = ask(tenant(1)), waiting = ask(tenant(2));
  queues_.reset();
  EXPECT_FALSE(running->runs());
  EXPECT_FALSE(waiting->waits());
}

/// Everything that may happen, in any order.
TEST_F(FairQueuesTest, SE072_AtRandom_NoSeatIsLostAndNobodyIsForgotten) {
  const std::uint64_t seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  const auto pick = [&](std::size_t below) { return static_cast<std::size_t>(random() % below); };
  for (int round = 0; round < 30; ++round) {
    const FairLimits limits{.seats = 1 + pick(40),
                            .queues = 1 + pick(20),
                            .hand = 1 + pick(4),
                            .queue_length = 1 + pick(10),
                            .wait = milliseconds(1 + static_cast<long>(pick(2'000)))};
    make(limits);
    struct Held {
      std::unique_ptr<Ticket> ticket;
      Flow flow;
      std::size_t width;
      std::uint64_t order;
    };
    std::list<Held> held;
    std::uint64_t order = 0, entered = 0, full = 0, ran = 0, late = 0, went = 0;
    const auto find = [&](Ticket* ticket) {
      return std::find_if(held.begin(), held.end(),
                          [&](const Held& one) { return one.ticket.get() == ticket; });
    };
    for (int step = 0; step < 600; ++step) {
      now_ += milliseconds(static_cast<long>(pick(20)));
      if (pick(3) != 0) {
        Held one{std::make_unique<Ticket>(),
                 {static_cast<Level>(pick(kLevels)), pick(6), pick(3)},
                 pick(10) == 0 ? 1 + pick(8) : 1,
                 ++order};
        ++entered;
        const Entry entry = queues_->enter(*one.ticket, one.flow, {.width = one.width}, now_);
        ASSERT_EQ(entry == Entry::kRuns, one.ticket->runs());
        ASSERT_EQ(entry == Entry::kWaits, one.ticket->waits());
        full += entry == Entry::kFull ? 1U : 0U;
        ran += entry == Entry::kRuns ? 1U : 0U;
        one.width = std::min(one.width, limits.seats);
        if (entry != Entry::kFull) {
          held.push_back(std::move(one));
        }
      } else if (!held.empty()) {
        auto it = std::next(held.begin(), static_cast<std::ptrdiff_t>(pick(held.size())));
        went += it->ticket->waits() ? 1U : 0U;
        if (pick(2) == 0) {
          queues_->leave(*it->ticket, now_);
        }
        held.erase(it);
      }
      while (Ticket* ticket = queues_->expired(now_)) {
        const auto it = find(ticket);
        ASSERT_NE(it, held.end());
        ++late;
        held.erase(it);
      }
      while (Ticket* ticket = next()) {
        const auto it = find(ticket);
        ASSERT_NE(it, held.end());
        ASSERT_TRUE(ticket->runs());
        ++ran;
        for (const Held& other : held) {
          ASSERT_FALSE(other.ticket->waits() && other.order < it->order &&
                       other.flow.level == it->flow.level && other.flow.payer == it->flow.payer &&
                       other.flow.cluster == it->flow.cluster && limits.hand == 1)
              << "one overtook another of its own flow";
        }
      }
      std::size_t seats = 0, waiting = 0;
      bool narrow = false, wide = false;
      for (const Held& one : held) {
        seats += one.ticket->runs() ? one.width : 0U;
        waiting += one.ticket->waits() ? 1U : 0U;
        narrow = narrow || (one.ticket->waits() && one.width == 1);
        wide = wide || (one.ticket->waits() && one.width > 1);
      }
      ASSERT_EQ(seats, queues_->seats_taken());
      ASSERT_LE(seats, limits.seats);
      std::size_t told = 0;
      for (std::size_t level = 0; level < kLevels; ++level) {
        told += queues_->totals(static_cast<Level>(level)).waiting;
      }
      ASSERT_EQ(told, waiting);
      ASSERT_LE(waiting, kLevels * limits.queues * limits.queue_length + limits.seats);
      ASSERT_EQ(queues_->next_deadline().has_value(), waiting > 0);
      const std::size_t spared = limits.seats * limits.spared / 100;
      ASSERT_FALSE(narrow && !wide && seats + spared < limits.seats) << "a seat is idle";
    }
    std::uint64_t counted_full = 0, counted_late = 0, counted_ran = 0;
    for (std::size_t level = 0; level < kLevels; ++level) {
      const auto stats = queues_->totals(static_cast<Level>(level));
      counted_full += stats.full;
      counted_late += stats.late;
      counted_ran += stats.served;
    }
    EXPECT_EQ(counted_full, full);
    EXPECT_EQ(counted_late, late);
    EXPECT_EQ(counted_ran, ran);
    const auto left = static_cast<std::uint64_t>(std::count_if(
        held.begin(), held.end(), [](const Held& one) { return one.ticket->waits(); }));
    EXPECT_EQ(entered, full + ran + late + went + left) << "each has one end";
    held.clear();
    EXPECT_EQ(queues_->seats_taken(), 0U);
  }
}

}  // namespace
}  // namespace kintsugi::serving
