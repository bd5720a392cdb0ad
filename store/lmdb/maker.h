#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <unordered_set>

#include "base/error.h"
#include "store/store.h"

namespace kintsugi::store {

/// A new store of rows that come from elsewhere, as a restore makes it: live objects with their
/// revisions, no history (GR-409). For tools: calls block. What is not finished is no use.
class StoreMaker {
 public:
  /// @param directory  is made; nothing is in it. @error kConfig, kIo, kFull.
  [[nodiscard]] static Expected<std::unique_ptr<StoreMaker>> make(const std::string& directory);
  /// One that has finished goes on: rows are put and removed, and finish() comes again.
  /// @error kConfig no store is there; kIo, kFull.
  [[nodiscard]] static Expected<std::unique_ptr<StoreMaker>> again(const std::string& directory);
  ~StoreMaker();
  StoreMaker(const StoreMaker&) = delete;
  StoreMaker& operator=(const StoreMaker&) = delete;

  /// A row, in the place of what was put under its key. @error kIo, kFull.
  [[nodiscard]] Expected<void> put(const EntryView& row);
  /// Where it is there. @error kIo, kFull.
  [[nodiscard]] Expected<void> remove(std::string_view key);
  /// All rows with other keys go. Cost: reads all of them. @error kIo, kFull.
  [[nodiscard]] Expected<void> keep_only(const std::unordered_set<std::string>& keys);
  /// The store is at `revision`, all before counts as compacted, and everything is on the disk.
  /// @returns how many rows it has. @error kIo, kFull.
  [[nodiscard]] Expected<std::uint64_t> finish(Revision revision);

 private:
  struct Parts;
  [[nodiscard]] static Expected<std::unique_ptr<StoreMaker>> open(const std::string& directory);
  explicit StoreMaker(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace kintsugi::store
