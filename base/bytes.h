#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string_view>
#include <utility>

namespace kintsugi {

/// Immutable, counted bytes: one watch event, one stored value. Copying counts, it does not copy.
/// Shape: header (16 B) and payload in one allocation. Lifetime: until the last reference goes.
/// Threads: the count is atomic, so a reference may travel; the payload never changes.
class SharedBytes {
 public:
  SharedBytes() noexcept = default;
  /// Copies `bytes`. Allocation failure terminates.
  explicit SharedBytes(std::string_view bytes) : SharedBytes(bytes, {}, {}) {}
  /// One block from three parts, for splicing without an intermediate string.
  SharedBytes(std::string_view a, std::string_view b, std::string_view c) {
    const std::size_t size = a.size() + b.size() + c.size();
    if (size == 0) {
      return;
    }
    void* memory = std::malloc(sizeof(Block) + size);
    if (memory == nullptr) {
      std::abort();
    }
    block_ = new (memory) Block{{1}, size};
    char* out = payload();
    for (std::string_view part : {a, b, c}) {
      if (!part.empty()) {
        std::memcpy(out, part.data(), part.size());
        out += part.size();
      }
    }
  }
  SharedBytes(const SharedBytes& other) noexcept : block_(other.block_) { retain(); }
  SharedBytes(SharedBytes&& other) noexcept : block_(std::exchange(other.block_, nullptr)) {}
  SharedBytes& operator=(SharedBytes other) noexcept {
    std::swap(block_, other.block_);
    return *this;
  }
  ~SharedBytes() { release(); }

  [[nodiscard]] std::string_view view() const noexcept {
    return block_ == nullptr
               ? std::string_view()
               : std::string_view(reinterpret_cast<const char*>(block_ + 1), block_->size);
  }
  [[nodiscard]] std::size_t size() const noexcept { return block_ == nullptr ? 0 : block_->size; }
  [[nodiscard]] bool empty() const noexcept { return size() == 0; }

 private:
  struct Block {
    std::atomic<std::uint32_t> references;
    std::size_t size;
  };
  char* payload() noexcept { return reinterpret_cast<char*>(block_ + 1); }
  void retain() noexcept {
    if (block_ != nullptr) {
      block_->references.fetch_add(1, std::memory_order_relaxed);
    }
  }
  void release() noexcept {
    if (block_ != nullptr && block_->references.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      std::free(block_);
    }
    block_ = nullptr;
  }

  Block* block_ = nullptr;
};

}  // namespace kintsugi
