#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace kintsugi::workers {

/// Memory for short texts: blocks of 8, 16, … kMaxBytes bytes in chunks of 16 KiB, one free list
/// per size. A block costs no header; rounding costs at most 7 bytes. Chunks go back when all is
/// cleared. References stay valid until release(). Threads: one at a time.
class TextSlab {
 public:
  using Ref = std::uint32_t;
  static constexpr std::size_t kMaxBytes = 520;

  TextSlab() noexcept { free_.fill(kNone); }

  /// @param bytes  at most kMaxBytes; 0 counts as 1.
  [[nodiscard]] Ref allocate(std::size_t bytes);
  /// @param bytes  what was asked for.
  void release(Ref block, std::size_t bytes) noexcept;
  [[nodiscard]] char* at(Ref block) noexcept {
    return chunks_[block / kUnits].get() + (block % kUnits) * kUnit;
  }
  [[nodiscard]] const char* at(Ref block) const noexcept {
    return chunks_[block / kUnits].get() + (block % kUnits) * kUnit;
  }
  /// No block may be in use.
  void clear() noexcept;
  [[nodiscard]] std::size_t memory_bytes() const noexcept {
    return chunks_.size() * kChunk + chunks_.capacity() * sizeof(chunks_[0]);
  }

 private:
  static constexpr std::size_t kUnit = 8;
  static constexpr std::size_t kChunk = 16U << 10U;
  static constexpr std::uint32_t kUnits = kChunk / kUnit;
  static constexpr Ref kNone = ~Ref{0};
  static constexpr std::size_t kSizes = kMaxBytes / kUnit;
  struct Open {  // the chunk that blocks of a size are cut from
    std::uint32_t next = 0;
    std::uint32_t end = 0;
  };
  [[nodiscard]] static std::size_t units(std::size_t bytes) noexcept {
    return bytes == 0 ? 1 : (bytes + kUnit - 1) / kUnit;
  }

  std::vector<std::unique_ptr<char[]>> chunks_;
  std::array<Ref, kSizes + 1> free_{};
  std::array<Open, kSizes + 1> open_{};
};

}  // namespace kintsugi::workers
