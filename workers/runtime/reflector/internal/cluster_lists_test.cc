#include "workers/runtime/reflector/internal/cluster_lists.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>
#include <string>

namespace kintsugi::workers {
namespace {

TEST(ClusterLists, AnObjectOfAClusterIsFoundAsLongAsThereIsOne) {
  std::mt19937_64 random(1);
  ClusterLists tested;
  std::map<std::string, std::set<ClusterLists::Id>> model;
  std::map<ClusterLists::Id, std::string> of;
  for (int step = 0; step < 20'000; ++step) {
    const auto id = static_cast<ClusterLists::Id>(random() % 40);
    if (const auto known = of.find(id); known != of.end()) {
      tested.remove(known->second, id);
      model[known->second].erase(id);
      of.erase(known);
    } else {
      const std::string cluster(1, static_cast<char>('a' + random() % 6));
      tested.add(cluster, id);
      model[cluster].insert(id);
      of[id] = cluster;
    }
    std::size_t clusters = 0;
    for (const auto& [cluster, ids] : model) {
      const auto found = tested.any(cluster);
      ASSERT_EQ(found.has_value(), !ids.empty());
      ASSERT_TRUE(!found || ids.contains(*found));
      clusters += ids.empty() ? 0 : 1;
    }
    ASSERT_EQ(tested.clusters(), clusters);
  }
}

}  // namespace
}  // namespace kintsugi::workers
