#include "serving/internal/seat_window.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <utility>

namespace kintsugi::serving {
namespace {

/// A server that works on one request at a time, and somebody who always has `wanted` for it.
class Server {
 public:
  Server(Duration work, std::size_t wanted, SeatWindow& window)
      : work_(work), wanted_(wanted), window_(window) {}
  /// @param room  beyond so many it says 429
  void run(Duration time, std::size_t room = 1'000'000) {
    const TimePoint end = now_ + time;
    while (now_ < end) {
      while (begun_.size() < std::min(wanted_, window_.seats())) {
        begun_.push_back(now_);
      }
      if (begun_.size() > room) {
        begun_.pop_back();
        now_ += std::chrono::microseconds(20);
        (void)window_.on_answer(milliseconds(1), begun_.size() + 1, true, now_);
        continue;
      }
      now_ += work_;
      const TimePoint since = begun_.front();
      begun_.pop_front();
      longest_ = std::max<Duration>(longest_, now_ - since);
      (void)window_.on_answer(now_ - since, begun_.size() + 1, false, now_);
    }
  }
  void want(std::size_t requests) { wanted_ = requests; }
  void work(Duration work) { work_ = work; }
  Duration longest() { return std::exchange(longest_, Duration{}); }

 private:
  Duration work_;
  std::size_t wanted_;
  SeatWindow& window_;
  TimePoint now_ = TimePoint() + seconds(1'000);
  std::deque<TimePoint> begun_;
  Duration longest_{};
};

TEST(SeatWindow, BeginsWithFewAndGetsAllThatAreOfUse) {
  SeatWindow window(1'000, 10);
  EXPECT_EQ(window.seats(), 40U);
  for (int i = 0; i < 200; ++i) {  // a server that works on everything at once
    const TimePoint now = TimePoint() + seconds(1'000) + milliseconds(10 * i);
    for (int answers = 0; answers < 10; ++answers) {
      (void)window.on_answer(milliseconds(3), window.seats(), false, now);
    }
  }
  EXPECT_EQ(window.seats(), 1'000U);
  EXPECT_EQ(SeatWindow(1'000, 0).seats(), 1'000U);
}

TEST(SeatWindow, WhenLittleIsAsked_NothingChanges) {
  SeatWindow window(1'000, 10);
  Server server(milliseconds(1), 3, window);
  server.run(seconds(30));
  EXPECT_EQ(window.seats(), 40U);
}

TEST(SeatWindow, SE005_WhenOneAsksForEverything_OnlyAFewWaitAtTheServer) {
  SeatWindow window(1'000, 10);
  Server server(std::chrono::microseconds(500), 2, window);
  server.run(seconds(5));
  server.want(1'000);
  server.run(seconds(2));
  (void)server.longest();
  server.run(seconds(5));
  EXPECT_LE(server.longest(), milliseconds(25)) << "500 ms with all seats";
  EXPECT_LE(window.seats(), 50U);
  EXPECT_GE(window.seats(), 10U);
  server.want(2);
  server.run(seconds(30));
  server.want(20);
  server.work(std::chrono::microseconds(20));
  server.run(seconds(5));
  EXPECT_GE(window.seats(), 20U) << "it has got over it";
}

TEST(SeatWindow, WhenTheServerSaysThatItIsFull_ItGetsFewer) {
  SeatWindow window(1'000, 10);
  Server server(std::chrono::microseconds(100), 1'000, window);
  server.run(seconds(3), 40);
  EXPECT_LE(window.seats(), 80U);
}

TEST(SeatWindow, WhenWorkItselfTakesLongerFromNowOn_ItIsBelieved) {
  SeatWindow window(400, 10);
  TimePoint now = TimePoint() + seconds(1'000);
  const auto answers = [&](Duration each, Duration time) {
    for (const TimePoint end = now + time; now < end; now += milliseconds(1)) {
      (void)window.on_answer(each, window.seats(), false, now);
    }
  };
  answers(milliseconds(1), seconds(5));
  EXPECT_EQ(window.seats(), 400U);
  answers(milliseconds(200), seconds(5));
  EXPECT_EQ(window.seats(), 10U);
  answers(milliseconds(200), seconds(40));
  EXPECT_EQ(window.seats(), 400U);
}

TEST(SeatWindow, NeverGoesBelowTheLeast) {
  SeatWindow window(1'000, 32);
  Server server(milliseconds(20), 1'000, window);
  server.run(seconds(60), 1);
  EXPECT_EQ(window.seats(), 32U);
}

}  // namespace
}  // namespace kintsugi::serving
