#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "workers/runtime/queue/internal/text_slab.h"

namespace kintsugi::workers {

/// The pairs (cluster, namespace) of the keys of a queue, each kept once and counted. Cost per pair
/// beyond its text: 6 bytes and a slot of 4.6 to 9.1 bytes. Threads: one at a time.
class ScopeTable {
 public:
  using Ref = TextSlab::Ref;
  static constexpr std::size_t kMaxText = 255;  ///< of the cluster, and of the namespace

  explicit ScopeTable(std::uint64_t seed) noexcept : seed_(seed) {}

  [[nodiscard]] std::uint64_t hash_of(std::string_view cluster, std::string_view ns) const noexcept;
  /// One more user of the pair; `hash` is that of hash_of.
  [[nodiscard]] Ref take(std::string_view cluster, std::string_view ns, std::uint64_t hash,
                         TextSlab& texts);
  void drop(Ref scope, TextSlab& texts) noexcept;
  [[nodiscard]] static std::string_view cluster(Ref scope, const TextSlab& texts) noexcept;
  [[nodiscard]] static std::string_view ns(Ref scope, const TextSlab& texts) noexcept;
  [[nodiscard]] static bool matches(Ref scope, std::string_view cluster_text,
                                    std::string_view ns_text, const TextSlab& texts) noexcept;

  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] std::size_t memory_bytes() const noexcept {
    return slots_.capacity() * sizeof(std::uint32_t);
  }
  /// No pair may be in use.
  void clear() noexcept;

 private:
  [[nodiscard]] std::size_t home(std::uint64_t hash) const noexcept {
    return static_cast<std::size_t>(hash) & (slots_.size() - 1);
  }
  [[nodiscard]] std::size_t home_of(Ref scope, const TextSlab& texts) const noexcept;
  void grow(const TextSlab& texts);

  std::uint64_t seed_;
  std::size_t size_ = 0;
  std::vector<std::uint32_t> slots_;  // block + 1, 0: free; linear probing
};

}  // namespace kintsugi::workers
