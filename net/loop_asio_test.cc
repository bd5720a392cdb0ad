// What runs on a loop's Asio context: coroutines, sockets, resolver and timers of Asio beside what
// is the loop's own.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <stdexcept>
#include <string>
#include <thread>

#include "base/guard.h"
#include "net/loop.h"
#include "net/task.h"
#include "net/testing/support.h"

namespace kintsugi::net {
namespace {

namespace asio = boost::asio;
using testing::run_until;

struct Pair {
  Pair() { EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds.data()), 0); }
  std::array<int, 2> fds{};  // owned by who gets them
};

asio::awaitable<void> echo(asio::posix::stream_descriptor descriptor, std::size_t size) {
  std::string bytes(size, '\0');
  const auto whole = asio::buffer(bytes);
  co_await asio::async_read(descriptor, whole, asio::use_awaitable);
  co_await asio::async_write(descriptor, whole, asio::use_awaitable);
}

asio::awaitable<void> ask(asio::posix::stream_descriptor descriptor, std::string text,
                          std::string& answer) {
  const auto given = asio::buffer(text);
  co_await asio::async_write(descriptor, given, asio::use_awaitable);
  answer.resize(text.size());
  const auto taken = asio::buffer(answer);
  co_await asio::async_read(descriptor, taken, asio::use_awaitable);
}

TEST(LoopAsio, WhenCoroutinesOfAsioTalkOverSockets_TheyRunOnTheLoop) {
  Loop loop("test");
  const Pair pair;
  const std::string text(500'000, 'x');  // more than a socket takes at once
  std::string answer;
  asio::posix::stream_descriptor one(loop.context(), pair.fds[0]), two(loop.context(), pair.fds[1]);
  asio::co_spawn(loop.context(), echo(std::move(one), text.size()), asio::detached);
  asio::co_spawn(loop.context(), ask(std::move(two), text, answer), asio::detached);
  EXPECT_TRUE(run_until(loop, [&] { return answer == text; }));
}

asio::awaitable<void> resolve(asio::ip::tcp::resolver& resolver, std::size_t& found) {
  const auto results = co_await resolver.async_resolve("127.0.0.1", "80", asio::use_awaitable);
  found = results.size();
}

TEST(LoopAsio, WhenANameIsResolved_TheAnswerComesOnTheLoop) {
  Loop loop("test");
  asio::ip::tcp::resolver resolver(loop.context());
  std::size_t found = 0;
  asio::co_spawn(loop.context(), resolve(resolver, found), asio::detached);
  EXPECT_TRUE(run_until(loop, [&] { return found > 0; }));
}

TEST(LoopAsio, WhenAHandlerRunsAfterALongSleep_TheLoopKnowsTheTime) {
  Loop loop("test");
  asio::steady_timer timer(loop.context(), milliseconds(50));
  Duration late = seconds(1);
  TimePoint fired{};
  timer.async_wait([&](const boost::system::error_code& error) {
    EXPECT_FALSE(error);
    late = Clock::now() - loop.now();
    const TimePoint armed = Clock::now();
    loop.after(milliseconds(30), [&, armed] {
      fired = Clock::now();
      EXPECT_GE(fired - armed, milliseconds(30));
      loop.stop();
    });
  });
  loop.run();
  EXPECT_LT(late, milliseconds(30));
  EXPECT_NE(fired, TimePoint{});
}

TEST(LoopAsio, WhenTheLoopIsBusy_HandlersOfAsioHaveTheirTurnNevertheless) {
  Loop loop("test");
  bool ran = false;
  std::uint64_t turns = 0;
  std::function<void()> again = [&] {
    if (++turns == 1) {
      asio::post(loop.context(), [&] { ran = true; });
    }
    if (ran || turns > 10'000) {
      loop.stop();
    } else {
      loop.post(again);
    }
  };
  loop.post(again);
  loop.run();
  EXPECT_TRUE(ran);
  EXPECT_LT(turns, 50U);
}

TEST(LoopAsio, WhenAHandlerThrows_ItIsCountedAndTheLoopGoesOn) {
  Loop loop("test");
  const std::uint64_t before = caught_exceptions();
  asio::post(loop.context(), [] { throw std::runtime_error("no"); });
  bool after = false;
  asio::post(loop.context(), [&] { after = true; });
  EXPECT_TRUE(run_until(loop, [&] { return after; }));
  EXPECT_EQ(caught_exceptions(), before + 1);
}

TEST(LoopAsio, WhenOtherThreadsPostToTheContext_TheLoopWakesUp) {
  Loop loop("test");
  std::thread other([&] {
    for (int i = 0; i < 100; ++i) {
      asio::post(loop.context(), [&, i] {
        EXPECT_TRUE(loop.in_loop_thread());
        if (i == 99) {
          loop.stop();
        }
      });
      std::this_thread::yield();
    }
  });
  loop.run();
  other.join();
}

Task<> wait_for_asio(Loop& loop, bool& done) {
  asio::steady_timer timer(loop.context(), milliseconds(5));
  Answer<boost::system::error_code> answer;
  timer.async_wait(answer.callback());
  const boost::system::error_code error = co_await answer;
  done = !error;
}

TEST(LoopAsio, WhenATaskAwaitsAsio_ItGoesOnOrEndsWithItsJob) {
  Loop loop("test");
  bool done = false, never = false;
  Job given_up(wait_for_asio(loop, never));
  const Job job(wait_for_asio(loop, done));
  given_up.end();
  EXPECT_TRUE(run_until(loop, [&] { return done; }));
  EXPECT_FALSE(never);
}

asio::awaitable<void> wait_long(Loop& loop, int& armed) {
  Timer own(loop);
  own.start(seconds(60), [] {});
  ++armed;
  asio::steady_timer timer(loop.context(), seconds(60));
  co_await timer.async_wait(asio::use_awaitable);
}

TEST(LoopAsio, WhenTheLoopDiesUnderACoroutineOfAsio_ItsFrameMayStillUseTheLoop) {
  int armed = 0;
  {
    Loop loop("test");
    asio::co_spawn(loop.context(), wait_long(loop, armed), asio::detached);
    EXPECT_TRUE(run_until(loop, [&] { return armed == 1; }));
  }
  EXPECT_EQ(armed, 1);
}

TEST(LoopAsio, WhenAHandlerIsSlow_PERF104_TheTurnIsCountedAsIts) {
  Loop loop("test");
  asio::post(loop.context(), [&] {
    const TimePoint begin = loop.now();
    while (Clock::now() - begin < milliseconds(40)) {
    }
  });
  const auto handler = static_cast<std::size_t>(Loop::Part::kHandler);
  EXPECT_TRUE(run_until(loop, [&] { return loop.stats().slow_turns_by[handler] == 1; }));
}

}  // namespace
}  // namespace kintsugi::net
