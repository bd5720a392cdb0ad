/// What workers::KeyedQueue costs, alone in one process, one line on stdout.
/// Cases (--case): cycle   rounds of add, pop, done over --keys keys, one key at a time: a light
/// load
///                 burst   all --keys keys are added, then popped and ended
///                 memory  --keys keys are added: bytes per key beyond its text, RSS
/// --scopes: pairs of (cluster, namespace) that the keys share; --rounds: of cycle and burst.
/// Times per key are CPU of all three calls. Time moves on by 1 µs a key.
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <map>
#include <string>
#include <vector>

#include "bench/flags.h"
#include "workers/runtime/queue/keyed_queue.h"

namespace kintsugi::bench {
namespace {

using workers::KeyedQueue;
using workers::Outcome;
using workers::Priority;
using workers::QueueKey;

double cpu_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

std::size_t resident_bytes() {
  std::size_t pages = 0;
  if (std::FILE* file = std::fopen("/proc/self/statm", "re")) {
    if (std::fscanf(file, "%*s %zu", &pages) != 1) {
      pages = 0;
    }
    std::fclose(file);
  }
  return pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

/// Texts are made anew for each key, as they come from a watch; making them is not measured.
struct Names {
  std::uint64_t scopes;
  std::string cluster, ns, name;
  QueueKey make(std::uint64_t i) {
    char text[40];
    std::snprintf(text, sizeof text, "%016llx",
                  static_cast<unsigned long long>(i % scopes * 0x9E3779B97F4A7C15U));
    cluster = text;
    ns = "namespace-" + std::to_string(i % scopes % 100);
    std::snprintf(text, sizeof text, "object-%08llu-x7k2p", static_cast<unsigned long long>(i));
    name = text;
    return {cluster, ns, name};
  }
};

struct Texts {
  std::vector<std::string> cluster, ns, name;
  Texts(std::uint64_t keys, std::uint64_t scopes) {
    Names names{scopes, {}, {}, {}};
    for (std::uint64_t i = 0; i < keys; ++i) {
      (void)names.make(i);
      cluster.push_back(names.cluster);
      ns.push_back(names.ns);
      name.push_back(names.name);
    }
  }
  [[nodiscard]] QueueKey operator[](std::size_t i) const { return {cluster[i], ns[i], name[i]}; }
};

void report(const char* what, std::uint64_t keys, double seconds, const KeyedQueue& queue) {
  std::printf("%s: %llu keys, %.1f ns each, %.0f/s, known at the end %zu\n", what,
              static_cast<unsigned long long>(keys), seconds * 1e9 / static_cast<double>(keys),
              static_cast<double>(keys) / seconds, queue.size());
}

void cycle(std::uint64_t keys, std::uint64_t scopes, std::uint64_t rounds) {
  const Texts texts(keys, scopes);
  TimePoint now{};
  KeyedQueue queue({}, 1, now);
  const double start = cpu_seconds();
  for (std::uint64_t round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < keys; ++i) {
      now += std::chrono::microseconds(1);
      queue.add(texts[i], Priority::kLive, now);
      if (const auto item = queue.pop(now)) {
        queue.done(*item, Outcome::done(), now);
      }
    }
  }
  report("cycle", keys * rounds, cpu_seconds() - start, queue);
}

void burst(std::uint64_t keys, std::uint64_t scopes, std::uint64_t rounds) {
  const Texts texts(keys, scopes);
  TimePoint now{};
  KeyedQueue queue({}, 1, now);
  const double start = cpu_seconds();
  for (std::uint64_t round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < keys; ++i) {
      now += std::chrono::microseconds(1);
      queue.add(texts[i], Priority::kInitial, now);
    }
    while (const auto item = queue.pop(now)) {
      now += std::chrono::microseconds(1);
      queue.done(*item, Outcome::done(), now);
    }
  }
  report("burst", keys * rounds, cpu_seconds() - start, queue);
}

void memory(std::uint64_t keys, std::uint64_t scopes) {
  Names names{scopes, {}, {}, {}};
  TimePoint now{};
  KeyedQueue queue({}, 1, now);
  const std::size_t before = resident_bytes();
  std::size_t text = 0;
  for (std::uint64_t i = 0; i < keys; ++i) {
    const QueueKey key = names.make(i);
    text += key.name.size() + (i < scopes ? key.cluster.size() + key.ns.size() : 0);
    queue.add(key, Priority::kInitial, now);
  }
  const std::size_t held = queue.memory_bytes();
  const std::size_t grown = resident_bytes() - before;
  const auto per_key = [&](std::size_t bytes) {
    return static_cast<double>(bytes) / static_cast<double>(keys);
  };
  std::printf(
      "memory: %llu keys in %llu scopes, texts %.1f MiB, beyond them %.1f MiB = %.1f B a key, "
      "RSS beyond texts %.1f MiB = %.1f B a key\n",
      static_cast<unsigned long long>(keys), static_cast<unsigned long long>(scopes),
      static_cast<double>(text) / 1048576, static_cast<double>(held - text) / 1048576,
      per_key(held - text), static_cast<double>(grown - text) / 1048576, per_key(grown - text));
}

}  // namespace
}  // namespace kintsugi::bench

int main(int argc, char** argv) {
  const kintsugi::bench::Flags flags(argc, argv);
  const std::string what = flags.text("--case");
  const std::uint64_t keys = flags.number("--keys", 1'000'000);
  const std::uint64_t scopes = flags.number("--scopes", 1'000);
  const std::uint64_t rounds = flags.number("--rounds", 3);
  if (keys == 0 || scopes == 0) {
    std::fputs("work_queue: --keys and --scopes are at least 1\n", stderr);
    return 2;
  }
  if (what == "cycle") {
    kintsugi::bench::cycle(keys, scopes, rounds);
  } else if (what == "burst") {
    kintsugi::bench::burst(keys, scopes, rounds);
  } else if (what == "memory") {
    kintsugi::bench::memory(keys, scopes);
  } else {
    std::fputs("work_queue: --case is cycle, burst or memory\n", stderr);
    return 2;
  }
  return 0;
}
