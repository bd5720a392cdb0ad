#include "bench/scale_model.h"

#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <random>
#include <utility>

#include "aggregation/position/cursor.h"
#include "aggregation/position/slot_table.h"
#include "topology/index.h"
#include "topology/resolver.h"

namespace kintsugi::bench {
namespace {

using aggregation::Components;
using aggregation::CursorCodec;
using aggregation::SequenceBook;
using aggregation::SlotChange;
using aggregation::SlotHistory;
using aggregation::SlotHistoryPtr;

constexpr std::size_t kOfParent = 1'000;  // logical clusters
constexpr std::int64_t kNow = 1'700'000'000;
constexpr std::size_t kChanges = 1'000;
constexpr std::size_t kByNumber = 2'000;  // shards whose cursors are numbers

double heap() {
  const struct mallinfo2 now = ::mallinfo2();
  return static_cast<double>(now.uordblks + now.hblkhd);
}

class Watch {
 public:
  [[nodiscard]] double us() const {
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin_)
        .count();
  }

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

/// As kcp names logical clusters: 16 letters and digits.
std::string cluster_name(std::size_t number) {
  std::uint64_t bits = (number + 1) * 0x9e3779b97f4a7c15ULL;
  std::string name;
  for (int i = 0; i < 16; ++i, bits = bits * 6364136223846793005ULL + 1442695040888963407ULL) {
    name += "0123456789abcdefghijklmnopqrstuvwxyz"[(bits >> 40) % 36];
  }
  return name;
}

std::string uid_of(std::size_t number) {
  std::string hex = std::to_string(100'000'000'000 + number);
  return "0a1b2c3d-0000-4000-8000-" + hex.substr(hex.size() - 12);
}

topology::ShardSpec shard_of(std::size_t number) {
  topology::ShardSpec spec;
  spec.name = number == 0 ? "root" : "shard-" + std::to_string(number);
  spec.base_url = "https://" + spec.name + ".kintsugi.example:6443";
  spec.external_url = spec.virtual_workspace_url = spec.base_url;
  spec.labels = {{"name", spec.name}, {"region", "region-" + std::to_string(number % 3)}};
  spec.uid = uid_of(number);
  return spec;
}

/// Both objects of a workspace, as their shards report them.
void add_workspace(topology::Index& index, topology::ShardId holder, topology::ShardId home,
                   const std::string& parent, const std::string& name, std::size_t number) {
  const std::string child = cluster_name(number), uid = uid_of(number);
  topology::WorkspaceReport workspace;
  workspace.cluster = parent;
  workspace.name = name;
  workspace.phase = "Ready";
  workspace.child = child;
  workspace.uid = uid;
  index.upsert_workspace(holder, workspace);
  topology::ClusterReport cluster;
  cluster.cluster = child;
  cluster.path = "";
  cluster.type = "root:universal";
  cluster.owner_cluster = parent;
  cluster.owner_name = name;
  cluster.owner_uid = uid;
  index.upsert_cluster(home, cluster);
}

SlotChange change_of(std::size_t shards) {
  SlotChange change;
  for (std::size_t i = 0; i < shards; ++i) {
    change.present.push_back(uid_of(i));
    change.labels[uid_of(i)] = "region=region-" + std::to_string(i % 3) + "\n";
  }
  return change;
}

SlotHistoryPtr history_of(std::size_t shards) {
  return std::make_shared<const SlotHistory>(*SlotHistory().changed(change_of(shards), kNow));
}

aggregation::Scope scope() { return {"/clusters/*", "", "configmaps"}; }

Components components_of(std::size_t shards, std::uint64_t first) {
  Components out(shards);
  for (std::size_t i = 0; i < shards; ++i) {
    out[i] = first + i;
  }
  return out;
}

}  // namespace

Figures index_figures(const ScaleSize& size) {
  Figures out;
  topology::Index index;
  index.set_time(kNow);
  std::vector<topology::ShardId> shards;
  for (std::size_t i = 0; i < size.shards; ++i) {
    shards.push_back(index.upsert_shard(shard_of(i)).id);
  }
  index.set_shards_listed();
  topology::ClusterReport root;
  root.cluster = "root";
  index.upsert_cluster(shards[0], root);
  const std::size_t parents = std::max<std::size_t>(1, size.clusters / kOfParent);
  const double before = heap();
  const Watch filling;
  for (std::size_t i = 0; i < size.clusters; ++i) {
    const std::size_t parent = (i - parents) / kOfParent % parents;
    const auto home = shards[i * 7 % shards.size()];
    if (i < parents) {
      add_workspace(index, shards[0], home, "root", "org-" + std::to_string(i), i);
    } else {
      add_workspace(index, shards[parent * 7 % shards.size()], home, cluster_name(parent),
                    "team-" + std::to_string(i), i);
    }
  }
  const auto count = static_cast<double>(size.clusters);
  out.push_back(
      {"index: a logical cluster and its Workspace are taken in", filling.us() / count, "us"});
  out.push_back(
      {"index: memory of a logical cluster and its Workspace", (heap() - before) / count, "B"});
  // Somebody reads the snapshot of before each change, as loops do.
  std::vector<topology::SnapshotPtr> held;
  held.reserve(kChanges);
  const double frozen = heap();
  const Watch changing;
  for (std::size_t i = 0; i < kChanges; ++i) {
    held.push_back(index.freeze());
    add_workspace(index, shards[0], shards[i % shards.size()], "root", "new-" + std::to_string(i),
                  size.clusters + i);
  }
  out.push_back({"index: a new workspace is published", changing.us() / kChanges, "us"});
  out.push_back({"index: memory that a new workspace takes from readers of before",
                 (heap() - frozen) / kChanges, "B"});
  held.clear();
  const topology::SnapshotPtr now = index.freeze();
  std::size_t found = 0;
  const Watch resolving;
  for (std::size_t i = parents; i < std::min(size.clusters, parents + 100'000); ++i) {
    const std::string path = "root:org-" + std::to_string((i - parents) / kOfParent % parents) +
                             ":team-" + std::to_string(i);
    found += topology::resolve(*now, path).resolved() ? 1U : 0U;
  }
  const auto asked = static_cast<double>(std::min(size.clusters, parents + 100'000) - parents);
  out.push_back({"index: a path of three is resolved", resolving.us() / asked, "us"});
  out.push_back({"index: paths that lead somewhere", static_cast<double>(found) / asked, "of 1"});
  return out;
}

Figures position_figures(const ScaleSize& size) {
  Figures out;
  for (const std::size_t shards : {std::size_t{3}, aggregation::kMaxFullSlots, size.shards}) {
    const CursorCodec codec(scope(), history_of(shards));
    const std::string text = codec.format(components_of(shards, 1'000'000'000));
    out.push_back({"cursor of " + std::to_string(shards) + " shards",
                   static_cast<double>(text.size()), "digits"});
    constexpr int kTurns = 20'000;
    std::size_t known = 0;
    const Watch decoding;
    for (int i = 0; i < kTurns; ++i) {
      known += codec.decode(text, std::vector<bool>(shards, true)).kind ==
                       aggregation::VersionClass::kCursor
                   ? 1U
                   : 0U;
    }
    out.push_back({"cursor of " + std::to_string(shards) + " shards is read",
                   decoding.us() / static_cast<double>(std::max<std::size_t>(known, 1)), "us"});
  }
  const SlotHistoryPtr history = history_of(size.shards);
  const std::string all = std::to_string(size.shards);
  constexpr std::uint64_t kMinted = 4'096;
  const CursorCodec codec(scope(), history);
  std::size_t digits = 0;
  const Watch writing;
  for (std::uint64_t i = 0; i < kMinted; ++i) {
    digits += codec.format(components_of(size.shards, 1'000'000'000 + i)).size();
  }
  out.push_back({"cursor of " + all + " shards is written",
                 writing.us() / static_cast<double>(std::min<std::size_t>(digits, kMinted)), "us"});
  const Watch checking;
  const CursorCodec again(scope(), history);
  out.push_back({"cursors of a resource of " + all + " shards are begun", checking.us(), "us"});
  auto book = std::make_shared<SequenceBook>();
  book->begin(7, 1);
  const CursorCodec numbers(scope(), history_of(kByNumber), book);
  std::string text;
  for (std::uint64_t i = 0; i < kMinted; ++i) {
    text = numbers.format(components_of(kByNumber, 1'000'000'000 + i));
  }
  const std::string more = std::to_string(kByNumber);
  out.push_back({"cursor of " + more + " shards", static_cast<double>(text.size()), "digits"});
  const SequenceBook::Stats stats = book->stats();
  out.push_back({"memory of what a cursor of " + more + " shards stands for",
                 static_cast<double>(stats.bytes) / static_cast<double>(stats.vectors), "B"});
  const double before = heap();
  SlotHistory table = *history;
  SlotChange change = change_of(size.shards);
  constexpr std::uint32_t kGenerations = 20;
  const Watch turning;
  for (std::uint32_t i = 0; i < kGenerations; ++i) {
    change.labels.begin()->second = "region=" + std::to_string(i) + "\n";
    table = *table.changed(change, kNow + i);
  }
  out.push_back({"slots of " + all + " shards: a change", turning.us() / kGenerations, "us"});
  out.push_back({"slots of " + all + " shards: memory of a generation",
                 (heap() - before) / (kGenerations + 1), "B"});
  const double one = static_cast<double>(history->to_json().dump().size());
  const double later = static_cast<double>(table.to_json().dump().size());
  out.push_back({"slots of " + all + " shards: record of one generation", one, "B"});
  out.push_back(
      {"slots of " + all + " shards: each generation more", (later - one) / kGenerations, "B"});
  return out;
}

namespace {

/// How many cursors of a proxy that is lost are known at another one.
double known_elsewhere(std::size_t shards, std::size_t watches) {
  const SlotHistoryPtr history = history_of(shards);
  auto here = std::make_shared<SequenceBook>(), there = std::make_shared<SequenceBook>();
  here->begin(1, 1);
  there->begin(2, 1);
  const CursorCodec lost(scope(), history, here), other(scope(), history, there);
  const std::vector<bool> members(shards, true);
  std::size_t known = 0;
  for (std::size_t i = 0; i < watches; ++i) {
    const std::string cursor = lost.format(components_of(shards, 1'000'000 + i));
    known += other.decode(cursor, members).kind == aggregation::VersionClass::kCursor ? 1U : 0U;
  }
  return static_cast<double>(known) / static_cast<double>(watches);
}

}  // namespace

Figures storm_figures(const ScaleSize& size, const StormCosts& costs) {
  const std::size_t left = costs.loops - costs.loops / 3;
  const std::size_t connections = size.watches / 3 / costs.streams;
  std::mt19937_64 random(size.seed);
  // Clients see it within a second, and choose by chance.
  std::vector<std::pair<double, std::size_t>> arrivals;
  for (std::size_t i = 0; i < connections; ++i) {
    arrivals.emplace_back(static_cast<double>(random() % 1'000'000), random() % left);
  }
  std::sort(arrivals.begin(), arrivals.end());
  std::vector<double> free_at(left);
  std::vector<double> back;
  for (const auto& [at, loop] : arrivals) {
    double& busy = free_at[loop];
    busy = std::max(busy, at) + costs.connection_us +
           costs.watch_us * static_cast<double>(costs.streams);
    back.push_back(busy - at);
  }
  std::sort(back.begin(), back.end());
  const std::size_t sample = std::min<std::size_t>(size.watches / 3, 10'000);
  const double last = *std::max_element(free_at.begin(), free_at.end());
  return {
      {"storm: watches that come back", static_cast<double>(connections * costs.streams),
       "watches"},
      {"storm: half of the connections are back after", back[back.size() / 2] / 1e6, "s counted"},
      {"storm: the last one is back after", last / 1e6, "s counted"},
      {"storm: cursors known elsewhere, 64 shards",
       known_elsewhere(aggregation::kMaxFullSlots, sample), "of 1"},
      {"storm: cursors known elsewhere, 1000 shards",
       known_elsewhere(1'000, std::min<std::size_t>(sample, 1'000)), "of 1"},
      {"storm: cursors known elsewhere, " + std::to_string(kByNumber) + " shards",
       known_elsewhere(kByNumber, std::min<std::size_t>(sample, 1'000)), "of 1"},
  };
}

}  // namespace kintsugi::bench
