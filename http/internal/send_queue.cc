#include "http/internal/send_queue.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

namespace kintsugi::http {
namespace {

constexpr std::size_t kSmallestChunk = 208;
constexpr std::size_t kLargestGrowth = 16 * 1024;

}  // namespace

// A reference when `shared` is set, otherwise `capacity` bytes follow the object.
struct SendQueue::Chunk {
  Chunk* next;
  SharedBytes shared;
  std::size_t begin;
  std::size_t end;
  std::size_t capacity;

  [[nodiscard]] char* storage() noexcept { return reinterpret_cast<char*>(this + 1); }
  [[nodiscard]] const char* data() noexcept {
    return shared.empty() ? storage() : shared.view().data();
  }
  static Chunk* make(std::size_t capacity) noexcept {
    void* memory = std::malloc(sizeof(Chunk) + capacity);
    if (memory == nullptr) {
      std::abort();
    }
    return new (memory) Chunk{nullptr, {}, 0, 0, capacity};
  }
  static void destroy(Chunk* chunk) noexcept {
    chunk->~Chunk();
    std::free(chunk);
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
  if (tail_ != nullptr && tail_->shared.empty()) {
    const std::size_t room = std::min(tail_->capacity - tail_->end, bytes.size());
    std::memcpy(tail_->storage() + tail_->end, bytes.data(), room);
    tail_->end += room;
    bytes.remove_prefix(room);
    growth = std::min(tail_->capacity * 2, kLargestGrowth);
  }
  if (!bytes.empty()) {
    Chunk* chunk = Chunk::make(std::max(bytes.size(), growth));
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
    Chunk* chunk = Chunk::make(0);
    chunk->end = length;
    chunk->shared = std::move(bytes);
    push(chunk);
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
    const std::size_t part = std::min(chunk->end - chunk->begin, max - done);
    std::memcpy(out + done, chunk->data() + chunk->begin, part);
    chunk->begin += part;
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
