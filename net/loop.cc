#include "net/loop.h"

#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <boost/asio/basic_waitable_timer.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "base/guard.h"
#include "base/log.h"
#include "net/internal/io_scratch.h"
#include "net/internal/timer_wheel.h"
#include "net/internal/watched_loop.h"

namespace kintsugi::net {

namespace asio = boost::asio;

namespace {

constexpr int kMaxEvents = 256;
constexpr unsigned kBusyTurns = 8;  // of which one lets Asio look
constexpr auto kSlowTurn = milliseconds(10);
constexpr auto kTick = milliseconds(1);

[[noreturn]] void die(std::string_view what) {
  log_error("loop cannot run", {{"what", what}, {"errno", errno}});
  std::abort();
}

std::uint64_t tag(int fd, std::uint32_t generation) {
  return (std::uint64_t{generation} << 32) | static_cast<std::uint32_t>(fd);
}

}  // namespace

/// Asio arms what is over already as an absolute time, which is never where another clock has been
/// put before the process (libfaketime).
struct RelativeWait : asio::wait_traits<Clock> {
  static Duration to_wait_duration(const Duration& wait) {
    return std::max(wait, Duration(std::chrono::microseconds(1)));
  }
};

struct Loop::Impl {
  struct Slot {
    FdHandler* handler = nullptr;
    std::uint32_t generation = 0;
    bool again = false;  // on the list for the next turn
  };

  std::atomic<std::thread::id> thread{std::this_thread::get_id()};
  std::atomic<bool> stopping{false};
  bool running = false;

  std::vector<Slot> slots;           // by descriptor
  std::vector<std::uint64_t> again;  // tags of descriptors with more to read
  std::vector<std::uint64_t> again_now;

  std::mutex post_mutex;
  std::vector<std::function<void()>> posts;  // guarded by post_mutex
  std::atomic<bool> have_posts{false};
  std::vector<std::function<void()>> posts_now;

  std::vector<std::function<void()>> deferred, deferred_now;
  std::vector<Flushable*> dirty;

  TimerWheel wheel;
  TimePoint start = Clock::now();
  TimePoint now = start;
  bool asleep = false;  // `now` is of before the wait
  // PERF-104: the clock is read where one part of a turn ends and another one has something to do.
  std::optional<Part> part;
  TimePoint part_began;
  std::array<Duration, kParts> spent{};
  IoScratch scratch;
  Stats stats;

  // What is Asio's comes last, so that handlers which never ran die before what they use. It locks
  // where other threads come in (posts, signals), not for descriptors and timers.
  asio::io_context context{BOOST_ASIO_CONCURRENCY_HINT_UNSAFE_IO};
  asio::executor_work_guard<asio::io_context::executor_type> work{context.get_executor()};
  // The watched descriptors: registered once, edge-triggered, in a set of their own that is one
  // descriptor to Asio (docs/decisions/0001-event-loop.md). Nothing waits for that one by
  // async_wait: arming it again in every turn took three times the instructions and a system call
  // more. Asio returns from run_one() for the event of a descriptor without a waiter too
  // (loop_test.cc).
  asio::posix::stream_descriptor set{context};
  int epoll = -1;     // of `set`
  bool more = false;  // than one turn took from it
  unsigned busy = 0;  // turns since Asio looked
  asio::basic_waitable_timer<Clock, RelativeWait> deadline{context};
  std::uint64_t deadline_tick = TimerWheel::kNever;  // for which it is armed

  void dispatch(std::uint64_t event_tag, std::uint32_t events) {
    const auto fd = static_cast<std::uint32_t>(event_tag);
    if (fd >= slots.size()) {
      return;
    }
    const Slot slot = slots[fd];
    if (slot.handler == nullptr || slot.generation != static_cast<std::uint32_t>(event_tag >> 32)) {
      return;
    }
    if ((events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) {
      slot.handler->on_hangup();
    } else {
      slot.handler->on_ready((events & EPOLLIN) != 0, (events & EPOLLOUT) != 0);
    }
  }

  [[nodiscard]] std::uint64_t tick_of(TimePoint time) const {
    return time <= start ? 0 : static_cast<std::uint64_t>((time - start) / kTick);
  }

  /// Time of this turn; also for handlers that Asio runs before the turn knows that it woke up.
  TimePoint time() noexcept {
    if (asleep) {
      asleep = false;
      now = Clock::now();
    }
    return now;
  }

  [[nodiscard]] bool must_not_sleep() const noexcept {
    return more || !again.empty() || !dirty.empty() || !deferred.empty() ||
           have_posts.load(std::memory_order_acquire);
  }

  void arm_deadline() {
    const std::uint64_t due = wheel.not_before();
    if (due >= deadline_tick) {
      return;  // at worst a turn for timers that were cancelled since
    }
    deadline_tick = due;
    deadline.expires_at(start + due * kTick);
    deadline.async_wait([this](const boost::system::error_code& error) {
      if (!error) {
        deadline_tick = TimerWheel::kNever;
      }
    });
  }

  /// Lets Asio run one of its handlers, and wait for one or for a descriptor when nothing else is
  /// to be done.
  /// @returns a handler has run since now()
  bool run_asio() {
    bool ran = false;
    if (!must_not_sleep()) {
      busy = 0;
      arm_deadline();
      asleep = true;
      guarded("handler", [this] { context.run_one(); });
      ran = !asleep;
    } else if (++busy == kBusyTurns) {
      busy = 0;
      guarded("handler", [this, &ran] { ran = context.poll_one() != 0; });
    }
    return ran;
  }

  void begin(Part next) noexcept {
    if (part) {
      end_part(Clock::now());
    }
    part = next;
  }

  void end_part(TimePoint at) noexcept {
    spent[static_cast<std::size_t>(*part)] += at - part_began;
    part_began = at;
  }

  void end_turn() noexcept {
    const TimePoint end = Clock::now();
    if (!part) {
      part = Part::kHandler;
    }
    end_part(end);
    const Duration took = end - now;
    const auto us = static_cast<std::uint64_t>(took / std::chrono::microseconds(1));
    ++stats.turns_below[std::min<std::size_t>(static_cast<std::size_t>(std::bit_width(us)),
                                              Stats::kTurnClasses - 1)];
    const bool longest = us > stats.longest_turn_us;
    if (took > kSlowTurn || longest) {
      const auto largest =
          static_cast<std::size_t>(std::max_element(spent.begin(), spent.end()) - spent.begin());
      if (took > kSlowTurn) {
        ++stats.slow_turns;
        ++stats.slow_turns_by[largest];
      }
      if (longest) {
        stats.longest_turn_us = us;
        stats.longest_part = static_cast<Part>(largest);
      }
    }
    spent.fill({});
    now = end;
  }

  int collect(std::array<epoll_event, kMaxEvents>& events) {
    const int count = ::epoll_wait(epoll, events.data(), kMaxEvents, 0);
    if (count < 0 && errno != EINTR) {
      die("epoll_wait");
    }
    more = count == kMaxEvents;
    return count;
  }

  void wake_up() {
    asio::post(context, [] {});
  }

  void run_posts() {
    if (!have_posts.load(std::memory_order_acquire)) {
      return;
    }
    {
      const std::scoped_lock lock(post_mutex);
      have_posts.store(false, std::memory_order_relaxed);
      posts_now.swap(posts);
    }
    begin(Part::kPosts);
    stats.posts += posts_now.size();
    for (auto& function : posts_now) {
      guarded("posted function", function);
      function = nullptr;
    }
    posts_now.clear();
  }

  // One pass over what is dirty now; what becomes dirty meanwhile moves to the front of the list.
  void flush_pass() {
    const std::size_t count = dirty.size();
    if (count == 0) {
      return;
    }
    scratch.flushing = true;
    for (std::size_t i = 0; i < count; ++i) {
      Flushable* item = dirty[i];
      if (item != nullptr) {
        dirty[i] = nullptr;
        item->dirty_slot_ = Flushable::kClean;
        item->flush();
      }
    }
    scratch.flushing = false;
    dirty.erase(dirty.begin(), dirty.begin() + static_cast<std::ptrdiff_t>(count));
    for (std::size_t i = 0; i < dirty.size(); ++i) {
      if (dirty[i] != nullptr) {
        dirty[i]->dirty_slot_ = static_cast<std::uint32_t>(i);
      }
    }
  }

  void run_deferred() {
    if (!deferred.empty()) {
      begin(Part::kDeferred);
    }
    deferred_now.swap(deferred);
    for (auto& function : deferred_now) {
      guarded("deferred function", function);
      function = nullptr;
    }
    deferred_now.clear();
  }

  void turn() {
    std::array<epoll_event, kMaxEvents> events;
    part.reset();
    if (run_asio()) {
      part = Part::kHandler;
    }
    const int count = collect(events);
    again_now.swap(again);  // what is asked for from here on belongs to the next turn
    part_began = time();    // the end of the last turn, unless this one has slept
    ++stats.turns;
    if (count > 0 || !again_now.empty()) {
      begin(Part::kReading);
    }
    for (int i = 0; i < count; ++i) {
      const epoll_event& event = events[static_cast<std::size_t>(i)];
      dispatch(event.data.u64, event.events);
    }
    for (const std::uint64_t item : again_now) {
      slots[static_cast<std::uint32_t>(item)].again = false;
      dispatch(item, EPOLLIN);
    }
    again_now.clear();
    run_posts();
    const std::uint64_t tick = tick_of(now);
    if (wheel.not_before() <= tick) {
      begin(Part::kTimers);
    }
    wheel.advance(tick);
    if (!dirty.empty()) {
      begin(Part::kWriting);
    }
    flush_pass();
    flush_pass();
    run_deferred();
    end_turn();
  }
};

Loop::Loop(std::string name) : name_(std::move(name)), impl_(std::make_unique<Impl>()) {
  impl_->epoll = ::epoll_create1(EPOLL_CLOEXEC);
  boost::system::error_code error;
  impl_->set.assign(impl_->epoll, error);
  if (impl_->epoll < 0 || error) {
    die("epoll_create1");
  }
}

Loop::~Loop() {
  while (!impl_->deferred.empty()) {
    impl_->run_deferred();
  }
}

void Loop::run() {
  const WatchedLoop watched(*this);
  impl_->thread.store(std::this_thread::get_id(), std::memory_order_relaxed);
  impl_->running = true;
  impl_->now = Clock::now();
  while (!impl_->stopping.load(std::memory_order_acquire)) {
    impl_->turn();
  }
  impl_->stopping.store(false, std::memory_order_relaxed);
  impl_->running = false;
}

void Loop::stop() noexcept {
  impl_->stopping.store(true, std::memory_order_release);
  if (!(in_loop_thread() && impl_->running)) {
    impl_->wake_up();
  }
}

bool Loop::in_loop_thread() const noexcept {
  return impl_->thread.load(std::memory_order_relaxed) == std::this_thread::get_id();
}

void Loop::post(std::function<void()> function) {
  bool first = false;
  {
    const std::scoped_lock lock(impl_->post_mutex);
    first = impl_->posts.empty();
    impl_->posts.push_back(std::move(function));
    impl_->have_posts.store(true, std::memory_order_release);
  }
  // The loop looks at have_posts before it sleeps, so its own posts need no wake-up.
  if (first && !in_loop_thread()) {
    impl_->wake_up();
  }
}

void Loop::defer(std::function<void()> function) { impl_->deferred.push_back(std::move(function)); }

Loop::TimerId Loop::after(Duration delay, std::function<void()> function) {
  if (!impl_->running) {
    impl_->now = Clock::now();
  }
  const auto ticks = std::chrono::ceil<milliseconds>(impl_->time() + delay - impl_->start).count();
  return impl_->wheel.arm(static_cast<std::uint64_t>(std::max<std::int64_t>(ticks, 0)),
                          std::move(function));
}

void Loop::cancel(TimerId id) noexcept { impl_->wheel.cancel(id); }

TimePoint Loop::now() const noexcept { return impl_->running ? impl_->time() : Clock::now(); }

void Loop::watch(int fd, FdHandler& handler) {
  const auto index = static_cast<std::size_t>(fd);
  if (index >= impl_->slots.size()) {
    impl_->slots.resize(index + 64);
  }
  Impl::Slot& slot = impl_->slots[index];
  slot.handler = &handler;
  slot.again = false;
  ++slot.generation;
  epoll_event event{};
  event.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
  event.data.u64 = tag(fd, slot.generation);
  if (::epoll_ctl(impl_->epoll, EPOLL_CTL_ADD, fd, &event) != 0) {
    die("epoll_ctl");
  }
  ++impl_->stats.descriptors;
}

void Loop::forget(int fd) noexcept {
  const auto index = static_cast<std::size_t>(fd);
  if (fd < 0 || index >= impl_->slots.size() || impl_->slots[index].handler == nullptr) {
    return;
  }
  impl_->slots[index].handler = nullptr;
  ++impl_->slots[index].generation;
  ::epoll_ctl(impl_->epoll, EPOLL_CTL_DEL, fd, nullptr);
  --impl_->stats.descriptors;
}

void Loop::read_again(int fd) {
  const auto index = static_cast<std::size_t>(fd);
  if (fd >= 0 && index < impl_->slots.size() && impl_->slots[index].handler != nullptr &&
      !impl_->slots[index].again) {
    impl_->slots[index].again = true;
    impl_->again.push_back(tag(fd, impl_->slots[index].generation));
  }
}

void Loop::mark_dirty(Flushable& item) {
  if (item.dirty_slot_ == Flushable::kClean) {
    item.dirty_slot_ = static_cast<std::uint32_t>(impl_->dirty.size());
    impl_->dirty.push_back(&item);
  }
}

void Loop::unmark_dirty(Flushable& item) noexcept {
  if (item.dirty_slot_ != Flushable::kClean) {
    impl_->dirty[item.dirty_slot_] = nullptr;
    item.dirty_slot_ = Flushable::kClean;
  }
}

asio::io_context& Loop::context() noexcept { return impl_->context; }

IoScratch& Loop::scratch() noexcept { return impl_->scratch; }

Loop::Stats Loop::stats() const noexcept {
  Stats result = impl_->stats;
  result.timers = impl_->wheel.size();
  result.writes = impl_->scratch.writes;
  result.writes_outside_flush = impl_->scratch.writes_outside_flush;
  return result;
}

std::string_view Loop::part_name(Part part) noexcept {
  static constexpr std::array<std::string_view, kParts> kNames = {"handler", "reading", "posts",
                                                                  "timers",  "writing", "deferred"};
  return kNames[static_cast<std::size_t>(part)];
}

}  // namespace kintsugi::net
