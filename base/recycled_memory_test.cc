#include "base/recycled_memory.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

namespace kintsugi {
namespace {

constexpr std::size_t kSizes[] = {0,      1,      15,     16,     17,     1'008,  1'023,
                                  1'024,  1'032,  1'033,  1'288,  1'289,  4'104,  4'105,
                                  16'383, 16'384, 16'576, 17'408, 17'409, 100'000};

TEST(RecycledMemory, HoldsWhatIsWrittenAtEachSize) {
  for (int round = 0; round < 3; ++round) {
    std::vector<char*> blocks;
    for (const std::size_t size : kSizes) {
      auto* block = static_cast<char*>(recycled_malloc(size));
      ASSERT_NE(block, nullptr);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % 16, 0U);
      std::memset(block, static_cast<int>(blocks.size()), size);
      blocks.push_back(block);
    }
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      for (std::size_t at = 0; at < kSizes[i]; ++at) {
        ASSERT_EQ(blocks[i][at], static_cast<char>(i));
      }
      recycled_free(blocks[i]);
    }
  }
  recycled_free(nullptr);
}

TEST(RecycledMemory, CallocIsZeroAlsoWhenTheBlockWasUsed) {
  void* used = recycled_malloc(64);
  std::memset(used, 0xff, 64);
  recycled_free(used);
  auto* zero = static_cast<char*>(recycled_calloc(8, 8));
  EXPECT_EQ(std::vector<char>(zero, zero + 64), std::vector<char>(64, 0));
  recycled_free(zero);
}

TEST(RecycledMemory, ReallocKeepsTheBytes) {
  auto* block = static_cast<char*>(recycled_realloc(nullptr, 1));
  *block = 'x';
  for (const std::size_t size : kSizes) {
    if (size == 0) {
      continue;
    }
    block = static_cast<char*>(recycled_realloc(block, size));
    ASSERT_EQ(*block, 'x');
    block[size - 1] = 'x';
  }
  EXPECT_EQ(recycled_realloc(block, 0), nullptr);
}

TEST(RecycledMemory, ABlockMayBeFreedByAnotherThread) {
  std::vector<void*> blocks(100);
  for (void*& block : blocks) {
    block = recycled_malloc(100);
  }
  std::thread([&blocks] {
    for (void* block : blocks) {
      recycled_free(block);
    }
    recycled_free(recycled_malloc(100));
  }).join();
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST(RecycledMemory, ABlockComesBack) {
  for (const std::size_t size : {std::size_t{40}, std::size_t{1'100}, std::size_t{16'600}}) {
    void* block = recycled_malloc(size);
    recycled_free(block);
    void* next = recycled_malloc(size);
    EXPECT_EQ(next, block);
    recycled_free(next);
  }
}

TEST(RecycledMemory, SizesThatNobodyAsksForAnyMoreLeaveRoom) {
  constexpr std::size_t kMany = 400;
  for (std::size_t size = 100; size <= 4'000;
       size += 100) {  // together more than all lists may keep
    std::vector<void*> blocks(kMany);
    for (void*& block : blocks) {
      block = recycled_malloc(size);
    }
    for (void* block : blocks) {
      recycled_free(block);
    }
    void* last = blocks.back();
    EXPECT_EQ(recycled_malloc(size), last) << size;
    recycled_free(last);
  }
}

TEST(RecycledMemory, ThereIsNoCallocOfMoreThanMemory) {
  volatile std::size_t many = SIZE_MAX / 2;
  EXPECT_EQ(recycled_calloc(many, 4), nullptr);
}

TEST(RecycledMemoryDeathTest, FreedTwiceEndsTheProcess) {
  void* block = recycled_malloc(48);
  recycled_free(block);
  EXPECT_DEATH(recycled_free(block), "");
}
#endif

}  // namespace
}  // namespace kintsugi
