#include "workers/runtime/journal/journal.h"

#include <stdlib.h>
#include <sys/resource.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <string>
#include <thread>

/// What the journal of the workers costs: commits of one put without fsync, with the group fsync on
/// a helper, and opening with all checks. Usage: bench_journal [directory] [rows] [bytes]
namespace {

using namespace kintsugi;
using namespace kintsugi::workers;
using Watch = std::chrono::steady_clock;

double since(Watch::time_point start) {
  return std::chrono::duration<double>(Watch::now() - start).count();
}

void check(const Expected<void>& result) {
  if (!result) {
    std::fprintf(stderr, "%s\n", result.error().to_string().c_str());
    std::exit(1);
  }
}

std::unique_ptr<Journal> open_journal(const JournalParams& params) {
  auto journal = Journal::open(params);
  if (!journal) {
    std::fprintf(stderr, "%s\n", journal.error().to_string().c_str());
    std::exit(1);
  }
  return std::move(*journal);
}

std::string name_of(std::uint64_t i) {
  return "object-" + std::to_string(i * 48'271 % 2'147'483'647);
}

/// @param step  of the names; another than 1 updates rows that are there in random order.
double commits_per_second(Journal& journal, std::uint64_t count, std::uint64_t rows,
                          const std::string& payload) {
  const auto start = Watch::now();
  for (std::uint64_t i = 0; i < count; ++i) {
    check(journal.put(0, {"2j5xk8q1w9e4r7t0", "default", name_of(i * 7'919 % rows)},
                      {i, std::to_string(i), payload}));
    check(journal.commit(Watch::now()));
  }
  return static_cast<double>(count) / since(start);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string root = argc > 1 ? argv[1] : "/tmp/bench-journal";
  const std::uint64_t rows = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 100'000;
  const std::string payload(argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 800, 'p');
  std::filesystem::remove_all(root);
  JournalParams params;
  params.directory = root + "/bench/unit";
  params.boot_id = read_boot_id();
  {
    auto journal = open_journal(params);
    std::printf("new keys, one put a commit:     %8.0f/s\n",
                commits_per_second(*journal, rows, rows, payload));
    std::printf("known keys, one put a commit:   %8.0f/s\n",
                commits_per_second(*journal, rows, rows, payload));
    std::printf("1,000 keys, one put a commit:   %8.0f/s\n",
                commits_per_second(*journal, rows, 1'000, payload));
    bool stop = false;
    std::thread helper([&] {
      while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
        std::this_thread::sleep_for(std::chrono::milliseconds(40));
        check(journal->sync());
      }
    });
    std::printf("known keys, fsync every 40 ms:  %8.0f/s\n",
                commits_per_second(*journal, rows, rows, payload));
    __atomic_store_n(&stop, true, __ATOMIC_RELAXED);
    helper.join();
    const auto start = Watch::now();
    for (std::uint64_t i = 0; i < rows; ++i) {
      check(journal->put(0, {"2j5xk8q1w9e4r7t0", "default", name_of(i)}, {i, "1", payload}));
      if (i % 100 == 99) {
        check(journal->commit(Watch::now()));
      }
    }
    check(journal->commit(Watch::now()));
    std::printf("known keys, 100 puts a commit:  %8.0f puts/s\n",
                static_cast<double>(rows) / since(start));
    const auto get = Watch::now();
    for (std::uint64_t i = 0; i < rows; ++i) {
      if (!journal->get(0, {"2j5xk8q1w9e4r7t0", "default", name_of(i)})) {
        return 1;
      }
    }
    std::printf("get:                            %8.0f/s\n",
                static_cast<double>(rows) / since(get));
    check(journal->close());
  }
  for (int i = 0; i < 3; ++i) {
    const auto start = Watch::now();
    auto journal = open_journal(params);
    const double opened = since(start);
    std::uint64_t seen = 0;
    check(journal->scan(0, [&](const JournalKey&, const JournalRow&) { return ++seen > 0; }));
    std::printf("open and verify %llu rows:   %8.3f s; scan of them %.3f s; %llu MiB\n",
                static_cast<unsigned long long>(seen), opened, since(start) - opened,
                static_cast<unsigned long long>(
                    std::filesystem::file_size(params.directory + "/data.mdb") >> 20));
  }
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  std::printf("largest resident set:           %8ld MiB\n", usage.ru_maxrss / 1024);
  std::filesystem::remove_all(root);
  return 0;
}
