#include "http/internal/send_queue.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#include "base/recycled_memory.h"

namespace kintsugi::http {
namespace {

constexpr std::size_t kSmallestChunk = 208;
constexpr std::size_t kLargestGrowth = 16 * 1024;
constexpr std::size_t kReferences = 8;

}  // namespace

// `capacity` bytes follow the object, or kReferences references when `shared`; `begin` and `end`
// count them.
struct SendQueue::Chunk {
  Chunk* next = nullptr;
  std::size_t begin = 0;
  std::size_t end = 0;
  std::size_t capacity = 0;
  std::uint32_t shared = 0;
  std::uint32_t read = 0;  // bytes of the first reference

  [[nodiscard]] char* storage() noexcept { return reinterpret_cast<char*>(this + 1); }
  [[nodiscard]] SharedBytes* references() noexcept {
    return reinterpret_cast<SharedBytes*>(this + 1);
  }
  [[nodiscard]] std::string_view front() noexcept {
    return shared != 0 ? references()[begin].view().substr(read)
                       : std::string_view(storage() + begin, end - begin);
  }
  void drop(std::size_t bytes) noexcept {
    if (shared == 0) {
      begin += bytes;
      return;
    }
    read += static_cast<std::uint32_t>(bytes);
    if (read == references()[begin].size()) {
      references()[begin++].~SharedBytes();
      read = 0;
    }
  }
  static Chunk* make(std::size_t bytes) noexcept {
    void* memory = recycled_malloc(sizeof(Chunk) + bytes);
    if (memory == nullptr) {
      std::abort();
    }
    return new (memory) Chunk;
  }
  static void destroy(Chunk* chunk) noexcept {
    while (chunk->shared != 0 && chunk->begin != chunk->end) {
      chunk->references()[chunk->begin++].~SharedBytes();
    }
    recycled_free(chunk);
  }
};

void SendQueue::push(Chunk* chunk) noexcept {
  if (tail_ == nullptr) {
    head_ = chunk;
  } else {
    tail_->next = chunk;
  }
  tail_ = chunk;
}

void SendQueue::append(std::string_view bytes) noexcept {
  if (bytes.empty()) {
    return;
  }
  size_ += bytes.size();
  std::size_t growth = kSmallestChunk;
  if (tail_ != nullptr && tail_->shared == 0) {
    const std::size_t room = std::min(tail_->capacity - tail_->end, bytes.size());
    std::memcpy(tail_->storage() + tail_->end, bytes.data(), room);
    tail_->end += room;
    bytes.remove_prefix(room);
    growth = std::min(tail_->capacity * 2, kLargestGrowth);
  }
  if (!bytes.empty()) {
    const std::size_t capacity = std::max(bytes.size(), growth);
    Chunk* chunk = Chunk::make(capacity);
    chunk->capacity = capacity;
    std::memcpy(chunk->storage(), bytes.data(), bytes.size());
    chunk->end = bytes.size();
    push(chunk);
  }
}

void SendQueue::append(SharedBytes bytes) noexcept {
  const std::size_t length = bytes.size();
  if (length == 0) {
    return;
  }
  if (size_ == 0) {
    first_ = std::move(bytes);
    first_begin_ = 0;
  } else {
    if (tail_ == nullptr || tail_->shared == 0 || tail_->end == tail_->capacity) {
      Chunk* chunk = Chunk::make(kReferences * sizeof(SharedBytes));
      chunk->capacity = kReferences;
      chunk->shared = 1;
      push(chunk);
    }
    new (tail_->references() + tail_->end++) SharedBytes(std::move(bytes));
  }
  size_ += length;
}

std::size_t SendQueue::read(char* out, std::size_t max) noexcept {
  std::size_t done = 0;
  if (!first_.empty() && max > 0) {
    const std::string_view left = first_.view().substr(first_begin_);
    done = std::min(left.size(), max);
    std::memcpy(out, left.data(), done);
    first_begin_ += done;
    if (done == left.size()) {
      first_ = SharedBytes();
    }
  }
  while (done < max && head_ != nullptr) {
    Chunk* chunk = head_;
    const std::string_view left = chunk->front();
    const std::size_t part = std::min(left.size(), max - done);
    std::memcpy(out + done, left.data(), part);
    chunk->drop(part);
    done += part;
    if (chunk->begin == chunk->end) {
      head_ = chunk->next;
      if (head_ == nullptr) {
        tail_ = nullptr;
      }
      Chunk::destroy(chunk);
    }
  }
  size_ -= done;
  return done;
}

void SendQueue::clear() noexcept {
  first_ = SharedBytes();
  while (head_ != nullptr) {
    Chunk* next = head_->next;
    Chunk::destroy(head_);
    head_ = next;
  }
  tail_ = nullptr;
  size_ = 0;
}

}  // namespace kintsugi::http
