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

// What malloc gives to the largest requests of these lists: in steps of 16 up to kSmall, then of
// kStep. All end in 8, as malloc's blocks do.
constexpr std::size_t kSmall = 1'032, kMedium = 4'104, kStep = 256;
constexpr std::size_t kSmallLists = kSmall / 16 + 1;
constexpr std::size_t kRecordLeast = 16 * 1'024;  // a TLS record and what is around it
constexpr std::size_t kRecord = 17 * 1'024;
constexpr std::size_t kRecordList = kSmallLists + (kMedium - kSmall) / kStep;
constexpr std::size_t kLists = kRecordList + 1;
constexpr std::size_t kKept = 1'024 * 1'024;
constexpr std::uint32_t kMostRecords = 4;
constexpr std::uint32_t kMost = 512;  // as many requests as one turn may begin or end

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
  std::array<List, kLists> lists;
  std::size_t kept = 0;
  std::size_t next_emptied = 0;  // list
  bool armed = false;            // they are given back when the thread ends
  bool over = false;             // it ends: nothing is kept any more
};
thread_local constinit Lists t_lists{};

void give_back(List& list) noexcept {
  while (list.first != nullptr) {
    Block* block = list.first;
    list.first = block->next;
    std::free(block);
  }
  list.count = 0;
}

struct GiveBack {
  void arm() noexcept { t_lists.armed = true; }
  ~GiveBack() {
    t_lists.over = true;
    for (List& list : t_lists.lists) {
      give_back(list);
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

/// Bytes of each block of a list, as far as they are counted.
constexpr std::size_t room_of(std::size_t list) noexcept {
  return list == kRecordList   ? kRecord
         : list >= kSmallLists ? kSmall + (list - kSmallLists + 1) * kStep
                               : list * 16 + 8;
}

/// The list whose blocks have at least so many bytes; kLists: none.
constexpr std::size_t list_for(std::size_t size) noexcept {
  if (size <= kSmall) {
    return size <= 24 ? 1 : (size + 7) / 16;
  }
  if (size <= kMedium) {
    return kSmallLists + (size - kSmall - 1) / kStep;
  }
  return size >= kRecordLeast && size <= kRecord ? kRecordList : kLists;
}

/// The list for a block of so many bytes; kLists: none.
constexpr std::size_t list_of(std::size_t usable) noexcept {
  if (usable < kSmall + kStep) {
    return std::min((usable - 8) / 16, kSmallLists - 1);
  }
  if (usable < kMedium + kStep) {
    return kSmallLists + (usable - kSmall) / kStep - 1;
  }
  return usable >= kRecord && usable < kRecord + 32 ? kRecordList : kLists;
}

static_assert([] {
  for (std::size_t size = 0; size <= kMedium + kStep; ++size) {
    const std::size_t list = list_for(size);
    if (list != kLists && (room_of(list) < size || list_of(room_of(list)) != list)) {
      return false;
    }
    if (list_of(size) != kLists && size >= 24 && room_of(list_of(size)) > size) {
      return false;
    }
  }
  return list_of(kRecord + 8) == kRecordList;
}());

/// Sizes that nobody asks for any more must not keep the room of others: one list after another is
/// given back until there is room.
void make_room(std::size_t bytes) noexcept {
  while (t_lists.kept + bytes > kKept) {
    const std::size_t index = t_lists.next_emptied;
    t_lists.next_emptied = (index + 1) % kLists;
    List& list = t_lists.lists[index];
    t_lists.kept -= list.count * room_of(index);
    give_back(list);
  }
}

}  // namespace

void* recycled_malloc(std::size_t size) noexcept {
  const std::size_t index = list_for(size);
  if (index == kLists) {
    return std::malloc(size);
  }
  List& list = t_lists.lists[index];
  Block* block = list.first;
  if (block == nullptr) {
    return std::malloc(room_of(index));
  }
  list.first = block->next;
  --list.count;
  t_lists.kept -= room_of(index);
  block->mark = 0;
  return block;
}

void recycled_free(void* memory) noexcept {
  if (memory == nullptr) {
    return;
  }
  const std::size_t index = list_of(malloc_usable_size(memory));
  if (index == kLists) {
    return std::free(memory);
  }
  List& list = t_lists.lists[index];
  auto* block = static_cast<Block*>(memory);
  if (block->mark == mark_of(block) && waits(list, block)) {
    std::abort();
  }
  if (list.count >= (index == kRecordList ? kMostRecords : kMost) || t_lists.over) {
    return std::free(memory);
  }
  const std::size_t room = room_of(index);
  if (t_lists.kept + room > kKept) {
    make_room(room);
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
