#include "workers/runtime/journal/journal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <map>
#include <random>
#include <set>
#include <thread>

#include "workers/runtime/journal/start_compare.h"
#include "workers/runtime/journal/testing/journal_box.h"

namespace kintsugi::workers {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

JournalKey named(std::string_view name) { return {"c", "ns", name}; }

unsigned mode_of(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 ? status.st_mode & 07777U : 0;
}

TEST(Journal, RT70_DirectoryIsOfTheOwnerAlone) {
  JournalBox box;
  auto journal = box.open();
  EXPECT_EQ(mode_of(box.params.directory), 0700U);
  EXPECT_EQ(mode_of(box.data()), 0600U);
  ASSERT_TRUE(journal->close());
  fs::permissions(box.params.directory, fs::perms(0755));
  journal = box.open();
  EXPECT_EQ(mode_of(box.params.directory), 0700U);
  EXPECT_FALSE(journal->rebuilt());
}

TEST(Journal, RT_T073_ASecondProcessIsRefusedAndTheFirstGoesOn) {
  JournalBox box;
  auto journal = box.open();
  ASSERT_TRUE(journal->put(0, named("a"), {1, "1", "x"}));
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const auto second = Journal::open(box.params);
    const bool right =
        !second && second.error().code() == Errc::kConfig &&
        second.error().message().find("in use by process " + std::to_string(::getppid())) !=
            std::string_view::npos;
    ::_exit(right ? 2 : 0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 2);
  EXPECT_EQ(Journal::open(box.params).error().code(), Errc::kConfig);
  EXPECT_EQ(remove_journal(box.params.directory).error().code(), Errc::kConfig);
  ASSERT_TRUE(journal->commit({}));
  EXPECT_THAT(rows_of(*journal), ElementsAre("c/ns/a=x@1#1"));
  ASSERT_TRUE(journal->close());
  EXPECT_TRUE(remove_journal(box.params.directory));
  EXPECT_TRUE(fs::is_empty(box.root() + "/network"));
}

TEST(Journal, RT71_RowsOfTablesAreReadInOrderAlsoBeforeTheCommit) {
  JournalBox box;
  box.params.tables = {"droplets", "vpcs"};
  auto journal = box.open();
  ASSERT_TRUE(journal->put(0, {"c2", "", "a"}, {1, "5", "p"}));
  ASSERT_TRUE(journal->put(0, {"c1", "ns", "b"}, {2, "6", "q"}));
  ASSERT_TRUE(journal->put(0, {"c1", "", "b"}, {3, "7", ""}));
  ASSERT_TRUE(journal->put(1, {"c1", "", "b"}, {4, "", "other kind"}));
  const std::vector<std::string> expected = {"c1//b=@7#3", "c1/ns/b=q@6#2", "c2//a=p@5#1"};
  EXPECT_EQ(rows_of(*journal), expected);
  ASSERT_TRUE(journal->commit({}));
  EXPECT_EQ(rows_of(*journal), expected);
  EXPECT_THAT(rows_of(*journal, 1), ElementsAre("c1//b=other kind@#4"));
  const auto found = journal->get(0, {"c1", "ns", "b"});
  ASSERT_TRUE(found && *found);
  EXPECT_EQ((*found)->epoch, 2U);
  EXPECT_EQ((*found)->rv, "6");
  EXPECT_EQ((*found)->payload, "q");
  ASSERT_TRUE(journal->erase(0, {"c1", "ns", "b"}));
  ASSERT_TRUE(journal->erase(0, {"c1", "ns", "never there"}));
  EXPECT_FALSE(*journal->get(0, {"c1", "ns", "b"}));
  ASSERT_TRUE(journal->close());
  journal = box.open();
  EXPECT_THAT(rows_of(*journal), ElementsAre("c1//b=@7#3", "c2//a=p@5#1"));
  std::size_t seen = 0;
  ASSERT_TRUE(journal->scan(0, [&](const JournalKey&, const JournalRow&) { return ++seen > 1; }));
  EXPECT_EQ(seen, 1U);
}

TEST(Journal, RT71_WhatNoKeyCanHoldIsRefusedAndTheTurnGoesOn) {
  JournalBox box;
  auto journal = box.open();
  ASSERT_TRUE(journal->put(0, named("a"), {}));
  const auto refused = journal->put(0, named(std::string(254, 'n')), {});
  ASSERT_FALSE(refused);
  EXPECT_THAT(std::string(refused.error().message()), HasSubstr("NameTooLong"));
  const std::string large(kMaxRowPayload + 1, 'p');
  EXPECT_EQ(journal->put(0, named("b"), {0, "", large}).error().code(),
            Errc::kRequestEntityTooLarge);
  EXPECT_EQ(journal->put(1, named("b"), {}).error().code(), Errc::kInvalid);
  ASSERT_TRUE(journal->put(0, named("c"), {}));
  ASSERT_TRUE(journal->commit({}));
  EXPECT_THAT(rows_of(*journal), ElementsAre("c/ns/a=@#0", "c/ns/c=@#0"));
}

TEST(Journal, RT72_LosingItIsAnEmptyJournal) {
  JournalBox box;
  auto journal = box.open();
  ASSERT_TRUE(journal->put(0, named("a"), {}));
  ASSERT_TRUE(journal->close());
  fs::remove_all(box.root() + "/network");
  journal = box.open();
  EXPECT_FALSE(journal->rebuilt());
  EXPECT_THAT(rows_of(*journal), IsEmpty());
}

TEST(Journal, RT73_TheSyncOfAGroupIsDueOncePerInterval) {
  JournalBox box;
  auto journal = box.open();
  const auto before = journal->stats();
  const TimePoint start{seconds(1)};
  EXPECT_FALSE(journal->due_sync(start));
  EXPECT_FALSE(journal->next_sync());
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(journal->put(0, named(std::to_string(i)), {}));
    ASSERT_TRUE(journal->commit(start + milliseconds(i)));
  }
  EXPECT_EQ(journal->stats().commits, before.commits + 10);
  EXPECT_EQ(journal->stats().syncs, before.syncs);
  EXPECT_EQ(journal->next_sync(), start + milliseconds(40));
  EXPECT_FALSE(journal->due_sync(start + milliseconds(39)));
  EXPECT_TRUE(journal->due_sync(start + milliseconds(40)));
  EXPECT_FALSE(journal->due_sync(start + milliseconds(41)));  // it runs already
  ASSERT_TRUE(journal->sync());
  EXPECT_FALSE(journal->next_sync());
  EXPECT_FALSE(journal->due_sync(start + seconds(1)));
  ASSERT_TRUE(journal->commit(start + seconds(1)));  // nothing to write
  EXPECT_FALSE(journal->next_sync());
}

TEST(Journal, RT73_WhatIsCommittedDuringASyncIsDueAgain) {
  JournalBox box;
  auto journal = box.open();
  const TimePoint start{seconds(1)};
  ASSERT_TRUE(journal->put(0, named("a"), {}));
  ASSERT_TRUE(journal->commit(start));
  ASSERT_TRUE(journal->due_sync(start + milliseconds(45)));
  ASSERT_TRUE(journal->sync());
  ASSERT_TRUE(journal->put(0, named("b"), {}));
  ASSERT_TRUE(journal->commit(start + milliseconds(50)));
  EXPECT_LE(*journal->next_sync(), start + milliseconds(90));
  EXPECT_TRUE(journal->due_sync(start + milliseconds(90)));
}

TEST(Journal, RT73_SyncRunsOnAnotherThreadWhileTheOwnerCommits) {
  JournalBox box;
  auto journal = box.open();
  std::atomic<bool> stop{false};
  std::thread helper([&] {
    while (!stop) {
      EXPECT_TRUE(journal->sync());
    }
  });
  for (int i = 0; i < 2'000; ++i) {
    ASSERT_TRUE(journal->put(0, named(std::to_string(i)), {1, "1", "payload"}));
    ASSERT_TRUE(journal->commit(TimePoint{milliseconds(i)}));
    (void)journal->due_sync(TimePoint{milliseconds(i)});
  }
  stop = true;
  helper.join();
  EXPECT_EQ(rows_of(*journal).size(), 2'000U);
}

TEST(Journal, RT74_OtherBootWithoutCleanFlagIsRebuilt) {
  JournalBox box;
  auto journal = box.open();
  ASSERT_TRUE(journal->put(0, named("a"), {1, "1", "x"}));
  ASSERT_TRUE(journal->commit({}));
  const std::string unclean = read_whole(box.data());
  ASSERT_TRUE(journal->close());
  const std::string clean = read_whole(box.data());

  box.params.boot_id = "boot-2";
  journal = box.open();  // closed in order: any boot trusts it
  EXPECT_FALSE(journal->rebuilt());
  EXPECT_THAT(rows_of(*journal), ElementsAre("c/ns/a=x@1#1"));
  ASSERT_TRUE(journal->close());

  write_whole(box.data(), unclean);
  journal = box.open();
  ASSERT_TRUE(journal->rebuilt());
  EXPECT_THAT(journal->rebuilt()->reason, HasSubstr("boot id"));
  EXPECT_EQ(journal->rebuilt()->aside, box.params.directory + ".suspect-1");
  EXPECT_EQ(read_whole(journal->rebuilt()->aside + "/data.mdb"), unclean);
  EXPECT_EQ(journal->stats().rebuilds, 1U);
  EXPECT_THAT(rows_of(*journal), IsEmpty());
  ASSERT_TRUE(journal->close());

  box.params.boot_id = "boot-1";
  write_whole(box.data(), unclean);
  journal = box.open();  // the same boot: a process died, the pages are all there
  EXPECT_FALSE(journal->rebuilt());
  EXPECT_THAT(rows_of(*journal), ElementsAre("c/ns/a=x@1#1"));
  ASSERT_TRUE(journal->close());

  box.params.boot_id.clear();  // a kernel that does not say
  write_whole(box.data(), unclean);
  EXPECT_TRUE(box.open()->rebuilt());
  write_whole(box.data(), clean);
  EXPECT_FALSE(box.open()->rebuilt());
}

TEST(Journal, RT74_OnlyTheNewestTwoSuspectsAreKept) {
  JournalBox box;
  fs::create_directories(box.params.directory + ".suspect-x");
  for (int i = 1; i <= 4; ++i) {
    fs::create_directories(box.params.directory);
    write_whole(box.data(), "garbage " + std::to_string(i));
    auto journal = box.open();
    ASSERT_TRUE(journal->rebuilt());
    EXPECT_EQ(journal->rebuilt()->aside, box.params.directory + ".suspect-" + std::to_string(i));
  }
  EXPECT_FALSE(fs::exists(box.params.directory + ".suspect-1"));
  EXPECT_FALSE(fs::exists(box.params.directory + ".suspect-2"));
  EXPECT_EQ(read_whole(box.params.directory + ".suspect-3/data.mdb"), "garbage 3");
  EXPECT_EQ(read_whole(box.params.directory + ".suspect-4/data.mdb"), "garbage 4");
  EXPECT_TRUE(fs::exists(box.params.directory + ".suspect-x"));
}

TEST(Journal, RT74_WhatIsNoPlainFileIsRebuilt) {
  JournalBox box;
  fs::create_directories(box.data());
  EXPECT_TRUE(box.open()->rebuilt());
  fs::remove_all(box.params.directory);
  fs::create_directories(box.params.directory);
  ASSERT_EQ(::mkfifo(box.data().c_str(), 0600), 0);
  EXPECT_TRUE(box.open()->rebuilt());
  write_whole(box.data(), "");
  EXPECT_FALSE(box.open()->rebuilt());
}

TEST(Journal, RT74_AFileCutWhileItIsOpenIsSeenAndCanBeRebuilt) {
  JournalBox box;
  auto journal = box.open();
  ASSERT_TRUE(journal->note_epoch(3, 9));
  for (int i = 0; i < 1'000; ++i) {
    ASSERT_TRUE(journal->put(0, named(std::to_string(i)), {1, "1", std::string(200, 'x')}));
  }
  ASSERT_TRUE(journal->commit({}));
  fs::resize_file(box.data(), 4'096);
  EXPECT_EQ(journal->get(0, named("1")).error().code(), Errc::kCorrupt);
  EXPECT_EQ(journal->state(), JournalState::kDamaged);
  EXPECT_EQ(journal->put(0, named("1"), {}).error().code(), Errc::kCorrupt);
  ASSERT_TRUE(journal->rebuild(journal->reason()));
  EXPECT_EQ(journal->state(), JournalState::kReady);
  EXPECT_TRUE(journal->rebuilt());
  EXPECT_THAT(rows_of(*journal), IsEmpty());
  ASSERT_TRUE(journal->put(0, named("1"), {1, "2", "new"}));
  ASSERT_TRUE(journal->close());
  journal = box.open();
  EXPECT_FALSE(journal->rebuilt());
  EXPECT_EQ(journal->epoch(3), 9U);  // what the process knew it kept
  EXPECT_THAT(rows_of(*journal), ElementsAre("c/ns/1=new@2#1"));
}

TEST(Journal, RT54_EpochsOnlyRiseAndOutliveTheProcess) {
  JournalBox box;
  auto journal = box.open();
  EXPECT_EQ(journal->epoch(0), 0U);
  ASSERT_TRUE(journal->note_epoch(0, 5));
  ASSERT_TRUE(journal->note_epoch(0, 4));
  ASSERT_TRUE(journal->note_epoch(1'023, 1ULL << 40));
  ASSERT_TRUE(journal->note_epoch(Journal::kEpochSlots - 1, 7));
  EXPECT_FALSE(journal->note_epoch(Journal::kEpochSlots, 7));
  ASSERT_TRUE(journal->commit({}));
  journal.reset();
  journal = box.open();
  EXPECT_EQ(journal->epoch(0), 5U);
  EXPECT_EQ(journal->epoch(1'023), 1ULL << 40);
  EXPECT_EQ(journal->epoch(Journal::kEpochSlots - 1), 7U);
  EXPECT_EQ(journal->epoch(2), 0U);
}

TEST(Journal, RT75_TheMapDoublesUpToItsLimit) {
  JournalBox box;
  box.params.start_map = std::uint64_t{1} << 20;
  box.params.max_bytes = std::uint64_t{16} << 20;
  auto journal = box.open();
  EXPECT_EQ(journal->stats().map_bytes, std::uint64_t{1} << 20);
  const std::string payload(3'000, 'p');
  std::size_t stored = 0;
  for (int i = 0; i < 2'500; ++i) {  // turns of ten, 10 MiB of pages in all
    ASSERT_TRUE(journal->put(0, named(std::to_string(i)), {1, "1", payload}));
    if (i % 10 == 9) {
      ASSERT_TRUE(journal->commit({}));
      stored += 10;
      ASSERT_EQ(journal->state(), JournalState::kReady);
    }
  }
  EXPECT_EQ(journal->stats().map_bytes, std::uint64_t{16} << 20);
  EXPECT_EQ(rows_of(*journal).size(), stored);
  ASSERT_TRUE(journal->close());
  EXPECT_EQ(rows_of(*box.open()).size(), stored);
}

TEST(Journal, RT_T072_AtTheLimitPutsAreRefusedReadsAndErasuresGoOnAndItRecovers) {
  for (const std::size_t turn : {1U, 20U, 5'000U}) {
    JournalBox box;
    box.params.max_bytes = std::uint64_t{2} << 20;
    auto journal = box.open();
    TimePoint now{seconds(1)};
    const std::string payload(500, 'p');
    std::set<std::string> there;
    std::vector<std::string> of_turn;
    int next = 0;
    while (journal->state() == JournalState::kReady) {
      for (std::size_t i = 0; i < turn; ++i) {
        const std::string name = std::to_string(next++ * 7'919 % 100'000);
        if (journal->put(0, named(name), {1, "1", payload})) {
          of_turn.push_back(name);
        }
      }
      if (journal->commit(now)) {
        there.insert(of_turn.begin(), of_turn.end());
      }
      of_turn.clear();
      ASSERT_LT(next, 20'000);
    }
    EXPECT_EQ(journal->state(), JournalState::kFull);
    EXPECT_THAT(std::string(journal->reason()), HasSubstr("JournalFull"));
    EXPECT_GT(there.size(), turn > 1'000 ? 0U : 1'500U);
    EXPECT_EQ(journal->put(0, named("more"), {}).error().code(), Errc::kFull);
    EXPECT_TRUE(journal->commit(now));
    for (const std::string& name : there) {
      ASSERT_TRUE(*journal->get(0, named(name))) << name;
    }
    // Every other row goes, in an order that touches all pages in one turn.
    std::vector<std::string> names;
    for (const std::string& row : rows_of(*journal)) {
      names.push_back(row.substr(5, row.find('=') - 5));
    }
    EXPECT_GE(names.size(), there.size());
    for (const std::size_t odd : {0U, 1U}) {
      for (std::size_t i = odd; i < names.size(); i += 2) {
        ASSERT_TRUE(journal->erase(0, named(names[i])));
      }
      const auto erased = journal->commit(now += seconds(2));
      ASSERT_TRUE(erased) << erased.error().to_string();
    }
    EXPECT_THAT(rows_of(*journal), IsEmpty());
    (void)journal->due_sync(now += seconds(2));
    EXPECT_EQ(journal->state(), JournalState::kReady);
    ASSERT_TRUE(journal->put(0, named("more"), {1, "1", payload}));
    ASSERT_TRUE(journal->close());
    journal = box.open();
    EXPECT_FALSE(journal->rebuilt());
    EXPECT_EQ(rows_of(*journal).size(), 1U);
  }
}

TEST(Journal, RT_T072_ARaisedLimitEndsJournalFull) {
  JournalBox box;
  box.params.max_bytes = std::uint64_t{1} << 20;
  auto journal = box.open();
  const std::string payload(2'000, 'p');
  TimePoint now{seconds(1)};
  int stored = 0;
  while (journal->put(0, named(std::to_string(stored)), {1, "1", payload})) {
    ++stored;
    ASSERT_TRUE(journal->commit(now));
  }
  EXPECT_EQ(journal->state(), JournalState::kFull);
  EXPECT_FALSE(journal->set_max_bytes(1'000));
  ASSERT_TRUE(journal->set_max_bytes(std::uint64_t{4} << 20));
  (void)journal->due_sync(now += seconds(2));
  EXPECT_EQ(journal->state(), JournalState::kReady);
  ASSERT_TRUE(journal->put(0, named("more"), {1, "1", payload}));
  ASSERT_TRUE(journal->close());
  box.params.max_bytes = std::uint64_t{1} << 20;  // and a lowered one keeps what there is
  journal = box.open();
  EXPECT_EQ(rows_of(*journal).size(), static_cast<std::size_t>(stored) + 1);
  EXPECT_EQ(journal->put(0, named("x"), {1, "1", payload}).error().code(), Errc::kFull);
  ASSERT_TRUE(journal->erase(0, named("more")));
  ASSERT_TRUE(journal->close());
}

TEST(Journal, RT77_NoCallLeavesAReaderThatPinsPages) {
  JournalBox box;
  auto journal = box.open();
  const std::string payload(1'000, 'p');
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(journal->put(0, named(std::to_string(i)), {1, "1", payload}));
  }
  ASSERT_TRUE(journal->commit({}));
  const auto size = [&] { return fs::file_size(box.data()); };
  for (int i = 0; i < 50; ++i) {  // until the free pages are as many as they get
    ASSERT_TRUE(journal->put(0, named(std::to_string(i)), {1, "2", payload}));
    ASSERT_TRUE(journal->commit({}));
  }
  const auto before = size();
  for (int i = 0; i < 2'000; ++i) {
    ASSERT_TRUE(*journal->get(0, named("7")));
    ASSERT_TRUE(journal->scan(0, [](const JournalKey&, const JournalRow&) { return false; }));
    ASSERT_TRUE(journal->put(0, named(std::to_string(i % 100)), {1, "3", payload}));
    ASSERT_TRUE(journal->commit({}));
  }
  EXPECT_LE(size(), before + 16 * 4'096);
}

StartComparison compare_with(Journal& journal, const std::vector<ListedObject>& listed,
                             std::vector<std::string>& gone_payloads) {
  std::vector<std::pair<std::string, std::string>> kept;
  EXPECT_TRUE(journal.scan(0, [&](const JournalKey& key, const JournalRow& row) {
    kept.emplace_back("", row.rv);
    return append_journal_key(kept.back().first, key).has_value();
  }));
  std::vector<JournalEntry> rows;
  for (const auto& [key, rv] : kept) {
    rows.push_back({key, rv});
  }
  StartComparison result = compare_at_start(rows, listed);
  for (const std::uint32_t index : result.gone) {
    const auto value = journal.get(0, *split_journal_key(rows[index].key));
    gone_payloads.push_back(value && *value ? (*value)->payload : "?");
  }
  return result;
}

TEST(Journal, RT_T074_WhatWasDeletedWhileDownIsToldWithItsPayload) {
  JournalBox box;
  auto journal = box.open();
  ASSERT_TRUE(journal->put(0, named("a"), {1, "10", "keep"}));
  ASSERT_TRUE(journal->put(0, named("b"), {1, "11", "peer 7"}));
  ASSERT_TRUE(journal->commit({}));
  journal.reset();
  journal = box.open();
  std::vector<std::string> payloads;
  const auto result = compare_with(*journal, {{named("a"), "10"}}, payloads);
  EXPECT_EQ(result.unchanged, 1U);
  EXPECT_THAT(result.queue, IsEmpty());
  EXPECT_THAT(payloads, ElementsAre("peer 7"));
}

TEST(Journal, RT_T075_AnOlderJournalIsOpenedAndItsDifferencesAreFound) {
  JournalBox box;
  auto journal = box.open();
  ASSERT_TRUE(journal->put(0, named("a"), {1, "1", "a1"}));
  ASSERT_TRUE(journal->put(0, named("b"), {1, "2", "b1"}));
  ASSERT_TRUE(journal->close());
  const std::string backup = read_whole(box.data());
  journal = box.open();
  ASSERT_TRUE(journal->put(0, named("a"), {2, "3", "a2"}));
  ASSERT_TRUE(journal->erase(0, named("b")));
  ASSERT_TRUE(journal->put(0, named("c"), {2, "4", "c1"}));
  ASSERT_TRUE(journal->close());
  write_whole(box.data(), backup);
  journal = box.open();
  EXPECT_FALSE(journal->rebuilt());
  std::vector<std::string> payloads;
  const auto result = compare_with(*journal, {{named("a"), "3"}, {named("c"), "4"}}, payloads);
  EXPECT_EQ(result.unchanged, 0U);
  EXPECT_THAT(result.queue, ElementsAre(0, 1));
  EXPECT_THAT(payloads, ElementsAre("b1"));
}

TEST(Journal, RT73_AgreesWithAMapForRandomTurns) {
  std::random_device device;
  const std::uint32_t seed = device();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const int rounds = std::getenv("KINTSUGI_FULL_LOAD") != nullptr ? 2'000 : 100;
  JournalBox box;
  box.params.start_map = std::uint64_t{1} << 20;
  box.params.max_bytes = std::uint64_t{256} << 20;
  auto journal = box.open();
  std::map<std::string, std::string> model;
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t i = random() % 100; i > 0; --i) {
      const std::string name = std::to_string(random() % 2'000);
      if (random() % 3 == 0) {
        ASSERT_TRUE(journal->erase(0, named(name)));
        model.erase(name);
      } else {
        const bool large = random() % 20 == 0;
        std::string payload(random() % (large ? 40'000 : 900),
                            static_cast<char>('a' + random() % 26));
        ASSERT_TRUE(journal->put(0, named(name), {1, "1", payload}));
        model[name] = std::move(payload);
      }
    }
    ASSERT_TRUE(journal->commit({}));
    if (random() % 4 == 0) {
      if (random() % 2 == 0) {
        ASSERT_TRUE(journal->close());
      } else {  // as after a SIGKILL
        const std::string image = read_whole(box.data());
        journal.reset();
        write_whole(box.data(), image);
      }
      journal = box.open();
      ASSERT_FALSE(journal->rebuilt()) << journal->rebuilt()->reason;
      std::vector<std::string> expected;
      for (const auto& [name, payload] : model) {
        expected.push_back("c/ns/" + name + "=" + payload + "@1#1");
      }
      ASSERT_EQ(rows_of(*journal), expected);
    }
  }
}

}  // namespace
}  // namespace kintsugi::workers
