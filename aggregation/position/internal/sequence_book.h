#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/time.h"

/// What sequence cursors stand for: numbers of at most 64 bits in the place of vectors
/// (AGG-516 to AGG-518).
namespace kintsugi::aggregation {

/// Numbers from here on are cursors, smaller ones a shard's own (AGG-517).
inline constexpr std::uint64_t kFirstSequence = std::uint64_t{1} << 44;
inline constexpr std::uint32_t kMaxEpoch = 1'048'575;

/// @param epoch  1..kMaxEpoch  @param counter  below kFirstSequence
[[nodiscard]] constexpr std::uint64_t sequence_number(std::uint32_t epoch,
                                                      std::uint64_t counter) noexcept {
  return epoch * kFirstSequence + counter;
}

/// Digest of a scope, 16 raw bytes.
using ScopeId = std::string;
inline constexpr std::size_t kScopeIdBytes = 16;

/// A vector, in the words of its generation.
struct SequenceRecord {
  ScopeId scope;
  std::uint64_t number = 0;
  std::uint32_t generation = 0;
  std::vector<std::uint64_t> components;
  bool operator==(const SequenceRecord&) const = default;
};

class SequenceJournal;

/// The vectors behind the numbers of one process, a ring per scope. Numbers of a scope rise.
/// Minting takes a lock that few scopes share, for as long as a vector takes to be copied; it
/// happens once per list and per bookmark, never per event. Threads: any.
class SequenceBook {
 public:
  struct Limits {
    std::size_t least = 4'096;    ///< vectors of a scope that are kept whatever their age
    Duration age = seconds(600);  ///< and all that are younger
    std::size_t bytes = std::size_t{64} << 20;  ///< of all; over it the oldest go in any case
  };
  SequenceBook() = default;
  explicit SequenceBook(Limits limits) noexcept : limits_(limits) {}
  SequenceBook(const SequenceBook&) = delete;
  SequenceBook& operator=(const SequenceBook&) = delete;

  /// Before the first mint(). The counter need not begin at 0: where replicas have equal epochs, a
  /// random beginning keeps their numbers apart.
  void begin(std::uint32_t epoch, std::uint64_t counter) noexcept;
  /// Every vector is written there from now on. Before the first mint().
  void keep_in(std::shared_ptr<SequenceJournal> journal);
  /// A vector of an earlier process. Older than what the scope has: ignored.
  void restore(SequenceRecord record, TimePoint now);

  /// The number of the vector: that of the scope's latest if they are equal, else a new one.
  [[nodiscard]] std::uint64_t mint(const ScopeId& scope, std::uint32_t generation,
                                   const std::vector<std::uint64_t>& components, TimePoint now);
  struct Vector {
    std::uint32_t generation = 0;
    std::vector<std::uint64_t> components;
    bool operator==(const Vector&) const = default;
  };
  /// nullopt: never minted here, or forgotten.
  [[nodiscard]] std::optional<Vector> find(const ScopeId& scope, std::uint64_t number) const;

  struct Stats {
    std::size_t vectors = 0, bytes = 0, scopes = 0;
    std::uint64_t minted = 0;
  };
  [[nodiscard]] Stats stats() const;

 private:
  struct Entry {
    std::uint64_t number = 0;
    TimePoint when{};
    Vector vector;
  };
  using Ring = std::deque<Entry>;
  struct Stripe {
    mutable std::mutex mutex;
    std::unordered_map<ScopeId, Ring> rings;
  };
  static constexpr std::size_t kStripes = 16;
  [[nodiscard]] static std::size_t stripe_of(const ScopeId& scope) noexcept;
  void add(Stripe& stripe, const ScopeId& scope, Entry entry);
  void drop_front(Ring& ring) noexcept;

  Limits limits_{};
  std::array<Stripe, kStripes> stripes_;
  std::atomic<std::uint64_t> next_{sequence_number(1, 1)};
  std::atomic<std::uint64_t> minted_{0};
  std::atomic<std::size_t> vectors_{0}, bytes_{0};
  std::shared_ptr<SequenceJournal> journal_;
};

}  // namespace kintsugi::aggregation
