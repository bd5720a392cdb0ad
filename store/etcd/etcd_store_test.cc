#include "store/etcd/etcd_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <future>
#include <map>
#include <mutex>
#include <thread>

#include "net/x509_maker.h"
#include "store/etcd/testing/etcd_raw.h"
#include "store/testing/etcd_replica.h"

namespace kintsugi::store {
namespace {

using ::testing::ElementsAre;

class EtcdStoreTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (etcd_program().empty()) {
      GTEST_SKIP() << "no etcd on this machine";
    }
    static int count = 0;
    prefix_ = "/test/" + std::to_string(++count);
  }
  [[nodiscard]] Replica replica() const { return {test_etcd().url(), prefix_}; }
  std::string prefix_;
};

/// As one who tries again while etcd elects a leader.
bool catches_up(Store& store, Revision revision) {
  const TimePoint end = Clock::now() + seconds(60);
  Revision at = 0;
  while (at < revision && Clock::now() < end) {
    at = synchronized(store);
  }
  return at >= revision;
}

TEST_F(EtcdStoreTest, GR_101_WritesAreReadAndToldInOrder) {
  Replica store(test_etcd().url(), prefix_);
  std::mutex mutex;
  std::vector<std::string> told;
  const auto subscription = store->subscribe([&](const EventBatch& batch) {
    const std::lock_guard lock(mutex);
    for (const Event& event : *batch) {
      told.push_back((event.type == EventType::kPut ? "+" : "-") + event.key + "=" +
                     std::string(event.value.view()) + "<" + std::string(event.previous.view()));
    }
  });
  const Revision a = write(*store, put("a", "1", 0));
  const Revision b = write(*store, put("a", "2", a), put("b", "x"));
  const Revision c = write(*store, erase("a", b, "last"));
  ASSERT_NE(c, 0U);
  EXPECT_LT(a, b);
  EXPECT_LT(b, c);
  EXPECT_EQ(store->current(), c);
  EXPECT_THAT(rows(*store, {}), ElementsAre("b=x@" + std::to_string(b) + "/" + std::to_string(b)));
  EXPECT_THAT(rows(*store, {"", "", b}),
              ElementsAre("a=2@" + std::to_string(b) + "/" + std::to_string(a),
                          "b=x@" + std::to_string(b) + "/" + std::to_string(b)));
  const std::lock_guard lock(mutex);
  EXPECT_THAT(told, ElementsAre("+a=1<", "+a=2<1", "+b=x<", "-a=last<2"));
}

TEST_F(EtcdStoreTest, GR_102_ConflictsTellTheFirstAndWhatIsThere) {
  Replica store = replica();
  const Revision a = write(*store, put("a", "1"), put("b", "1"));
  const auto stale = store->commit_wait({put("c", "1", 0), put("a", "2", a + 5), put("b", "2", a)});
  ASSERT_TRUE(stale) << stale.error().to_string();
  EXPECT_TRUE(stale->conflict);
  EXPECT_EQ(stale->failed_op, 1U);
  EXPECT_EQ(stale->actual, a);
  const auto there = store->commit_wait({put("a", "2", 0)});
  EXPECT_TRUE(there->conflict);
  EXPECT_EQ(there->actual, a);
  const auto guarded = store->commit_wait({put("c", "1"), unchanged("b", a + 9)});
  EXPECT_TRUE(guarded->conflict);
  EXPECT_EQ(guarded->failed_op, 1U);
  EXPECT_EQ(store->get("c").error().code(), Errc::kNotFound);
  EXPECT_EQ(store->current(), a);
}

TEST_F(EtcdStoreTest, WhatChangesNothingTakesNoRevision) {
  Replica store = replica();
  const Revision a = write(*store, put("a", "1"));
  const auto nothing = store->commit_wait({erase("absent")});
  ASSERT_TRUE(nothing);
  EXPECT_FALSE(nothing->conflict);
  EXPECT_EQ(nothing->revision, a);
  const Revision erased = write(*store, erase("a"));
  EXPECT_GT(erased, a);
  EXPECT_EQ(store->current(), erased);
}

TEST_F(EtcdStoreTest, GR_103_WhoIsAnsweredCanReadAndSubscribersHaveHeard) {
  Replica store = replica();
  std::atomic<Revision> heard = 0;
  const auto subscription =
      store->subscribe([&heard](const EventBatch& batch) { heard = batch->back().revision; });
  std::promise<void> all;
  std::atomic<int> left = 300;
  std::atomic<int> wrong = 0;
  for (int i = 0; i < 300; ++i) {
    const std::string key = "k" + std::to_string(i % 40);
    store->commit({put(key, std::to_string(i))}, [&, key](const Expected<CommitResult>& result) {
      const bool right = result && !result->conflict && heard >= result->revision &&
                         store->current() >= result->revision && store->get(key).has_value();
      wrong += right ? 0 : 1;
      if (--left == 0) {
        all.set_value();
      }
    });
  }
  all.get_future().wait();
  EXPECT_EQ(wrong, 0);
  for (int i = 260; i < 300; ++i) {
    EXPECT_EQ(store->get("k" + std::to_string(i % 40))->value.view(), std::to_string(i))
        << "writes of one key stay in order";
  }
}

TEST_F(EtcdStoreTest, GR_119_AnotherReplicaReadsWhatWasAcknowledged) {
  Replica one = replica();
  Replica two = replica();
  for (int i = 0; i < 100; ++i) {
    const Revision written = write(*one, put("a", std::to_string(i)));
    const Revision at = synchronized(*two);
    EXPECT_GE(at, written);
    EXPECT_EQ(two->get("a")->value.view(), std::to_string(i));
  }
  const auto stats = two->etcd_stats();
  EXPECT_LE(stats.head_reads, 130U) << "and the guard's";
}

TEST_F(EtcdStoreTest, GR_119_AWriteIsSeenElsewhereSoon) {
  Replica one = replica();
  Replica two = replica();
  std::mutex mutex;
  std::condition_variable changed;
  Revision seen = 0;
  std::vector<Duration> took;
  const auto subscription = two->subscribe([&](const EventBatch& batch) {
    const std::lock_guard lock(mutex);
    seen = batch->back().revision;
    changed.notify_all();
  });
  for (int i = 0; i < 50; ++i) {
    const TimePoint begin = Clock::now();
    const Revision written = write(*one, put("a", std::to_string(i)));
    std::unique_lock lock(mutex);
    EXPECT_TRUE(changed.wait_for(lock, seconds(60), [&] { return seen >= written; }));
    took.push_back(Clock::now() - begin);
  }
  std::sort(took.begin(), took.end());
  // From the begin of the write; GR-119 asks for 50 ms, which a busy machine may not have.
  RecordProperty("median_us", static_cast<int>(took[25] / std::chrono::microseconds(1)));
}

TEST_F(EtcdStoreTest, AM_463_ACounterOfTwoReplicasLosesNothing) {
  Replica one = replica();
  Replica two = replica();
  write(*one, put("counter", "0"));
  std::atomic<int> succeeded = 0;
  std::vector<std::thread> writers;
  for (int w = 0; w < 8; ++w) {
    writers.emplace_back([&, w] {
      EtcdStore& store = w % 2 == 0 ? *one : *two;
      for (int done = 0; done < 10;) {
        const auto entry = store.get("counter");
        if (!entry) {
          continue;  // the other replica has not heard of it yet
        }
        const int next = std::stoi(std::string(entry->value.view())) + 1;
        const auto result =
            store.commit_wait({put("counter", std::to_string(next), entry->modified)});
        if (result && !result->conflict) {
          ++succeeded;
          ++done;
        }
      }
    });
  }
  for (std::thread& writer : writers) {
    writer.join();
  }
  EXPECT_EQ(succeeded, 80);
  synchronized(*one);
  EXPECT_EQ(one->get("counter")->value.view(), "80");
}

TEST_F(EtcdStoreTest, GR_117_AReplicaThatStartsHasEverything) {
  std::vector<std::string> before;
  Revision last = 0;
  {
    Replica writer = replica();
    for (int i = 0; i < 250; ++i) {
      write(*writer, put("key" + std::to_string(i % 100), std::to_string(i)));
    }
    last = write(*writer, erase("key7"));
    before = rows(*writer, {});
  }
  Replica fresh = replica();
  EXPECT_EQ(rows(*fresh, {}), before);
  EXPECT_GE(fresh->current(), last);
  EXPECT_EQ(fresh->changes("", 1, 10).error().code(), Errc::kCompacted);
}

TEST_F(EtcdStoreTest, GR_117_AMirrorThatIsThereGoesOn) {
  Replica store = replica();
  Replica other = replica();
  const Revision a = write(*store, put("a", "1"));
  store.close();
  write(*other, put("b", "1"), put("a", "2"));
  const Revision last = write(*other, erase("b", {}, "gone"));
  store.reopen();
  EXPECT_EQ(store->etcd_stats().resyncs, 0U);
  EXPECT_GE(store->current(), last);
  const auto changes = store->changes("", a, 100);
  ASSERT_TRUE(changes) << "its history is still there";
  ASSERT_EQ(changes->events.size(), 3U);
  EXPECT_EQ(changes->events[2].value.view(), "gone");
}

TEST_F(EtcdStoreTest, GR_105_WhatStrangersWroteHurtsNobodyElse) {
  Replica store = replica();
  write(*store, put("a", "1"), put("b", "1"));
  ASSERT_TRUE(put_raw(prefix_ + "/x/a", "garbage"));
  ASSERT_TRUE(put_raw(prefix_ + "/o/foreign", "?"));
  ASSERT_NE(synchronized(*store), 0U);
  EXPECT_EQ(store->get("a").error().code(), Errc::kCorrupt);
  EXPECT_EQ(store->get("b")->value.view(), "1");
  EXPECT_EQ(store->range({}, [](const EntryView&) { return true; }).error().code(), Errc::kCorrupt);
  EXPECT_EQ(store->etcd_stats().corrupt, 1U);
  const auto whole = store->commit_wait({put("a", "2")});
  ASSERT_TRUE(whole);
  EXPECT_EQ(store->get("a")->value.view(), "2");
  EXPECT_EQ(store->etcd_stats().corrupt, 0U);
}

TEST_F(EtcdStoreTest, GR_111_AsLargeAsItMayBe) {
  Replica store = replica();
  const Limits limits = store->limits();
  EXPECT_EQ(limits.value_bytes, 1'556'480U + 8'192U);
  EXPECT_NE(write(*store, put("large", std::string(limits.value_bytes, 'x'))), 0U);
  EXPECT_EQ(store->get("large")->value.size(), limits.value_bytes);
  EXPECT_EQ(error_of(store->commit_wait({put("large", std::string(limits.value_bytes + 1, 'x'))})),
            Errc::kInvalid);
  std::vector<Op> many;
  for (std::size_t i = 0; i < limits.ops; ++i) {
    many.push_back(put("k" + std::to_string(i), "v", 0));
  }
  EXPECT_TRUE(store->commit_wait(many));
  many.push_back(put("more", "v"));
  EXPECT_EQ(error_of(store->commit_wait(std::move(many))), Errc::kInvalid);
}

TEST_F(EtcdStoreTest, GR_124_WhatCannotBeIsSaidAtOnce) {
  EtcdParams params;
  params.prefix = "/";
  params.endpoints = {test_etcd().url()};
  EXPECT_EQ(EtcdStore::open(params).error().code(), Errc::kConfig);
  params.prefix = "/p";
  params.endpoints = {"http://192.0.2.1:2379"};
  EXPECT_EQ(EtcdStore::open(params).error().code(), Errc::kConfig) << "no http to other machines";
  params.endpoints = {"nonsense"};
  EXPECT_EQ(EtcdStore::open(params).error().code(), Errc::kConfig);
  params.endpoints = {"http://127.0.0.1:" + std::to_string(free_port())};
  params.start_timeout = milliseconds(300);
  params.mirror_directory = TempDir().data();
  EXPECT_EQ(EtcdStore::open(params).error().code(), Errc::kUnavailable);
}

TEST_F(EtcdStoreTest, GR_124_AnotherPrefixUnderTheSameNameIsRefused) {
  Replica store = replica();
  write(*store, put("a", "1"));
  store.close();
  EtcdServer other;
  EtcdParams params = store.params();
  params.endpoints = {other.url()};
  const auto opened = EtcdStore::open(params);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code(), Errc::kConfig) << opened.error().to_string();
}

TEST_F(EtcdStoreTest, GR_114_EtcdGoesAndComesBack) {
  EtcdServer own;
  Replica store(own.url(), prefix_);
  const Revision before = write(*store, put("a", "1"));
  own.kill();
  EXPECT_EQ(store->get("a")->modified, before) << "reads go on";
  std::promise<Expected<CommitResult>> answer;
  store->commit({put("b", "1")},
                [&answer](Expected<CommitResult> result) { answer.set_value(std::move(result)); });
  own.start();
  auto result = answer.get_future().get();
  ASSERT_TRUE(result) << result.error().to_string();
  EXPECT_FALSE(result->conflict);
  EXPECT_EQ(store->get("b")->modified, result->revision);
  EXPECT_NE(synchronized(*store), 0U);
  EXPECT_EQ(store->get("a")->value.view(), "1");
}

TEST_F(EtcdStoreTest, GR_121_WhatIsTooOldIsNotAnswered) {
  EtcdServer own;
  Replica store(own.url(), prefix_);
  write(*store, put("a", "1"));
  store.close();
  store.params().stale_limit = milliseconds(2'500);
  store.reopen();
  const auto becomes = [&store](bool readable) {
    const TimePoint until = Clock::now() + seconds(20);
    while (store->get("a").has_value() != readable && Clock::now() < until) {
      std::this_thread::sleep_for(milliseconds(20));
    }
    return store->get("a").has_value() == readable;
  };
  EXPECT_TRUE(becomes(true));
  own.kill();
  EXPECT_TRUE(becomes(false));
  EXPECT_EQ(store->get("a").error().code(), Errc::kUnavailable);
  EXPECT_EQ(store->range({}, [](const EntryView&) { return true; }).error().code(),
            Errc::kUnavailable);
  own.start();
  EXPECT_TRUE(becomes(true));
}

TEST_F(EtcdStoreTest, GR_108_WithoutEtcd_WritesEndAtTheirDeadline) {
  EtcdServer own;
  Replica store(own.url(), prefix_);
  write(*store, put("a", "1"));
  store.close();
  store.params().write_timeout = milliseconds(600);
  store.params().synchronize_timeout = milliseconds(400);
  store.reopen();
  own.kill();
  const auto result = store->commit_wait({put("b", "1")});
  ASSERT_FALSE(result);
  EXPECT_TRUE(result.error().code() == Errc::kUnavailable ||
              result.error().code() == Errc::kTimeout)
      << result.error().to_string();
  EXPECT_EQ(synchronized(*store), 0U);
}

TEST_F(EtcdStoreTest, GR_109_KilledAgainAndAgain_NothingIsLostOrDoneTwice) {
  EtcdServer own;
  Replica store(own.url(), prefix_);
  write(*store, put("counter", "0"));
  std::atomic<int> acknowledged = 0, unknown = 0, tries = 0;
  std::thread writer([&] {
    while (tries < 400) {
      const auto entry = store->get("counter");
      const int now = std::stoi(std::string(entry->value.view()));
      EXPECT_GE(now, acknowledged);
      const auto result =
          store->commit_wait({put("counter", std::to_string(now + 1), entry->modified)});
      acknowledged += result && !result->conflict ? 1 : 0;
      unknown += result ? 0 : 1;
      ++tries;
    }
  });
  for (int i = 1; i <= 3; ++i) {  // here: etcd ends with the thread that has started it
    while (tries < i * 100) {
      std::this_thread::yield();
    }
    own.kill();
    own.start();
  }
  writer.join();
  ASSERT_NE(synchronized(*store), 0U);
  const int end = std::stoi(std::string(store->get("counter")->value.view()));
  EXPECT_GE(end, acknowledged);
  EXPECT_LE(end, acknowledged + unknown) << "what failed by a conflict was not done";
  EXPECT_GT(acknowledged, tries / 2);
  RecordProperty("unresolved", unknown);  // after ten seconds; none, unless the disk stands still
}

TEST_F(EtcdStoreTest, GR_115_CompactedByOthers_OnlyHistoryIsLost) {
  Replica one = replica();
  Replica two = replica();
  const Revision first = write(*one, put("a", "1"), put("b", "1"));
  two.close();
  write(*one, erase("b"), erase("a"));
  write(*one, put("c", "1"), put("d", "1"));
  const Revision last = write(*one, put("a", "2"));
  ASSERT_TRUE(compact_raw(test_etcd().url(), last));
  two.reopen();
  EXPECT_EQ(two->etcd_stats().resyncs, 1U);
  EXPECT_EQ(rows(*two, {}), rows(*one, {}));
  EXPECT_EQ(two->changes("", first, 10).error().code(), Errc::kCompacted);
  EXPECT_TRUE(one->changes("", first, 10)) << "who has the history goes on with it";
  const Revision more = write(*two, put("d", "2"));
  ASSERT_NE(synchronized(*one), 0U);
  EXPECT_EQ(one->get("d")->modified, more);
}

TEST_F(EtcdStoreTest, GR_118_CompactsWhatItHasSeenForLong) {
  EtcdServer own;
  Replica late(own.url(), prefix_);
  write(*late, put("a", "1"));
  late.close();
  Replica store(own.url(), prefix_);
  store.close();
  store.params().compacts = true;
  store.params().compaction_interval = milliseconds(50);
  store.params().history_age = milliseconds(200);
  store.params().history_events = 5;
  store.reopen();
  // Until one that stopped at the begin finds its history gone.
  std::uint64_t resyncs = 0;
  for (int i = 0; i < 100 && resyncs == 0; ++i) {
    write(*store, put("a", std::to_string(i)), put("b" + std::to_string(i), "1"));
    std::this_thread::sleep_for(milliseconds(20));
    if (i % 20 == 19) {
      late.reopen();
      resyncs = late->etcd_stats().resyncs;
      late.close();
    }
  }
  EXPECT_GE(resyncs, 1U);
  late.reopen();
  EXPECT_EQ(rows(*late, {}), rows(*store, {}));
}

TEST_F(EtcdStoreTest, GR_114_TheMemberThatIsAskedStops) {
  EtcdCluster cluster;
  Replica store(cluster.urls(), prefix_);
  Replica other(cluster.urls(), prefix_);
  // It may be the leader that stops: how long the others take to elect one is not what is tested.
  store.params().write_timeout = seconds(60);
  store.reopen();
  Revision last = write(*store, put("a", "0"));
  ASSERT_NE(last, 0U);
  for (const int number : {SIGSTOP, SIGKILL}) {
    for (std::size_t i = 0; i < (number == SIGSTOP ? 3U : 1U); ++i) {
      if (number == SIGSTOP) {
        cluster.member(i).signal(SIGSTOP);
      } else {
        cluster.member(i).kill();
      }
      const Revision next = write(*store, put("a", std::to_string(i)));
      EXPECT_GT(next, last);
      last = next;
      EXPECT_TRUE(catches_up(*other, last));
      if (number == SIGSTOP) {
        cluster.member(i).signal(SIGCONT);
      } else {
        cluster.member(i).start();
      }
    }
  }
}

TEST_F(EtcdStoreTest, GR_110_WithoutSpace_DeletesAndReadsGoOn) {
  EtcdOptions options;
  options.flags = {"--quota-backend-bytes=8388608"};
  EtcdServer own(std::move(options));
  Replica store(own.url(), prefix_);
  Replica beside(own.url(), prefix_);
  Replica other(own.url(), prefix_ + "/other");
  write(*other, put("a", "1"));
  Errc error = Errc::kOk;
  int written = 0;
  for (; written < 40 && error == Errc::kOk; ++written) {
    error = error_of(
        store->commit_wait({put("k" + std::to_string(written), std::string(1'000'000, 'x'))}));
  }
  EXPECT_EQ(error, Errc::kFull);
  EXPECT_GT(written, 2);
  const std::string last = "k" + std::to_string(written - 1);
  ASSERT_NE(synchronized(*store), 0U);
  EXPECT_EQ(store->get(last).error().code(), Errc::kNotFound) << "what is refused is not there";
  EXPECT_EQ(store->health().error().code(), Errc::kFull);
  EXPECT_EQ(store->get("k0")->value.size(), 1'000'000U);
  const auto deleted = store->commit_wait({erase("k0")});
  ASSERT_TRUE(deleted) << deleted.error().to_string();
  EXPECT_EQ(store->get("k0").error().code(), Errc::kNotFound);
  // Etcd is further than what is under this prefix, and a write that would tell so is refused.
  EXPECT_GE(synchronized(*other), deleted->revision);
  EXPECT_EQ(other->etcd_stats().watches, 1U);
  // Also while more is deleted than has been looked at: that is no older history.
  for (int i = 1; i < written - 1; ++i) {
    other->synchronize([](const Expected<Revision>&) {});
    beside->synchronize([](const Expected<Revision>&) {});
    EXPECT_NE(write(*store, erase("k" + std::to_string(i))), 0U);
  }
  EXPECT_NE(synchronized(*beside), 0U);
  EXPECT_EQ(beside->get("k1").error().code(), Errc::kNotFound);
  EXPECT_EQ(other->get("a")->value.view(), "1");
}

// Etcd does what takes it beyond its quota, and says that it has no space.
TEST_F(EtcdStoreTest, GR_110_WhatWasDoneWithTheLastSpaceIsDone) {
  EtcdOptions options;
  options.flags = {"--quota-backend-bytes=8388608"};
  EtcdServer own(std::move(options));
  Replica store(own.url(), prefix_);
  int refused = 0;
  for (int round = 0; round < 20 && refused == 0; ++round) {
    std::mutex mutex;
    std::map<std::string, Errc> answers;
    int left = 60;
    std::promise<void> all;
    for (int i = 0; i < 60; ++i) {  // many pass the first check before the last that has space
      const std::string key = "k" + std::to_string(round) + "-" + std::to_string(i);
      store->commit({put(key, std::string(50'000, 'x'))}, [&, key](const auto& result) {
        const std::lock_guard lock(mutex);
        answers[key] = error_of(result);
        if (--left == 0) {
          all.set_value();
        }
      });
    }
    all.get_future().wait();
    ASSERT_NE(synchronized(*store), 0U);
    const std::lock_guard lock(mutex);
    for (const auto& [key, answer] : answers) {
      if (answer == Errc::kOk || answer == Errc::kFull) {  // else it may have happened
        EXPECT_EQ(answer == Errc::kOk, store->get(key).has_value()) << key << errc_name(answer);
      }
      refused += answer != Errc::kOk ? 1 : 0;
    }
  }
  EXPECT_GT(refused, 0);
}

TEST_F(EtcdStoreTest, GR_124_WithCertificatesOfBothSides) {
  const TempDir folder;
  std::filesystem::create_directories(folder.data());
  const auto file = [&folder](const char* name, std::string_view text) {
    const std::string path = folder.data() + "/" + name;
    std::ofstream(path) << text;
    std::filesystem::permissions(path, std::filesystem::perms::owner_read);
    return path;
  };
  const auto ca = net::make_ca("test");
  const auto other_ca = net::make_ca("other");
  ASSERT_TRUE(ca && other_ca);
  net::CertificateRequest request;
  request.common_name = "etcd";
  request.dns_names = {"localhost"};
  request.ip_addresses = {"127.0.0.1"};
  request.client = true;
  request.server = true;
  const auto pair = net::issue(*ca, request);
  ASSERT_TRUE(pair);
  EtcdOptions options;
  options.scheme = "https";
  options.flags = {"--cert-file=" + file("crt", pair->certificate_pem),
                   "--key-file=" + file("key", pair->key_pem.view()), "--client-cert-auth",
                   "--trusted-ca-file=" + file("ca", ca->certificate_pem)};
  EtcdServer own(std::move(options));
  EtcdParams params;
  params.endpoints = {own.url()};
  params.prefix = prefix_;
  const TempDir mirror;
  params.mirror_directory = mirror.data();
  params.ca_file = folder.data() + "/ca";
  params.cert_file = folder.data() + "/crt";
  params.key_file = folder.data() + "/key";
  {
    auto opened = EtcdStore::open(params);
    ASSERT_TRUE(opened) << opened.error().to_string();
    EXPECT_NE(write(**opened, put("a", "1")), 0U);
    EXPECT_TRUE((*opened)->reload_tls());
  }
  params.start_timeout = milliseconds(300);
  params.ca_file = file("other", other_ca->certificate_pem);
  const auto refused = EtcdStore::open(params);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Errc::kUnavailable);
}

}  // namespace
}  // namespace kintsugi::store
