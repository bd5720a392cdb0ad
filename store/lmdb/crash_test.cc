#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <map>
#include <random>
#include <string>
#include <thread>

#include "store/lmdb/internal/page_walk.h"
#include "store/lmdb/lmdb_store.h"
#include "store/testing/test_store.h"

namespace kintsugi::store {
namespace {

constexpr int kRounds = 25;
constexpr std::uint64_t kInFlight = 64;

struct Acknowledged {
  std::uint64_t number = 0;
  Revision revision = 0;
};

LmdbParams crash_params(const std::string& directory) {
  LmdbParams params;
  params.directory = directory;
  params.map_limit = std::uint64_t{256} << 20;
  return params;
}

/// Writes numbered transactions until it is killed; says on the pipe which ones were acknowledged.
[[noreturn]] void write_until_killed(const std::string& directory, int pipe, std::uint64_t number) {
  auto store = LmdbStore::open(crash_params(directory));
  if (!store) {
    ::_exit(1);
  }
  std::atomic<std::uint64_t> in_flight = 0;
  while (true) {
    const std::string text = std::to_string(++number);
    ++in_flight;
    (*store)->commit({put("n/" + text, text), put("k/" + std::to_string(number % 50), text),
                      erase("k/" + std::to_string((number + 25) % 50), {}, "last")},
                     [&in_flight, pipe, number](Expected<CommitResult> result) {
                       const Acknowledged message{number, result ? result->revision : 0};
                       if (::write(pipe, &message, sizeof(message)) != sizeof(message)) {
                         ::_exit(1);
                       }
                       --in_flight;
                       in_flight.notify_one();
                     });
    if (number % 100 == 0) {
      const Revision current = (*store)->current();
      (*store)->compact(current > 60 ? current - 60 : 0);
    }
    for (std::uint64_t now = in_flight; now >= kInFlight; now = in_flight) {
      in_flight.wait(now);
    }
  }
}

TEST(LmdbCrash, WhenKilledAtAnyMoment_KeepsWhatItAcknowledged) {  // AM-456
  const TempDir directory;
  std::random_device device;
  const std::uint32_t seed = device();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  std::map<std::uint64_t, Revision> acknowledged;
  std::uint64_t number = 0;
  Revision newest = 0;
  for (int round = 0; round < kRounds; ++round) {
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      ::close(ends[0]);
      write_until_killed(directory.data(), ends[1], number);
    }
    ::close(ends[1]);
    const std::size_t kill_after = 1 + random() % 600;
    std::size_t received = 0;
    Acknowledged message;
    while (::read(ends[0], &message, sizeof(message)) == sizeof(message)) {
      ASSERT_NE(message.revision, 0U);
      acknowledged[message.number] = message.revision;
      number = std::max(number, message.number);
      newest = std::max(newest, message.revision);
      if (++received == kill_after) {
        ASSERT_EQ(::kill(child, SIGKILL), 0);
      }
    }
    ::close(ends[0]);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the child ended by itself";
    number += kInFlight;  // numbers that may be on disk without an acknowledgement stay unused

    const auto pages = walk_file(directory.data() + "/data.mdb");  // GR-413: nothing to complain of
    ASSERT_TRUE(pages && pages->sound()) << ::testing::PrintToString(pages->problems);
    auto opened = LmdbStore::open(crash_params(directory.data()));
    ASSERT_TRUE(opened) << opened.error().to_string();
    Store& store = **opened;
    ASSERT_GE(store.current(), newest);
    newest = store.current();
    for (const auto& [written, revision] : acknowledged) {
      const auto entry = store.get("n/" + std::to_string(written));
      ASSERT_TRUE(entry) << written;
      ASSERT_EQ(entry->modified, revision);
      ASSERT_EQ(entry->value.view(), std::to_string(written));
    }
    const auto report = (*opened)->verify();
    ASSERT_TRUE(report) << report.error().to_string();
    ASSERT_TRUE(report->problems.empty()) << report->problems.front();
    ASSERT_EQ(write(store, put("round", std::to_string(round))), newest + 1);
    newest += 1;
  }
  RecordProperty("acknowledged", static_cast<int>(acknowledged.size()));
}

}  // namespace
}  // namespace kintsugi::store
