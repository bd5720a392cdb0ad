#include "workers/messaging/model/number_index.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace kintsugi::workers {
namespace {

TEST(NumberIndex, WhenNumbersComeAndGo_ItIsAsAMap) {
  NumberIndex index;
  std::map<int, std::uint32_t> model;
  std::vector<int> records(2'000);
  std::mt19937 random(5);
  // Few hashes, so that rows of slots grow together and come apart.
  const auto hash = [](int value) { return static_cast<std::uint64_t>(value / 7); };
  const auto hash_of = [&](std::uint32_t number) { return hash(records[number]); };
  for (int step = 0; step < 30'000; ++step) {
    const int value = static_cast<int>(random() % 1'500);
    const std::uint32_t found =
        index.find(hash(value), [&](std::uint32_t number) { return records[number] == value; });
    const auto at = model.find(value);
    ASSERT_EQ(found, at == model.end() ? NumberIndex::kNone : at->second);
    if (at == model.end()) {
      const auto number = static_cast<std::uint32_t>(value);
      records[number] = value;
      index.add(hash(value), number, hash_of);
      model[value] = number;
    } else {
      index.remove(hash(value), at->second, hash_of);
      model.erase(at);
    }
    ASSERT_EQ(index.size(), model.size());
  }
}

}  // namespace
}  // namespace kintsugi::workers
