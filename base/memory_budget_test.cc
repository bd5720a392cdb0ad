#include "base/memory_budget.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace kintsugi {
namespace {

using Claim = MemoryBudget::Claim;
using Fit = MemoryBudget::Fit;

constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr auto kBodies = MemoryAccount::kBodies;

std::shared_ptr<MemoryBudget> budget_of(std::size_t bytes) {
  return std::make_shared<MemoryBudget>(bytes);
}

TEST(MemoryBudget, SE079_WhenAPayerIsOverHisBound_OnlyHeWaits) {
  const auto budget = budget_of(1'000 * kMiB);
  Claim mine(budget, kBodies, "me", {4 * kMiB, false}),
      more(budget, kBodies, "me", {4 * kMiB, false});
  Claim other(budget, kBodies, "you", {4 * kMiB, false});
  EXPECT_EQ(mine.set(3 * kMiB), Fit::kFits);
  EXPECT_EQ(more.set(1 * kMiB), Fit::kFits);
  EXPECT_EQ(more.set(2 * kMiB), Fit::kCrowded);
  EXPECT_EQ(more.set(6 * kMiB), Fit::kFull);
  EXPECT_EQ(other.set(4 * kMiB), Fit::kFits);
  EXPECT_EQ(budget->used(kBodies), 13 * kMiB);
  EXPECT_EQ(mine.set(0), Fit::kFits);
  EXPECT_EQ(more.set(4 * kMiB), Fit::kFits);
}

TEST(MemoryBudget, SE079_WhenOneMayGoBeyond_ItIsAlwaysTheSameUntilItIsGone) {
  const auto budget = budget_of(1'000 * kMiB);
  const MemoryBudget::Bounds bounds{kMiB, true};
  Claim second(budget, kBodies, "me", bounds);
  {
    Claim first(budget, kBodies, "me", bounds);
    EXPECT_EQ(first.set(8 * kMiB), Fit::kFits);
    EXPECT_EQ(second.set(1), Fit::kCrowded);
    EXPECT_EQ(second.set(3 * kMiB), Fit::kFull);
    EXPECT_EQ(second.set(1), Fit::kCrowded);
    EXPECT_EQ(first.set(9 * kMiB), Fit::kFits);
  }
  EXPECT_EQ(second.set(5 * kMiB), Fit::kFits);
}

TEST(MemoryBudget, SE090_WhenTheAccountsPartIsUsedUp_EverybodyWaitsAndNobodyElses) {
  const auto budget = budget_of(100 * kMiB);  // bodies: 10, lists: 20
  Claim one(budget, kBodies, "a", {64 * kMiB, true}), two(budget, kBodies, "b", {64 * kMiB, true});
  EXPECT_EQ(one.set(10 * kMiB), Fit::kFits);
  EXPECT_EQ(two.set(kMiB), Fit::kCrowded);
  EXPECT_EQ(two.set(3 * kMiB + kMiB), Fit::kFull);
  Claim list(budget, MemoryAccount::kLists, "a", {64 * kMiB, false});
  EXPECT_EQ(list.set(20 * kMiB), Fit::kFits);
  EXPECT_EQ(list.set(21 * kMiB), Fit::kCrowded);
  EXPECT_EQ(two.set(0), Fit::kFits) << "who keeps nothing has no part in it";
}

TEST(MemoryBudget, SE091_WhileMemoryIsShort_GreedyPayersAreRefusedAndModestOnesAreNot) {
  const auto budget = budget_of(1'000 * kMiB);
  const MemoryBudget::Bounds bounds{16 * kMiB, true};
  Claim huge(budget, kBodies, "greedy", bounds), more(budget, kBodies, "greedy", bounds);
  Claim small(budget, kBodies, "modest", bounds);
  EXPECT_EQ(huge.set(32 * kMiB), Fit::kFits) << "the one that may";
  EXPECT_EQ(more.set(kMiB), Fit::kCrowded);
  EXPECT_EQ(small.set(4 * kMiB), Fit::kFits);
  budget->tighten(true);
  EXPECT_EQ(huge.fit(), Fit::kFull) << "nobody goes beyond now";
  EXPECT_EQ(small.fit(), Fit::kFits) << "a quarter of the bound";
  EXPECT_EQ(small.set(4 * kMiB + 1), Fit::kCrowded);
  EXPECT_EQ(small.set(9 * kMiB), Fit::kFull);
  budget->tighten(false);
  EXPECT_EQ(huge.fit(), Fit::kFits);
  EXPECT_EQ(small.fit(), Fit::kFits);
}

TEST(MemoryBudget, SE090_WhenThereIsNoLimit_OnlyPayersHaveOne) {
  const auto budget = budget_of(0);
  Claim huge(budget, kBodies, "a", {std::size_t{1} << 50, false});
  EXPECT_EQ(huge.set(std::size_t{1} << 40), Fit::kFits);
}

TEST(MemoryBudget, WhenClaimsEnd_NothingIsLeftOfThem) {
  const auto budget = budget_of(1'000 * kMiB);
  {
    std::vector<std::unique_ptr<Claim>> claims;
    for (int i = 0; i < 1'000; ++i) {
      claims.push_back(std::make_unique<Claim>(budget, kBodies, "payer " + std::to_string(i % 100),
                                               MemoryBudget::Bounds{kMiB, true}));
      (void)claims.back()->set(static_cast<std::size_t>(i));
    }
    EXPECT_EQ(budget->payers(kBodies), 100U);
    EXPECT_EQ(budget->used(kBodies), 499'500U);
  }
  EXPECT_EQ(budget->payers(kBodies), 0U);
  EXPECT_EQ(budget->used(kBodies), 0U);
}

TEST(MemoryBudget, WhenThreadsShareIt_TheSumsHold) {
  const auto budget = budget_of(1'000 * kMiB);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&budget] {
      for (std::size_t i = 0; i < 2'000; ++i) {
        Claim claim(budget, kBodies, "p" + std::to_string(i % 7), {kMiB, true});
        (void)claim.set(i);
        (void)claim.set(i / 2);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(budget->used(kBodies), 0U);
  EXPECT_EQ(budget->payers(kBodies), 0U);
}

}  // namespace
}  // namespace kintsugi
