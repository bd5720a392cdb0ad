#include "workers/runtime/queue/internal/scope_table.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <utility>

namespace kintsugi::workers {
namespace {

using Pair = std::pair<std::string, std::string>;

class Scopes {
 public:
  void take(const Pair& pair) {
    const std::uint64_t hash = table.hash_of(pair.first, pair.second);
    const ScopeTable::Ref ref = table.take(pair.first, pair.second, hash, texts);
    ASSERT_EQ(ScopeTable::cluster(ref, texts), pair.first);
    ASSERT_EQ(ScopeTable::ns(ref, texts), pair.second);
    auto& [known, users] = model[pair];
    ASSERT_TRUE(users == 0 || known == ref) << "kept once";
    known = ref;
    ++users;
  }
  void drop(const Pair& pair) {
    auto& [known, users] = model.at(pair);
    table.drop(known, texts);
    if (--users == 0) {
      model.erase(pair);
    }
  }

  TextSlab texts;
  ScopeTable table{7};
  std::map<Pair, std::pair<ScopeTable::Ref, int>> model;
};

TEST(ScopeTable, RT40_APairIsKeptOnceAsLongAsItHasUsers) {
  std::mt19937_64 random(1);
  Scopes tested;
  for (int step = 0; step < 200'000 && !testing::Test::HasFatalFailure(); ++step) {
    const bool grows = step % 50'000 < 30'000;
    if (tested.model.empty() || random() % 10 < (grows ? 7U : 2U)) {
      tested.take({"c" + std::to_string(random() % 40'000), std::string(random() % 3, 'n')});
    } else {
      auto at = tested.model.lower_bound({"c" + std::to_string(random() % 40'000), ""});
      tested.drop(at == tested.model.end() ? tested.model.begin()->first : Pair(at->first));
    }
    ASSERT_EQ(tested.table.size(), tested.model.size());
  }
  while (!tested.model.empty()) {
    tested.drop(Pair(tested.model.begin()->first));
  }
  EXPECT_EQ(tested.table.size(), 0U);
}

// Texts of other keys take numbers, too: those of pairs then need more bits.
TEST(ScopeTable, RT40_PairsStayWhenTheirNumbersNeedMoreBits) {
  Scopes tested;
  constexpr int kPairs = 200;
  for (int i = 0; i < kPairs; ++i) {
    tested.take({"c", std::string(static_cast<std::size_t>(i), 'n')});
    for (int k = 0; k < 1'400; ++k) {
      (void)tested.texts.allocate(TextSlab::kMaxBytes);
    }
  }
  ASSERT_GT(tested.model.at({"c", std::string(kPairs - 1, 'n')}).first, 1U << 24U);
  for (int i = 0; i < kPairs; ++i) {
    tested.take({"c", std::string(static_cast<std::size_t>(i), 'n')});
  }
  EXPECT_EQ(tested.table.size(), static_cast<std::size_t>(kPairs));
}

}  // namespace
}  // namespace kintsugi::workers
