/// What a turn of net::Loop costs, alone in one process: instructions by
///   valgrind --tool=callgrind build/release/bin/bench_loop --case ready --fds 1 --turns 20000
/// (of two lengths, and their difference), time by the line on stdout.
/// Cases: ready  --fds descriptors become readable for every turn (the loop sleeps in between)
///        again  the same descriptors by read_again(): turns that do not sleep
///        post   one function that another one posted
///        timer  one timer of 1 ms is armed and fires, per turn
///        cancel as `ready`, and a timer of 30 s is armed and cancelled per turn
#include "net/loop.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "bench/link.h"

namespace kintsugi::bench {
namespace {

struct Ring;

struct Bell final : net::FdHandler {
  explicit Bell(Ring& the_ring) : ring(the_ring), fd(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {}
  ~Bell() { ::close(fd); }
  Bell(const Bell&) = delete;
  Bell& operator=(const Bell&) = delete;
  void on_ready(bool readable, bool writable) noexcept override;
  Ring& ring;
  int fd;
};

struct Ring {
  Ring(net::Loop& the_loop, const Flags& flags)
      : loop(the_loop), turns(flags.number("turns", 20'000)), what(flags.text("case", "ready")) {
    for (std::uint64_t i = flags.number("fds", 1); i > 0; --i) {
      bells.push_back(std::make_unique<Bell>(*this));
    }
  }

  void ring_all() {
    for (const auto& bell : bells) {
      const std::uint64_t one = 1;
      if (::write(bell->fd, &one, sizeof one) != sizeof one) {
        die("write");
      }
    }
  }

  void next() {
    if (++done == turns) {
      loop.stop();
    } else if (what == "post") {
      loop.post([this] { next(); });
    } else if (what == "timer") {
      loop.after(milliseconds(1), [this] { next(); });
    } else if (what == "again") {
      for (const auto& bell : bells) {
        loop.read_again(bell->fd);
      }
    } else {
      if (what == "cancel") {
        loop.cancel(timer);
        timer = loop.after(seconds(30), [] {});
      }
      ring_all();
    }
  }

  void heard() {
    if (++calls == bells.size()) {
      calls = 0;
      next();
    }
  }

  net::Loop& loop;
  std::uint64_t turns, done = 0;
  std::string what;
  std::vector<std::unique_ptr<Bell>> bells;
  std::size_t calls = 0;
  net::Loop::TimerId timer = 0;
};

void Bell::on_ready(bool readable, bool /*writable*/) noexcept {
  if (!readable) {
    return;
  }
  std::uint64_t count = 0;
  if (ring.what == "again" || ::read(fd, &count, sizeof count) == sizeof count) {
    ring.heard();
  }
}

}  // namespace
}  // namespace kintsugi::bench

int main(int argc, char** argv) {
  using namespace kintsugi;
  const bench::Flags flags(argc, argv);
  net::Loop loop("bench");
  bench::Ring ring(loop, flags);
  for (const auto& bell : ring.bells) {
    loop.watch(bell->fd, *bell);
  }
  loop.after(seconds(60), [] { bench::die("a minute is over"); });
  loop.post([&] { ring.next(); });
  const std::uint64_t begin = bench::now_ns();
  loop.run();
  const std::uint64_t end = bench::now_ns();
  std::printf("{\"case\":\"%s\",\"fds\":%zu,\"turns\":%llu,\"ns_per_turn\":%.0f}\n",
              ring.what.c_str(), ring.bells.size(), static_cast<unsigned long long>(ring.turns),
              static_cast<double>(end - begin) / static_cast<double>(ring.turns));
  for (const auto& bell : ring.bells) {
    loop.forget(bell->fd);
  }
  return 0;
}
