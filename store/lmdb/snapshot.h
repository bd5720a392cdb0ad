#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/time.h"
#include "store/store.h"

namespace kintsugi::store {

/// A store as of one revision, read beside the process that has it open, which goes on writing
/// (GR-406). For tools: calls block. One process may not have a store open and a snapshot of it.
class LmdbSnapshot {
 public:
  /// How long one transaction of LMDB reads: pages that writers free meanwhile are not used again.
  static constexpr Duration kSlice = seconds(5);

  /// @error kConfig no store is there, or one of an unknown format; kCorrupt, kIo.
  [[nodiscard]] static Expected<std::unique_ptr<LmdbSnapshot>> open(const std::string& directory);
  ~LmdbSnapshot();
  LmdbSnapshot(const LmdbSnapshot&) = delete;
  LmdbSnapshot& operator=(const LmdbSnapshot&) = delete;

  /// What the store is now is what is read from now on. @error kOverloaded, kIo.
  [[nodiscard]] Expected<void> pin();
  /// Its owner keeps the history that read() needs, for an hour at most, until that has ended or
  /// this goes. After pin(). @error kCorrupt, kIo, kFull: it is kept for as long as usual.
  [[nodiscard]] Expected<void> hold();
  /// Nothing has been committed since pin(): what is pinned is what the store is at this moment.
  [[nodiscard]] bool is_newest() const;
  /// What pin() has found. @error kCorrupt, kIo.
  [[nodiscard]] Expected<Revision> revision() const;
  /// Which store it is (environment.h); "": it does not say.
  [[nodiscard]] std::string incarnation() const;

  /// All live rows of the pinned revision, in the order of their keys. After the first slice of
  /// time they come from history, so that no transaction stays open.
  /// @returns the keys of records that do not hold, which are left out
  /// @error kCompacted it took longer than history is kept; kCorrupt, kIo; what `visit` says.
  using RowVisit = std::function<Expected<void>(const EntryView& row)>;
  [[nodiscard]] Expected<std::vector<std::string>> read(const RowVisit& visit);
  /// Events after that revision up to the pinned one, in order; at most `limit`, and more only to
  /// finish a revision. @error kCompacted history does not reach so far; kCorrupt, kIo.
  [[nodiscard]] Expected<Store::Changes> changes(Revision after, std::size_t limit) const;
  /// How many live rows the pinned revision has.
  [[nodiscard]] std::uint64_t rows() const noexcept;
  void set_slice_for_test(Duration slice) noexcept;

 private:
  friend class LmdbHandover;
  struct Parts;
  explicit LmdbSnapshot(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

/// Stores that are elsewhere, which are pinned after those in folders.
struct OtherPins {
  std::function<Expected<void>()> pin = [] { return Expected<void>(); };
  /// At the moment of the last of them, each was the newest of its store.
  std::function<Expected<bool>()> are_newest = [] { return Expected<bool>(true); };
};
/// Pins all of them so that there is a moment at which each was the newest of its store: what is in
/// one of them has no cause that is missing in another one (GR-402). Nobody waits: it is tried
/// until no store has changed between the first and the last.
/// @returns false: it was not to be had until `deadline`, and they are pinned one after another.
/// @error kOverloaded, kIo; what `others` say.
[[nodiscard]] Expected<bool> pin_together(const std::vector<LmdbSnapshot*>& snapshots,
                                          TimePoint deadline, const OtherPins& others = {});

}  // namespace kintsugi::store
