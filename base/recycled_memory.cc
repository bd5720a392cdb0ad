#include "base/recycled_memory.h"

#include <malloc.h>
#include <openssl/crypto.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace kintsugi {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)

void* recycled_malloc(std::size_t size) noexcept { return std::malloc(size); }
void* recycled_calloc(std::size_t count, std::size_t size) noexcept {
  return std::calloc(count, size);
}
void* recycled_realloc(void* block, std::size_t size) noexcept { return std::realloc(block, size); }
void recycled_free(void* block) noexcept { std::free(block); }

#else

namespace {

constexpr std::size_t kSmall = 1'032;  // what malloc gives to the largest request of 1,024
constexpr std::size_t kRecordLeast = 16 * 1'024;  // a TLS record and what is around it
constexpr std::size_t kRecord = 17 * 1'024;
constexpr std::size_t kRecordList = kSmall / 16 + 1;
constexpr std::size_t kLists = kRecordList + 1;
constexpr std::size_t kKept = 256 * 1'024;
constexpr std::uint32_t kMostRecords = 4;
constexpr std::uint32_t kMost = 32;

// What a waiting block begins with. malloc's blocks have 24, 40, 56, … bytes: room for it in each.
struct Block {
  Block* next;
  std::uintptr_t mark;  // of a waiting one
};

struct List {
  Block* first = nullptr;
  std::uint32_t count = 0;
};

// Never destroyed: what else ends with the thread still frees.
struct Lists {
  std::array<List, kLists> lists;  // by (bytes of the block) / 16
  std::size_t kept = 0;
  bool armed = false;  // they are given back when the thread ends
  bool over = false;   // it ends: nothing is kept any more
};
thread_local constinit Lists t_lists{};

struct GiveBack {
  void arm() noexcept { t_lists.armed = true; }
  ~GiveBack() {
    t_lists.over = true;
    for (List& list : t_lists.lists) {
      while (list.first != nullptr) {
        Block* block = list.first;
        list.first = block->next;
        std::free(block);
      }
    }
  }
};
thread_local GiveBack t_give_back;

std::uintptr_t mark_of(const Block* block) noexcept {
  return reinterpret_cast<std::uintptr_t>(block) ^ 0x6b696e7473756769;
}

bool waits(const List& list, const Block* block) noexcept {
  for (const Block* one = list.first; one != nullptr; one = one->next) {
    if (one == block) {
      return true;
    }
  }
  return false;
}

}  // namespace

void* recycled_malloc(std::size_t size) noexcept {
  std::size_t index = 0;
  if (size <= kSmall) {
    index = size <= 24 ? 1 : (size + 7) / 16;
    size = index * 16 + 8;
  } else if (size >= kRecordLeast && size <= kRecord) {
    index = kRecordList;
    size = kRecord;
  } else {
    return std::malloc(size);
  }
  List& list = t_lists.lists[index];
  Block* block = list.first;
  if (block == nullptr) {
    return std::malloc(size);
  }
  list.first = block->next;
  --list.count;
  t_lists.kept -= size;
  block->mark = 0;
  return block;
}

void recycled_free(void* memory) noexcept {
  if (memory == nullptr) {
    return;
  }
  const std::size_t size = malloc_usable_size(memory);
  std::size_t index = 0;
  if (size <= kSmall) {
    index = size / 16;
  } else if (size >= kRecord && size < kRecord + 32) {
    index = kRecordList;
  } else {
    return std::free(memory);
  }
  List& list = t_lists.lists[index];
  const std::size_t room = index == kRecordList ? kRecord : size;
  auto* block = static_cast<Block*>(memory);
  if (block->mark == mark_of(block) && waits(list, block)) {
    std::abort();
  }
  if (list.count >= (index == kRecordList ? kMostRecords : kMost) || t_lists.kept + room > kKept ||
      t_lists.over) {
    return std::free(memory);
  }
  if (!t_lists.armed) {
    t_give_back.arm();  // its destructor runs when the thread ends
  }
  block->next = list.first;
  block->mark = mark_of(block);
  list.first = block;
  ++list.count;
  t_lists.kept += room;
}

void* recycled_calloc(std::size_t count, std::size_t size) noexcept {
  std::size_t bytes = 0;
  if (__builtin_mul_overflow(count, size, &bytes)) {
    return nullptr;
  }
  void* memory = recycled_malloc(bytes);
  if (memory != nullptr) {
    std::memset(memory, 0, bytes);
  }
  return memory;
}

void* recycled_realloc(void* memory, std::size_t size) noexcept {
  if (memory == nullptr) {
    return recycled_malloc(size);
  }
  if (size == 0) {
    recycled_free(memory);
    return nullptr;
  }
  // In a block of malloc's, where its own realloc would grow it, lies what is large.
  const std::size_t room = malloc_usable_size(memory);
  if (room > kRecord + 32 && size > kRecord) {
    return std::realloc(memory, size);
  }
  if (size <= room) {
    return memory;
  }
  void* larger = recycled_malloc(size);
  if (larger != nullptr) {
    std::memcpy(larger, memory, room);
    recycled_free(memory);
  }
  return larger;
}

#endif

bool recycle_memory_of_openssl() noexcept {
  return CRYPTO_set_mem_functions(
             [](std::size_t size, const char*, int) { return recycled_malloc(size); },
             [](void* block, std::size_t size, const char*, int) {
               return recycled_realloc(block, size);
             },
             [](void* block, const char*, int) { recycled_free(block); }) == 1;
}

}  // namespace kintsugi
