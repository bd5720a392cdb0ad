#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "aggregation/position/internal/sequence_book.h"
#include "aggregation/position/slot_table.h"

/// The composite cursor: one decimal number that says how far each shard has been delivered
/// (AGG-501 to AGG-518): all of it, or in sequence mode a number that stands for it.
///
///   vector := "120" generation(6) check(6) component(20)…          up to kMaxFullSlots
///           | "114" generation(6) check(6) component(14)… zeros    up to kMaxVectorSlots
///
/// The zeros of the second make it longer than any of the first, so that it is newer.
namespace kintsugi::aggregation {

/// Of more slots than these the components are shorter, and smaller than kFirstSequence (AGG-517).
inline constexpr std::size_t kMaxFullSlots = 64;
/// More slots than these do not fit into a vector cursor (AGG-516): its 14,351 digits leave room
/// for the rest of a request line in the 16 KiB that many balancers take.
inline constexpr std::size_t kMaxVectorSlots = 1'024;
/// Component of a slot whose initial events have begun and not ended (AGG-704).
inline constexpr std::uint64_t kBegun = 1;

/// How far each slot of a table has been delivered; 0: nothing.
using Components = std::vector<std::uint64_t>;

/// The unit over which cursors are comparable.
struct Scope {
  std::string route;     ///< canonical prefix up to and including "clusters/*"
  std::string group;     ///< "" for core
  std::string resource;  ///< with the identity suffix if the URL has one
  bool operator==(const Scope&) const = default;
};

/// K of a scope under a list of UIDs (AGG-508). @param era  of the history
[[nodiscard]] std::uint32_t cursor_check(const Scope& scope, const std::vector<std::string>& uids,
                                         std::uint32_t era);

/// The generation that a vector cursor says it is of, whatever else it is; nullopt: no vector.
[[nodiscard]] std::optional<std::uint32_t> named_generation(std::string_view text) noexcept;

/// What a resourceVersion that a client sent is (AGG-503).
enum class VersionClass : std::uint8_t {
  kUnset,      ///< ""
  kZero,       ///< "0"
  kMalformed,  ///< 400: nobody has ever made such a text
  kNative,     ///< at most 20 digits, in sequence mode below kFirstSequence: a shard's own
  kCursor,
  kUnknown,  ///< 410
  kFuture,   ///< a generation that is not known here yet: wait a moment, then 410
};

struct DecodedVersion {
  VersionClass kind = VersionClass::kUnset;
  std::uint64_t native = 0;      ///< kNative
  std::uint32_t generation = 0;  ///< kCursor, kFuture
  Components components;         ///< kCursor: by slot of the current table
  /// kCursor: shards that are not members now and whose objects the client still holds.
  std::vector<std::string> departed;
  /// kUnknown and kCursor with `departed`: label of kintsugi_cursor_expired_total ("generation",
  /// "removed", "rollback", "check", "sequence").
  std::string_view reason;
};

/// Writes and reads the cursors of one scope. Threads: any, immutable.
class CursorCodec {
 public:
  /// @param book  where sequence cursors are kept; null: there are none
  /// @param sequence  they are used although the slots fit into a vector
  CursorCodec(Scope scope, SlotHistoryPtr history, std::shared_ptr<SequenceBook> book = nullptr,
              bool sequence = false);

  /// A cursor of the current generation. @param components  one per slot of its table
  [[nodiscard]] std::string format(const Components& components) const;
  /// The same position in the words of an earlier generation that is still kept: a list that began
  /// under it ends under it (T28).
  [[nodiscard]] std::string format_as_of(std::uint32_t generation,
                                         const Components& components) const;
  /// @param members  by slot of the current table: whether the route covers it now. Components of
  /// the others are dropped if they are zero.
  [[nodiscard]] DecodedVersion decode(std::string_view text,
                                      const std::vector<bool>& members) const;

  /// Cursors of the current generation are sequence numbers: shards whose own numbers are not
  /// smaller than kFirstSequence cannot be told from them (AGG-517).
  [[nodiscard]] bool is_sequence() const noexcept { return uses_numbers(history_->current()); }
  /// What a sequence cursor stands for, as it was minted; nullopt: not known here.
  [[nodiscard]] std::optional<SequenceBook::Vector> find(std::uint64_t sequence) const;

  [[nodiscard]] const Scope& scope() const noexcept { return scope_; }
  [[nodiscard]] const SlotHistory& history() const noexcept { return *history_; }
  [[nodiscard]] std::uint32_t check() const noexcept { return check_; }

 private:
  [[nodiscard]] bool uses_numbers(const SlotTable& table) const noexcept;
  [[nodiscard]] std::uint32_t check_of(const SlotTable& table) const;
  [[nodiscard]] std::string write(const SlotTable& table, std::uint32_t check,
                                  const Components& components) const;
  [[nodiscard]] DecodedVersion decode_sequence(std::uint64_t number,
                                               const std::vector<bool>& members) const;
  /// A position of an earlier table in the words of the current one (AGG-511).
  [[nodiscard]] DecodedVersion translate(const SlotTable& table, const Components& components,
                                         const std::vector<bool>& members) const;

  Scope scope_;
  SlotHistoryPtr history_;
  std::shared_ptr<SequenceBook> book_;
  bool sequence_;
  std::uint32_t check_;  // of the current table
  ScopeId id_;           // in the book; "": cursors are no numbers now
};

/// Orders decimal numbers without leading zeros, as clients do: longer is greater, else by letter.
[[nodiscard]] bool is_newer_version(std::string_view a, std::string_view b) noexcept;

}  // namespace kintsugi::aggregation
