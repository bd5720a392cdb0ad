#pragma once

#include <cstddef>
#include <string_view>

#include "base/bytes.h"

namespace kintsugi::http {

/// Bytes of one stream that wait for room on the connection: references to SharedBytes and chunks
/// of copied bytes, in order. Shape: 40 bytes when empty; the first SharedBytes sits inside, so one
/// queued event costs no allocation, eight more or a small copied body cost one. Memory goes back
/// as soon as it is read. Threads: the owning loop.
class SendQueue {
 public:
  SendQueue() noexcept = default;
  SendQueue(const SendQueue&) = delete;
  SendQueue& operator=(const SendQueue&) = delete;
  ~SendQueue() { clear(); }

  void append(std::string_view bytes) noexcept;
  void append(SharedBytes bytes) noexcept;
  /// Moves up to `max` bytes to `out`; returns how many.
  std::size_t read(char* out, std::size_t max) noexcept;
  void clear() noexcept;
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }

 private:
  struct Chunk;
  void push(Chunk* chunk) noexcept;

  SharedBytes first_;  // before head_; empty when not in use
  std::size_t first_begin_ = 0;
  Chunk* head_ = nullptr;
  Chunk* tail_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace kintsugi::http
