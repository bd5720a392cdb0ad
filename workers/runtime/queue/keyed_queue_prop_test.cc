#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "workers/runtime/queue/keyed_queue.h"

namespace kintsugi::workers {
namespace {

using Item = KeyedQueue::Item;

/// The queue as the rows tell it, with sorted containers. Without errors, whose delays are random.
class Model {
 public:
  void add(int key, int level) {
    State& state = keys_[key];
    if (state.running && state.dirty) {
      state.level = std::max(state.level, level);
    } else if (state.running) {
      state.level = state.due != 0 ? std::max(state.level, level) : level;
      state.due = 0;
      state.dirty = true;
    } else if (state.due != 0) {
      state.due = 0;
      state.level = std::max(state.level, level);
      enlist(key);
    } else if (state.place == 0) {
      state.level = level;
      enlist(key);
    } else if (level > state.level) {
      ready_[state.level].erase(state.place);
      state.level = level;
      enlist(key);
    }
  }
  void add_after(int key, int level, std::uint64_t due) {
    State& state = keys_[key];
    if (state.place != 0 || state.dirty) {
      return;
    }
    state.level = state.due == 0 ? level : std::max(state.level, level);
    wait(state, due);
  }
  /// Fires what is due; in one tick in any order, so only the level is told.
  void advance(std::uint64_t tick) {
    std::multimap<std::uint64_t, int> due;
    for (auto& [key, state] : keys_) {
      if (state.due != 0 && state.due <= tick) {
        due.emplace(state.due, key);
      }
    }
    for (const auto& [at, key] : due) {
      State& state = keys_[key];
      state.due = 0;
      if (state.running) {
        state.dirty = true;
      } else {
        enlist(key);
      }
    }
  }
  [[nodiscard]] bool ready() const {
    return !ready_[0].empty() || !ready_[1].empty() || !ready_[2].empty();
  }
  /// The level that the next pop is to have; -1: none.
  [[nodiscard]] int next_level() const {
    for (int i = 0; i < 3; ++i) {
      const int level = (pops_ + 1) % 10 == 0 ? i : 2 - i;
      if (!ready_[level].empty()) {
        return level;
      }
    }
    return -1;
  }
  [[nodiscard]] bool is_ready(int key, int level) {
    const State& state = keys_[key];
    return state.place != 0 && state.level == level;
  }
  [[nodiscard]] bool is_running(int key) { return keys_[key].running; }
  void popped(int key) {
    State& state = keys_[key];
    ready_[state.level].erase(state.place);
    state.place = 0;
    state.running = true;
    ++pops_;
  }
  void done(int key, std::uint64_t due, int level) {  // 0: no time asked for
    State& state = keys_[key];
    state.running = false;
    if (state.dirty) {
      state.dirty = false;
      enlist(key);
    } else if (due != 0) {
      state.level = state.due == 0 ? level : std::max(state.level, level);
      wait(state, due);
    }
  }
  [[nodiscard]] std::size_t known() const {
    std::size_t known = 0;
    for (const auto& [key, state] : keys_) {
      known += state.running || state.due != 0 || state.place != 0 ? 1U : 0U;
    }
    return known;
  }

 private:
  struct State {
    int level = 0;
    bool running = false;
    bool dirty = false;
    std::uint64_t due = 0;
    int place = 0;
  };
  static void wait(State& state, std::uint64_t due) {
    state.due = state.due == 0 ? due : std::min(state.due, due);
  }
  void enlist(int key) {
    keys_[key].place = ++order_;
    ready_[keys_[key].level].emplace(order_, key);
  }

  std::map<int, State> keys_;
  std::map<int, int> ready_[3];
  int order_ = 0;
  int pops_ = 0;
};

constexpr Priority kLevels[] = {Priority::kInitial, Priority::kRetry, Priority::kLive};

int rounds() { return std::getenv("KINTSUGI_FULL_LOAD") != nullptr ? 2'000 : 40; }

TEST(KeyedQueue, RT40_RT41_RT44_RandomHistoriesGoAsInTheModel) {
  for (int seed = 1; seed <= rounds(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    SeededRandom random(static_cast<std::uint64_t>(seed));
    TimePoint now{seconds(50)};
    KeyedQueue queue({}, random.next(), now);
    Model model;
    std::vector<Item> running;
    const std::uint64_t keys = 1 + random.next() % 30;
    const auto due_in = [&](Duration delay) {
      return TimerWheel::tick_of(now + delay - Duration(1)) + 1;
    };
    for (int i = 0; i < 1'500; ++i) {
      const int number = static_cast<int>(random.next() % keys);
      const std::string name = "k" + std::to_string(number);
      const QueueKey key{"c", name, name};
      const int level = static_cast<int>(random.next() % 3);
      const Duration delay = milliseconds(1 + static_cast<int>(random.next() % 3'000));
      switch (random.next() % 6) {
        case 0:
          ASSERT_TRUE(queue.add(key, kLevels[level], now));
          model.add(number, level);
          break;
        case 1:
          ASSERT_TRUE(queue.add_after(key, delay, kLevels[level], now));
          model.add_after(number, level, due_in(delay));
          break;
        case 2:
          now += milliseconds(static_cast<int>(random.next() % 300));
          ASSERT_EQ(queue.advance(now), (model.advance(TimerWheel::tick_of(now)), model.ready()));
          break;
        case 3:
        case 4: {
          const std::optional<Item> item = queue.pop(now);
          const int wanted = model.next_level();
          ASSERT_EQ(item.has_value(), wanted >= 0);
          if (item) {
            const int got = std::stoi(std::string(item->key.name.substr(1)));
            ASSERT_FALSE(model.is_running(got));
            ASSERT_TRUE(model.is_ready(got, wanted));
            ASSERT_EQ(item->priority, kLevels[wanted]);
            model.popped(got);
            running.push_back(*item);
          }
          break;
        }
        default:
          if (!running.empty()) {
            const std::size_t at = random.next() % running.size();
            const Item item = running[at];
            running.erase(running.begin() + static_cast<std::ptrdiff_t>(at));
            const int ended = std::stoi(std::string(item.key.name.substr(1)));
            const bool again = random.next() % 3 == 0;
            ASSERT_TRUE(
                queue.done(item, again ? Outcome::requeue_after(delay) : Outcome::done(), now));
            model.done(ended, again ? due_in(delay) : 0, 1);
          }
      }
      ASSERT_EQ(queue.size(), model.known());
      ASSERT_EQ(queue.counts().running, running.size());
    }
  }
}

TEST(KeyedQueue, RT40_RT42_RT43_WhateverFails_NoKeyIsLostAndNoneRunsTwice) {
  for (int seed = 1; seed <= rounds(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    SeededRandom random(static_cast<std::uint64_t>(seed) + 1'000'000);
    TimePoint now{};
    KeyedQueue queue({.retry_burst = 3}, random.next(), now);
    std::map<std::string, int> state;    // what each object is like
    std::map<std::string, int> applied;  // what a good reconcile has seen
    std::map<std::string, std::pair<Item, int>> running;
    const auto end_one = [&](bool may_fail) {
      auto at = running.begin();
      std::advance(at, static_cast<std::ptrdiff_t>(random.next() % running.size()));
      const bool fails = may_fail && random.next() % 2 == 0;
      if (!fails) {
        applied[at->first] = at->second.second;
      }
      EXPECT_TRUE(queue.done(at->second.first, fails ? Outcome::error() : Outcome::done(), now));
      running.erase(at);
    };
    const auto pop_one = [&] {
      const std::optional<Item> item = queue.pop(now);
      if (item) {
        const std::string name(item->key.name);
        EXPECT_TRUE(running.emplace(name, std::pair(*item, state[name])).second) << name;
      }
      return item.has_value();
    };
    for (int i = 0; i < 1'000; ++i) {
      const std::string name = "k" + std::to_string(random.next() % 20);
      switch (random.next() % 4) {
        case 0:
          ++state[name];
          ASSERT_TRUE(queue.add({"c", "", name}, kLevels[random.next() % 3], now));
          break;
        case 1:
          pop_one();
          break;
        case 2:
          now += milliseconds(static_cast<int>(random.next() % 40));
          break;
        default:
          if (!running.empty()) {
            end_one(true);
          }
      }
    }
    for (int turns = 0; queue.size() > 0 && turns < 100'000; ++turns) {
      while (pop_one()) {
      }
      if (!running.empty()) {
        end_one(false);
      } else if (const std::optional<TimePoint> next = queue.next_timer()) {
        ASSERT_GT(*next, now);
        now = *next;
      }
    }
    ASSERT_EQ(queue.size(), 0U);
    ASSERT_EQ(applied, state);
    ASSERT_EQ(queue.counts().delayed + queue.counts().throttled, 0U);
  }
}

}  // namespace
}  // namespace kintsugi::workers
