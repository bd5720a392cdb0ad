#include "serving/refusals.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <set>
#include <vector>

namespace kintsugi::serving {
namespace {

Error busy() { return Error(Errc::kTooManyRequests, "later"); }

class RefusalsTest : public ::testing::Test {
 protected:
  void run_until(const std::function<bool()>& done) {
    const std::function<void()> look = [&] {
      if (done()) {
        loop_.stop();
      } else {
        loop_.after(milliseconds(1), look);
      }
    };
    loop_.post(look);
    loop_.run();
  }
  net::Loop loop_{"test"};
  Refusals refusals_{loop_};
};

TEST_F(RefusalsTest, SE005_WhoIsRefusedAgainAndAgainHearsItLaterEachAtAnotherTime) {
  std::vector<std::unique_ptr<Refusals::Later>> later;
  std::size_t told = 0, at_once = 0, expected = 0;
  std::set<TimePoint> times;
  loop_.post([&] {
    for (int i = 0; i < 1'000; ++i) {
      later.push_back(refusals_.tell(busy(), [&](const Error& error) {
        ++told;
        times.insert(loop_.now());
        EXPECT_EQ(error.code(), Errc::kTooManyRequests);
      }));
      expected += later.back() != nullptr ? 1U : 0U;
    }
    at_once = told;
  });
  run_until([&] { return told == 1'000; });
  EXPECT_EQ(at_once, 100U);
  EXPECT_EQ(expected, 900U);
  EXPECT_GT(times.size(), 5U) << "not all of them in one turn";
  EXPECT_EQ(refusals_.waiting(), 900U) << "until they are let go";
  later.clear();
  EXPECT_EQ(refusals_.waiting(), 0U);
}

TEST_F(RefusalsTest, WhoGoesMeanwhileIsNotToldAndOnlySoManyWait) {
  std::vector<std::unique_ptr<Refusals::Later>> later;
  std::size_t told = 0;
  bool over = false;
  loop_.post([&] {
    for (int i = 0; i < 6'000; ++i) {
      later.push_back(refusals_.tell(busy(), [&](const Error&) { ++told; }));
    }
    EXPECT_EQ(told, 6'000U - 4'096U);
    EXPECT_EQ(refusals_.waiting(), 4'096U);
    later.clear();
    EXPECT_EQ(refusals_.waiting(), 0U);
    loop_.after(milliseconds(800), [&] { over = true; });
  });
  run_until([&] { return over; });
  EXPECT_EQ(told, 6'000U - 4'096U);
}

TEST_F(RefusalsTest, WhatIsToldMayLetItGo) {
  std::unique_ptr<Refusals::Later> one;
  bool told = false;
  loop_.post([&] {
    for (int i = 0; i < 100; ++i) {
      EXPECT_EQ(refusals_.tell(busy(), [](const Error&) {}), nullptr);
    }
    one = refusals_.tell(busy(), [&](const Error&) {
      one.reset();
      told = true;
    });
    EXPECT_NE(one, nullptr);
  });
  run_until([&] { return told; });
  EXPECT_EQ(refusals_.waiting(), 0U);
}

}  // namespace
}  // namespace kintsugi::serving
