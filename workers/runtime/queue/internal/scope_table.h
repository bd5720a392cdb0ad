#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "workers/runtime/queue/internal/text_slab.h"

namespace kintsugi::workers {

/// The pairs (cluster, namespace) of the keys of a queue, each kept once and counted. Slots of 4
/// bytes hold the number of a pair's text and, in the bits above, the last bits of the slot where
/// it should be: who is looked for or goes touches no text but its own. Cost per pair beyond its
/// text: 6 bytes and a slot of 5.3 to 10.7 bytes. Threads: one at a time.
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
  static constexpr unsigned kLeastBits = 24;  // texts of 128 MiB
  [[nodiscard]] std::size_t mask() const noexcept { return slots_.size() - 1; }
  /// How far from its place a pair may stand at most.
  [[nodiscard]] std::size_t farthest() const noexcept {
    return mask() & ((std::size_t{1} << (32U - bits_)) - 1);
  }
  [[nodiscard]] std::size_t home(std::uint64_t hash) const noexcept {
    return static_cast<std::size_t>(hash) & mask();
  }
  [[nodiscard]] std::size_t home_of(Ref scope, const TextSlab& texts) const noexcept;
  [[nodiscard]] std::uint32_t slot_of(Ref scope, std::size_t place) const noexcept {
    return static_cast<std::uint32_t>((place & farthest()) << bits_) | (scope + 1);
  }
  [[nodiscard]] Ref scope_in(std::uint32_t slot) const noexcept {
    return (slot & ((std::uint32_t{1} << bits_) - 1)) - 1;
  }
  /// How far behind its place the pair of a slot stands.
  [[nodiscard]] std::size_t distance(std::size_t at) const noexcept {
    return (at - (slots_[at] >> bits_)) & farthest();
  }
  [[nodiscard]] bool insert(Ref scope, std::size_t place) noexcept;
  void rebuild(std::size_t slots, unsigned bits, const TextSlab& texts);

  std::uint64_t seed_;
  std::size_t size_ = 0;
  std::vector<std::uint32_t> slots_;  // 0: free; linear probing, at most 3/4 full
  unsigned bits_ = kLeastBits;        // of a slot: block + 1
};

}  // namespace kintsugi::workers
