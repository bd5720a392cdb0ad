#include "topology/snapshot.h"

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "topology/index.h"
#include "topology/resolver.h"
#include "topology/testing/reports.h"

namespace kintsugi::topology {
namespace {

TEST(IndexMap, WhenUsedAtRandom_EqualsAMapAndCopiesStayAsTheyWere) {
  std::mt19937_64 random(3);
  IndexMap map;
  std::map<std::string, std::string> model;
  std::vector<std::pair<IndexMap, std::map<std::string, std::string>>> copies;
  for (int i = 0; i < 60'000; ++i) {
    const std::string key = "k" + std::to_string(random() % 9'000);
    if (random() % 3 == 0) {
      ASSERT_EQ(map.erase(key), model.erase(key) == 1);
    } else {
      const std::string value(random() % 40, static_cast<char>('a' + random() % 3));
      const auto at = model.find(key);
      const bool changed = at == model.end() || at->second != value;
      model[key] = value;
      ASSERT_EQ(map.put(key, value), changed);
    }
    if (i % 10'000 == 0) {
      copies.emplace_back(map, model);
    }
  }
  copies.emplace_back(map, model);
  for (const auto& [copy, then] : copies) {
    EXPECT_EQ(copy.size(), then.size());
    std::map<std::string, std::string> seen;
    copy.for_each([&](const IndexMap::Entry& entry) { seen.emplace(entry.key, entry.value); });
    EXPECT_EQ(seen, then);
    for (const auto& [key, value] : then) {
      ASSERT_TRUE(copy.find(key));
      EXPECT_EQ(copy.find(key)->value, value);
    }
    EXPECT_FALSE(copy.find("absent"));
  }
}

TEST(IndexMap, WhenALimitIsExceeded_ChangesNothing) {
  IndexMap map;
  EXPECT_FALSE(map.put("", "x"));
  EXPECT_FALSE(map.put(std::string(256, 'k'), "x"));
  EXPECT_FALSE(map.put("k", std::string(65'536, 'v')));
  EXPECT_EQ(map.size(), 0U);
  EXPECT_TRUE(map.put("k", "v"));
  EXPECT_FALSE(map.find(std::string(257, 'k')));  // whose length has the same lowest byte
  EXPECT_FALSE(map.erase(std::string(257, 'k')));
  EXPECT_TRUE(map.erase("k"));
  EXPECT_TRUE(map.put(std::string(255, 'k'), std::string(65'535, 'v')));
  EXPECT_EQ(map.find(std::string(255, 'k'))->value.size(), 65'535U);
}

// Two loops resolve without pause while the writer moves a cluster from shard to shard. In every
// snapshot the path resolves, and all its parts agree.
TEST(SnapshotView, WhenTheWriterMovesAClusterAllTheTime_ReadersNeverSeeHalfAMove) {
  Index index;
  ShardId ids[2];
  for (int i = 0; i < 2; ++i) {
    ShardSpec spec;
    spec.name = "s" + std::to_string(i);
    spec.base_url = "https://" + spec.name;
    ids[i] = index.upsert_shard(spec).id;
    index.set_synced(ids[i], Resource::kWorkspaces, true);
    index.set_synced(ids[i], Resource::kLogicalClusters, true);
  }
  index.set_shards_listed();
  index.upsert_cluster(ids[0], {"root", {}, {}, false});
  index.upsert_workspace(ids[0], edge("root", "org", "one"));
  SnapshotPublisher publisher;
  const auto place = [&](int round) {
    const ShardId now = ids[round % 2];
    const ShardId before = ids[(round + 1) % 2];
    index.upsert_cluster(now, owned("one", "root", "org", {}, "t:" + std::to_string(round % 2)));
    index.upsert_workspace(now, edge("one", "ws", "two"));
    index.upsert_cluster(now, owned("two", "one", "ws", {}, "t:" + std::to_string(round % 2)));
    index.delete_workspace(before, "one", "ws");
    index.delete_cluster(before, "one");
    index.delete_cluster(before, "two");
    publisher.publish(index.freeze());
  };
  place(0);

  struct Reader {
    net::Loop loop{"reader"};
    std::shared_ptr<SnapshotView> view;
    std::thread thread;
    std::atomic<std::uint64_t> reads{0}, faults{0}, generation{0};
    std::atomic<bool> stop{false};
    std::function<void()> read;
  };
  std::vector<std::unique_ptr<Reader>> readers;
  for (int i = 0; i < 2; ++i) {
    readers.push_back(std::make_unique<Reader>());
    Reader& reader = *readers.back();
    reader.view = publisher.attach(reader.loop);
    reader.read = [&reader] {
      const Snapshot& now = reader.view->current();
      const Resolution org = resolve(now, "root:org");
      const Resolution ws = resolve(now, "root:org:ws");
      const bool good = org.resolved() && ws.resolved() && org.shard == ws.shard &&
                        org.type == ws.type && org.type.back() == org.shard->spec.name.back() &&
                        now.generation() >= reader.generation;
      reader.faults += good ? 0U : 1U;
      reader.generation = now.generation();
      ++reader.reads;
      if (reader.stop) {
        reader.loop.stop();
      } else {
        reader.loop.post(reader.read);
      }
    };
    reader.loop.post(reader.read);
    reader.thread = std::thread([&reader] { reader.loop.run(); });
  }
  int round = 0;
  while (round < 2'000 || readers[0]->reads < 1'000 || readers[1]->reads < 1'000) {
    place(++round);
  }
  const std::uint64_t last = publisher.last()->generation();
  while (readers[0]->generation != last || readers[1]->generation != last) {
    std::this_thread::yield();
  }
  for (const auto& reader : readers) {
    reader->stop = true;
    reader->thread.join();
    EXPECT_EQ(reader->faults, 0U);
  }
}

TEST(SnapshotView, WhenALoopLags_GetsOnlyTheNewestAndHearsOfIt) {
  net::Loop loop("test");
  SnapshotPublisher publisher;
  Index index;
  publisher.publish(index.freeze());
  const auto view = publisher.attach(loop);
  EXPECT_EQ(view->current().generation(), 1U);
  std::vector<std::pair<std::uint64_t, std::uint64_t>> changes;
  view->on_change([&](const Snapshot& before, const Snapshot& now) {
    changes.emplace_back(before.generation(), now.generation());
    loop.stop();
  });
  for (int i = 0; i < 10; ++i) {
    publisher.publish(index.freeze());
  }
  EXPECT_EQ(view->current().generation(), 1U);
  loop.run();
  ASSERT_EQ(changes.size(), 1U);
  EXPECT_EQ(changes[0], std::pair(std::uint64_t{1}, std::uint64_t{11}));
}

}  // namespace
}  // namespace kintsugi::topology
