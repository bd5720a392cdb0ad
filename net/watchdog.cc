#include "net/watchdog.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/last_resort.h"
#include "base/log.h"
#include "net/internal/watched_loop.h"
#include "net/loop.h"
#include "net/service_notices.h"

namespace kintsugi::net {
namespace {

constexpr int kStackSignal = SIGURG;  // ignored where nobody asks for it
constexpr int kMostFrames = 32;       // as many as a line shows
constexpr int kStackWait = 200;       // times 5 ms for a thread to show its stack

struct RunningLoops {
  std::mutex mutex;
  std::vector<WatchedLoop*> loops;
};

RunningLoops& running_loops() {
  static RunningLoops all;
  return all;
}

/// What the signal handler works on: one question at a time.
struct StackQuestion {
  std::atomic<pid_t> thread{0};  // 0: nobody asks
  std::array<void*, kMostFrames> frames{};
  std::atomic<int> depth{0};
};
StackQuestion question;

void show_stack(int /*signal*/) {
  const int error = errno;
  if (question.thread.load() == ::gettid()) {
    question.depth.store(::backtrace(question.frames.data(), kMostFrames));
    question.thread.store(0);
  }
  errno = error;
}

/// "kintsugi+0x12ab": what addr2line takes.
std::string name_of(void* address) {
  Dl_info about{};
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  if (::dladdr(address, &about) == 0 || about.dli_fname == nullptr) {
    about.dli_fname = "?";
    about.dli_fbase = nullptr;
  }
  std::string_view file = about.dli_fname;
  file.remove_prefix(file.rfind('/') + 1);  // none: the whole
  std::array<char, 24> offset{};
  std::snprintf(offset.data(), offset.size(), "+0x%zx",
                static_cast<std::size_t>(at - reinterpret_cast<std::uintptr_t>(about.dli_fbase)));
  return std::string(file) + offset.data();
}

/// Of another thread of this process; "": it does not show it.
std::string stack_of(pid_t thread) {
  question.depth = 0;
  question.thread = thread;
  if (::tgkill(::getpid(), thread, kStackSignal) != 0) {
    question.thread = 0;
    return {};
  }
  for (int i = 0; i < kStackWait && question.thread.load() != 0; ++i) {
    ::poll(nullptr, 0, 5);
  }
  if (question.thread.exchange(0) != 0) {
    return {};
  }
  std::string out;
  const int depth = std::min(question.depth.load(), kMostFrames);
  for (int i = 0; i < depth; ++i) {
    out.append(out.empty() ? "" : " ").append(name_of(question.frames[static_cast<unsigned>(i)]));
  }
  return out;
}

}  // namespace

WatchdogParams watchdog_of_service() {
  WatchdogParams params;
  if (const Duration every = service_notices().alive_every(); every > Duration{0}) {
    params.alive = [] { service_notices().alive(); };
    params.alive_every = every;
  }
  return params;
}

WatchedLoop::WatchedLoop(Loop& one)
    : loop(one), thread(::gettid()), answered(std::make_shared<std::atomic<bool>>(false)) {
  const std::scoped_lock lock(running_loops().mutex);
  running_loops().loops.push_back(this);
}

WatchedLoop::~WatchedLoop() {
  const std::scoped_lock lock(running_loops().mutex);
  std::erase(running_loops().loops, this);
}

void WatchedLoop::for_each(const std::function<void(WatchedLoop&)>& visit) {
  const std::scoped_lock lock(running_loops().mutex);
  for (WatchedLoop* const one : running_loops().loops) {
    visit(*one);
  }
}

class Watchdog::Impl {
 public:
  explicit Impl(WatchdogParams params)
      : params_(params), end_(::eventfd(0, EFD_CLOEXEC)), thread_([this] { run(); }) {}
  ~Impl() {
    const std::uint64_t one = 1;
    (void)!::write(end_, &one, sizeof(one));
    thread_.join();
    ::close(end_);
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

 private:
  void run() {
    ::pthread_setname_np(::pthread_self(), "watchdog");
    pollfd wait{end_, POLLIN, 0};
    const Duration pause =
        params_.alive != nullptr ? std::min(params_.every, params_.alive_every) : params_.every;
    TimePoint asked = Clock::now(), told = asked;
    while (::poll(&wait, 1, static_cast<int>(pause / milliseconds(1))) <= 0) {
      const TimePoint now = Clock::now();
      if (pause == params_.every || now - asked >= params_.every) {
        asked = now;
        are_well_ = true;
        WatchedLoop::for_each([this](WatchedLoop& one) {
          look_at(one);
          are_well_ = are_well_ && one.silent < params_.tells_after;
        });
      }
      if (params_.alive != nullptr && are_well_ && now - told >= params_.alive_every) {
        told = now;
        params_.alive();
      }
    }
  }

  void look_at(WatchedLoop& one) const {
    if (one.asked && !one.answered->load()) {
      be_silent(one);
      return;
    }
    if (std::exchange(one.told, false)) {
      log_warn("a loop takes turns again", {{"loop", one.loop.name()}});
    }
    one.silent = 0;
    one.asked = true;
    one.answered->store(false);
    one.loop.post([answered = one.answered] { answered->store(true); });
  }

  void be_silent(WatchedLoop& one) const {
    ++one.silent;
    if (one.silent == params_.tells_after) {
      one.told = true;
      note_silent_loop();
      log_error("a loop is silent", {{"loop", one.loop.name()},
                                     {"questions", std::uint64_t{one.silent}},
                                     {"stack", stack_of(one.thread)}});
    }
    if (one.silent >= params_.aborts_after) {
      log_error("a loop stays silent: the process ends", {{"loop", one.loop.name()},
                                                          {"questions", std::uint64_t{one.silent}},
                                                          {"stack", stack_of(one.thread)}});
      std::abort();
    }
  }

  const WatchdogParams params_;
  const int end_;
  bool are_well_ = true;
  std::thread thread_;
};

Watchdog::Watchdog(WatchdogParams params) {
  // The first call loads what the handler then needs no memory for.
  std::array<void*, 1> frame{};
  ::backtrace(frame.data(), 1);
  struct sigaction action {};
  action.sa_handler = show_stack;
  action.sa_flags = SA_RESTART;
  ::sigemptyset(&action.sa_mask);
  ::sigaction(kStackSignal, &action, nullptr);
  impl_ = std::make_unique<Impl>(params);
}

Watchdog::~Watchdog() = default;

}  // namespace kintsugi::net
