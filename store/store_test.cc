#include "store/store.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <future>
#include <mutex>
#include <set>
#include <thread>

#include "store/raise.h"
#include "store/testing/test_store.h"

namespace kintsugi::store {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class StoreContract : public ::testing::TestWithParam<Backend> {
 protected:
  TestStore store_{GetParam()};
};

INSTANTIATE_TEST_SUITE_P(Backends, StoreContract,
                         ::testing::Values(Backend::kLmdb, Backend::kMemory), &backend_name);

TEST_P(StoreContract, WhenNew_IsEmptyAtRevisionZero) {
  EXPECT_EQ(store_->current(), 0U);
  EXPECT_EQ(store_->compacted(), 0U);
  EXPECT_EQ(store_->get("a").error().code(), Errc::kNotFound);
  EXPECT_EQ(store_->get("").error().code(), Errc::kNotFound);
  EXPECT_THAT(rows(*store_, {"", "", 0}), IsEmpty());
  EXPECT_TRUE(store_->health());
  EXPECT_EQ(store_->stats().keys, 0U);
}

TEST_P(StoreContract, WhenKeyIsWritten_EntryHasBothRevisions) {
  EXPECT_EQ(write(*store_, put("a", "1")), 1U);
  EXPECT_EQ(write(*store_, put("a", "2")), 2U);
  const auto entry = store_->get("a");
  ASSERT_TRUE(entry);
  EXPECT_EQ(entry->value.view(), "2");
  EXPECT_EQ(entry->created, 1U);
  EXPECT_EQ(entry->modified, 2U);
  EXPECT_EQ(store_->current(), 2U);
}

TEST_P(StoreContract, WhenKeyIsDeletedAndMadeAgain_CreatedIsNew) {
  write(*store_, put("a", "1"));
  write(*store_, erase("a"));
  EXPECT_EQ(store_->get("a").error().code(), Errc::kNotFound);
  write(*store_, put("a", "3"));
  EXPECT_EQ(store_->get("a")->created, 3U);
  EXPECT_THAT(rows(*store_, {"", "", 1}), ElementsAre("a=1@1/1"));
  EXPECT_THAT(rows(*store_, {"", "", 2}), IsEmpty());
  EXPECT_THAT(rows(*store_, {"", "", 3}), ElementsAre("a=3@3/3"));
}

TEST_P(StoreContract, WhenExpectationHolds_Writes) {
  EXPECT_EQ(write(*store_, put("a", "1", 0)), 1U);
  EXPECT_EQ(write(*store_, put("a", "2", 1)), 2U);
  EXPECT_EQ(write(*store_, erase("a", 2)), 3U);
  EXPECT_EQ(write(*store_, put("a", "4", 0)), 4U);
}

TEST_P(StoreContract, WhenExpectationFails_NothingIsWritten) {
  write(*store_, put("a", "1"));
  const auto result = store_->commit_wait({put("b", "x"), put("a", "2", 7)});
  ASSERT_TRUE(result);
  EXPECT_TRUE(result->conflict);
  EXPECT_EQ(result->failed_op, 1U);
  EXPECT_EQ(result->actual, 1U);
  EXPECT_EQ(store_->current(), 1U);
  EXPECT_THAT(rows(*store_, {"", "", 0}), ElementsAre("a=1@1/1"));
  const auto absent = store_->commit_wait({erase("c", 5)});
  ASSERT_TRUE(absent);
  EXPECT_TRUE(absent->conflict);
  EXPECT_EQ(absent->actual, 0U);
  EXPECT_EQ(store_->stats().conflicts, 2U);
}

TEST_P(StoreContract, WhenAnotherKeyHasToBeUnchanged_ItIsComparedAndNotWritten) {
  write(*store_, put("a", "1"));
  EXPECT_EQ(write(*store_, put("b", "x"), unchanged("a", 1)), 2U);
  const auto changes = store_->changes("", 1, 10);
  ASSERT_TRUE(changes);
  EXPECT_THAT(describe(changes->events), ElementsAre("2 +b=x (@0/2)"));
  EXPECT_THAT(rows(*store_, {"", "", 0}), ElementsAre("a=1@1/1", "b=x@2/2"));

  write(*store_, put("a", "2"));
  const auto late = store_->commit_wait({put("c", "x"), unchanged("a", 1)});
  ASSERT_TRUE(late);
  EXPECT_TRUE(late->conflict);
  EXPECT_EQ(late->failed_op, 1U);
  EXPECT_EQ(late->actual, 3U);

  write(*store_, erase("a"));
  const auto gone = store_->commit_wait({put("c", "x"), unchanged("a", 3)});
  ASSERT_TRUE(gone);
  EXPECT_TRUE(gone->conflict);
  EXPECT_EQ(gone->actual, 0U);
  EXPECT_EQ(store_->get("c").error().code(), Errc::kNotFound);

  const auto nothing = store_->commit_wait({unchanged("b", 2)});
  ASSERT_TRUE(nothing);
  EXPECT_FALSE(nothing->conflict);
  EXPECT_EQ(nothing->revision, 4U);
  EXPECT_EQ(store_->current(), 4U);
}

TEST_P(StoreContract, WhenItIsRaised_GR603_RevisionsAndHistoryGoOnBehindTheNumber) {
  write(*store_, put("a", "1"));
  EXPECT_EQ(write(*store_, put("b", "2"), raise_to(1'000)), 1'001U);
  EXPECT_EQ(store_->current(), 1'001U);
  EXPECT_EQ(write(*store_, put("a", "3")), 1'002U);
  EXPECT_EQ(write(*store_, put("b", "4"), raise_to(5)), 1'003U);
  EXPECT_EQ(store_->get(kRaiseKey).error().code(), Errc::kNotFound);
  const auto changes = store_->changes("", 1, 10);
  ASSERT_TRUE(changes);
  EXPECT_THAT(describe(changes->events),
              ElementsAre("1001 +b=2 (@0/1001)", "1002 +a=3 (1@1/1)", "1003 +b=4 (2@1001/1001)"));
  EXPECT_EQ(changes->complete_to, 1'003U);
  EXPECT_THAT(rows(*store_, {"", "", 500}), ElementsAre("a=1@1/1"));
  // Alone it is no event, and counts.
  EXPECT_EQ(store_->commit_wait({raise_to(9'000)})->revision, 9'000U);
  EXPECT_EQ(store_->commit_wait({raise_to(5)})->revision, 9'000U);
  EXPECT_EQ(store_->changes("", 1'003, 10)->events.size(), 0U);
  EXPECT_EQ(write(*store_, put("b", "5")), 9'001U);
}

TEST_P(StoreContract, WhenItIsRaisedFromElsewhere_GR116_NothingIsWritten) {
  write(*store_, put("a", "1"));
  const auto behind = store_->commit_wait({put("a", "2"), raise_from(7, 9)});
  ASSERT_TRUE(behind);
  EXPECT_TRUE(behind->conflict);
  EXPECT_EQ(behind->actual, 1U);
  EXPECT_EQ(store_->current(), 1U);
  EXPECT_EQ(write(*store_, put("a", "2"), raise_from(1, 9)), 10U);
  EXPECT_TRUE(store_->commit_wait({raise_from(9, 20)})->conflict);
  EXPECT_EQ(store_->commit_wait({raise_from(10, 20)})->revision, 20U);
}

TEST_P(StoreContract, WhenTransactionHasManyOps_TheyShareOneRevisionInOrder) {
  write(*store_, put("c", "old"));
  EXPECT_EQ(write(*store_, put("b", "1"), erase("c", 1, "last"), put("a", "2")), 2U);
  const auto changes = store_->changes("", 1, 10);
  ASSERT_TRUE(changes);
  EXPECT_THAT(describe(changes->events),
              ElementsAre("2 +b=1 (@0/2)", "2 -c=last (old@1/1)", "2 +a=2 (@0/2)"));
}

TEST_P(StoreContract, WhenNothingChanges_TakesNoRevision) {
  write(*store_, put("a", "1"));
  const auto deleted = store_->commit_wait({erase("b"), erase("c", 0)});
  ASSERT_TRUE(deleted);
  EXPECT_FALSE(deleted->conflict);
  EXPECT_EQ(deleted->revision, 1U);
  EXPECT_EQ(store_->commit_wait({})->revision, 1U);
  EXPECT_EQ(store_->current(), 1U);
}

TEST_P(StoreContract, WhenKeyIsTooLongOrEmptyOrTwice_IsInvalid) {
  EXPECT_EQ(error_of(store_->commit_wait({put(std::string(481, 'k'), "v")})), Errc::kInvalid);
  EXPECT_EQ(error_of(store_->commit_wait({put("", "v")})), Errc::kInvalid);
  EXPECT_EQ(error_of(store_->commit_wait({put("a", "v"), erase("a")})), Errc::kInvalid);
  EXPECT_EQ(store_->current(), 0U);
}

TEST_P(StoreContract, WhenKeyHas480Bytes_ItsHistoryWorksToo) {
  const std::string key(480, 'k');
  write(*store_, put(key, "1"));
  write(*store_, put(key, "2"));
  EXPECT_THAT(rows(*store_, {"k", "", 1}), ElementsAre(key + "=1@1/1"));
  EXPECT_THAT(rows(*store_, {key, key, 0}), ElementsAre(key + "=2@2/1"));
  EXPECT_THAT(rows(*store_, {key, key + std::string(100, 'z'), 1}), IsEmpty());
  EXPECT_EQ(store_.problem(), "");
}

TEST_P(StoreContract, WhenValueIsEmptyOrLarge_IsKept) {
  const std::string large(1'500'000, 'x');
  write(*store_, put("e", ""), put("l", large));
  write(*store_, put("e", "full"), put("l", ""));
  EXPECT_EQ(store_->get("l")->value.view(), "");
  EXPECT_THAT(rows(*store_, {"", "", 1}), ElementsAre("e=@1/1", "l=" + large + "@1/1"));
  EXPECT_EQ(store_->changes("l", 0, 1)->events.at(0).value.view(), large);
}

TEST_P(StoreContract, WhenRangeHasPrefixAndStart_BothLimit) {
  for (const char* key : {"a", "b", "b/1", "b/2", "b/3", "c"}) {
    write(*store_, put(key, ""));
  }
  EXPECT_THAT(rows(*store_, {"b/", "", 0}), ElementsAre("b/1=@3/3", "b/2=@4/4", "b/3=@5/5"));
  EXPECT_THAT(rows(*store_, {"b/", "b/2", 0}), ElementsAre("b/2=@4/4", "b/3=@5/5"));
  EXPECT_THAT(rows(*store_, {"b/", std::string("b/2\0", 4), 5}), ElementsAre("b/3=@5/5"));
  EXPECT_THAT(rows(*store_, {"b/", "a", 0}), ElementsAre("b/1=@3/3", "b/2=@4/4", "b/3=@5/5"));
  EXPECT_THAT(rows(*store_, {"b/", "c", 0}), IsEmpty());
  EXPECT_EQ(*store_->count({"b", "", 0}), 4U);
  EXPECT_EQ(*store_->count({"b", "b/2", 4}), 1U);
}

TEST_P(StoreContract, WhenVisitorStops_RangeEndsWithItsRevision) {
  write(*store_, put("a", ""), put("b", ""));
  write(*store_, put("a", "new"));
  for (const Revision at : {Revision{0}, Revision{1}}) {
    int seen = 0;
    const auto revision = store_->range({"", "", at}, [&seen](const EntryView&) {
      ++seen;
      return false;
    });
    EXPECT_EQ(*revision, at == 0 ? 2U : 1U);
    EXPECT_EQ(seen, 1);
  }
}

TEST_P(StoreContract, WhenRevisionIsOutOfBounds_SaysWhich) {
  write(*store_, put("a", "1"));
  write(*store_, put("a", "2"));
  EXPECT_THAT(rows(*store_, {"", "", 3}), ElementsAre("FutureRevision"));
  EXPECT_EQ(store_->count({"", "", 3}).error().code(), Errc::kFutureRevision);
  EXPECT_EQ(store_->changes("", 3, 1).error().code(), Errc::kFutureRevision);
  store_->compact(2);
  write(*store_, put("b", ""));
  EXPECT_EQ(store_->compacted(), 2U);
  EXPECT_THAT(rows(*store_, {"", "", 1}), ElementsAre("Compacted"));
  EXPECT_THAT(rows(*store_, {"", "", 2}), ElementsAre("a=2@2/1"));
  EXPECT_EQ(store_->changes("", 1, 1).error().code(), Errc::kCompacted);
  EXPECT_THAT(describe(store_->changes("", 2, 9)->events), ElementsAre("3 +b= (@0/3)"));
}

TEST_P(StoreContract, WhenCompactIsAskedBeyondCurrent_StopsAtCurrent) {
  write(*store_, put("a", "1"));
  store_->compact(1'000);
  write(*store_, put("a", "2"));
  EXPECT_EQ(store_->compacted(), 1U);
  store_->compact(0);
  write(*store_, put("a", "3"));
  EXPECT_EQ(store_->compacted(), 1U);
}

TEST_P(StoreContract, WhenChangesAreLimited_WholeRevisionsComeAndCompleteToSaysHowFar) {
  write(*store_, put("x/1", ""));
  write(*store_, put("y", ""));
  write(*store_, put("x/2", ""), put("x/3", ""));
  write(*store_, put("y", "2"));
  write(*store_, put("x/4", ""));
  write(*store_, put("y", "3"));
  auto changes = store_->changes("x/", 0, 1);
  EXPECT_EQ(changes->events.size(), 1U);
  EXPECT_EQ(changes->complete_to, 2U);  // revision 2 has nothing with this prefix
  changes = store_->changes("x/", 2, 1);
  EXPECT_EQ(changes->events.size(), 2U);
  EXPECT_EQ(changes->complete_to, 4U);
  changes = store_->changes("x/", 4, 1);
  EXPECT_EQ(changes->events.size(), 1U);
  EXPECT_EQ(changes->complete_to, 6U);
  changes = store_->changes("x/", 6, 1);
  EXPECT_TRUE(changes->events.empty());
  EXPECT_EQ(changes->complete_to, 6U);
  EXPECT_EQ(store_->changes("", 3, 0)->complete_to, 3U);
}

TEST_P(StoreContract, WhenSubscribed_BatchesComeBeforeTheCallback) {
  write(*store_, put("a", "1"));
  std::vector<std::string> seen;
  auto subscription = store_->subscribe([&seen](const EventBatch& batch) {
    for (const Event& event : *batch) {
      seen.push_back(describe(event));
    }
  });
  EXPECT_EQ(subscription.from, 1U);
  std::size_t seen_in_callback = 0;
  std::mutex mutex;
  std::condition_variable done;
  bool answered = false;
  store_->commit({put("a", "2")}, [&](Expected<CommitResult>) {
    const std::lock_guard lock(mutex);
    seen_in_callback = seen.size();
    answered = true;
    done.notify_one();
  });
  {
    std::unique_lock lock(mutex);
    done.wait(lock, [&] { return answered; });
  }
  EXPECT_EQ(seen_in_callback, 1U);
  EXPECT_THAT(seen, ElementsAre("2 +a=2 (1@1/1)"));
  subscription.token.reset();
  write(*store_, put("a", "3"));
  EXPECT_EQ(seen.size(), 1U);
}

TEST_P(StoreContract, WhenListenerEndsItself_NothingMoreComes) {
  Store::Subscription subscription;
  std::atomic<int> calls = 0;
  subscription = store_->subscribe([&](const EventBatch&) {
    ++calls;
    subscription.token.reset();
  });
  write(*store_, put("a", "1"));
  write(*store_, put("a", "2"));
  EXPECT_EQ(calls, 1);
}

TEST_P(StoreContract, WhenSubscribingUnderWriters_ThereIsNoGapAndNoDuplicate) {
  constexpr int kWriters = 4;
  constexpr int kWrites = 150;
  std::vector<std::thread> writers;
  for (int w = 0; w < kWriters; ++w) {
    writers.emplace_back([this, w] {
      for (int i = 0; i < kWrites; ++i) {
        write(*store_, put("k/" + std::to_string(w), std::to_string(i)), put("x", ""));
      }
    });
  }
  struct Reader {
    Store::Subscription subscription;
    std::vector<Revision> revisions;
  };
  std::vector<std::unique_ptr<Reader>> readers;
  while (readers.size() < 40 && store_->current() < kWriters * kWrites) {
    auto reader = std::make_unique<Reader>();
    reader->subscription = store_->subscribe([r = reader.get()](const EventBatch& batch) {
      for (const Event& event : *batch) {
        r->revisions.push_back(event.revision);
      }
    });
    readers.push_back(std::move(reader));
  }
  for (std::thread& writer : writers) {
    writer.join();
  }
  for (auto& reader : readers) {
    reader->subscription.token.reset();
    std::vector<Revision> expected;
    const auto missed = store_->changes("", reader->subscription.from, 1'000'000);
    ASSERT_TRUE(missed);
    for (const Event& event : missed->events) {
      expected.push_back(event.revision);
    }
    EXPECT_EQ(reader->revisions, expected);
  }
  EXPECT_EQ(store_->current(), static_cast<Revision>(kWriters * kWrites));
  EXPECT_EQ(store_.problem(), "");
}

TEST_P(StoreContract, WhenManyAreQueued_CallbacksAndRevisionsComeInOrder) {
  constexpr std::size_t kCount = 5'000;
  std::vector<Revision> revisions;
  for (std::size_t i = 0; i < kCount; ++i) {
    store_->commit({put("k" + std::to_string(i % 7), std::to_string(i))},
                   [&revisions](Expected<CommitResult> result) {
                     revisions.push_back(result ? result->revision : 0);
                   });
  }
  EXPECT_EQ(write(*store_, put("end", "")), kCount + 1);
  ASSERT_EQ(revisions.size(), kCount);
  for (std::size_t i = 0; i < kCount; ++i) {
    ASSERT_EQ(revisions[i], i + 1);
  }
}

TEST_P(StoreContract, When100WritersIncrementOneKey_EachCountsOnce) {  // AM-463
  write(*store_, put("counter", "0"));
  std::vector<std::thread> writers;
  std::atomic<int> succeeded = 0;
  for (int w = 0; w < 100; ++w) {
    writers.emplace_back([this, &succeeded] {
      while (true) {
        const auto entry = store_->get("counter");
        const int next = std::stoi(std::string(entry->value.view())) + 1;
        const auto result =
            store_->commit_wait({put("counter", std::to_string(next), entry->modified)});
        if (result && !result->conflict) {
          ++succeeded;
          return;
        }
      }
    });
  }
  for (std::thread& writer : writers) {
    writer.join();
  }
  EXPECT_EQ(succeeded, 100);
  EXPECT_EQ(store_->get("counter")->value.view(), "100");
  EXPECT_EQ(store_->current(), 101U);
}

TEST_P(StoreContract, GR_102_ATransactionHasLimits) {
  const Limits limits = store_->limits();
  const auto many = [](std::size_t count) {
    std::vector<Op> ops;
    for (std::size_t i = 0; i < count; ++i) {
      ops.push_back(put("k" + std::to_string(i), "v"));
    }
    return ops;
  };
  EXPECT_TRUE(store_->commit_wait(many(limits.ops)));
  const auto more = store_->commit_wait(many(limits.ops + 1));
  ASSERT_FALSE(more);
  EXPECT_EQ(more.error().code(), Errc::kInvalid);
  EXPECT_EQ(more.error().message(), "a transaction has 101 operations, it may have 100");
  EXPECT_TRUE(store_->commit_wait({put("large", std::string(limits.value_bytes, 'x'))}));
  const auto larger =
      store_->commit_wait({put("large", std::string(limits.value_bytes, 'x')), put("small", "x")});
  ASSERT_FALSE(larger);
  EXPECT_EQ(larger.error().code(), Errc::kInvalid);
  EXPECT_EQ(larger.error().message(),
            "the values of a transaction have " + std::to_string(limits.value_bytes + 1) +
                " bytes, they may have " + std::to_string(limits.value_bytes));
}

TEST_P(StoreContract, GR_102_GuardsAreComparedAndStayAsTheyAre) {
  const Revision guard = write(*store_, put("guard", "1"));
  std::vector<CommitResult> results;
  const auto commit = [&](std::vector<Op> ops, std::vector<Op> guards) {
    std::promise<CommitResult> done;
    store_->commit(std::move(ops), std::move(guards),
                   [&done](Expected<CommitResult> result) { done.set_value(*result); });
    results.push_back(done.get_future().get());
  };
  commit({put("a", "1")}, {unchanged("guard", guard)});
  const Revision second = write(*store_, put("guard", "2"));
  commit({put("a", "2")}, {unchanged("guard", guard)});
  EXPECT_FALSE(results[0].conflict);
  EXPECT_TRUE(results[1].conflict);
  EXPECT_EQ(results[1].failed_op, 1U) << "guards are counted after the operations";
  EXPECT_EQ(results[1].actual, second);
  EXPECT_EQ(store_->get("a")->value.view(), "1");
}

TEST_P(StoreContract, GR_102_SynchronizedReadsShowWhatWasCommittedBefore) {
  const Revision revision = write(*store_, put("a", "1"));
  std::promise<Revision> done;
  store_->synchronize([&done](Expected<Revision> at) { done.set_value(*at); });
  EXPECT_GE(done.get_future().get(), revision);
  EXPECT_GE(store_->current(), revision);
}

TEST_P(StoreContract, WhenReadersRunBesideWriters_EachSeesOneRevision) {
  // Every transaction gives both keys the same value, so a torn snapshot would show.
  write(*store_, put("a", "0"), put("b", "0"));
  std::atomic<bool> stop = false;
  std::atomic<int> torn = 0;
  std::vector<std::thread> readers;
  for (int r = 0; r < 3; ++r) {
    readers.emplace_back([&] {
      Revision last = 0;
      while (!stop) {
        std::set<std::string> values;
        const auto at = store_->range({"", "", 0}, [&values](const EntryView& entry) {
          values.emplace(entry.value);
          return true;
        });
        torn += !at || values.size() != 1 || *at < last || store_->current() < *at ? 1 : 0;
        last = *at;
      }
    });
  }
  for (int i = 1; i <= 300; ++i) {
    write(*store_, put("a", std::to_string(i)), put("b", std::to_string(i)));
  }
  stop = true;
  for (std::thread& reader : readers) {
    reader.join();
  }
  EXPECT_EQ(torn, 0);
}

}  // namespace
}  // namespace kintsugi::store
