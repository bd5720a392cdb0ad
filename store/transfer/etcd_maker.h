#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "store/etcd/etcd_store.h"
#include "store/store.h"

namespace kintsugi::store {

/// A new store in etcd of rows that come from a backup, as StoreMaker makes one in a folder
/// (GR-409). Rows get new revisions, in which they were made and changed. For tools: calls block.
class EtcdMaker {
 public:
  /// @param backup  its name, for people. @error kConfig something is under the prefix, and no
  /// restore that has not ended; as EtcdPrefix::open().
  [[nodiscard]] static Expected<std::unique_ptr<EtcdMaker>> make(EtcdParams etcd,
                                                                 const std::string& backup);
  ~EtcdMaker();
  EtcdMaker(const EtcdMaker&) = delete;
  EtcdMaker& operator=(const EtcdMaker&) = delete;

  /// What a restore has left is removed. @param after  revisions of the new store are above it.
  /// @error kConfig they get too large; kConflict somebody else writes here; kUnavailable.
  [[nodiscard]] Expected<void> begin(Revision after);
  /// Each key once. @error kConflict, kUnavailable, kFull, kRequestEntityTooLarge.
  [[nodiscard]] Expected<void> put(const EntryView& row);

  struct Made {
    Revision revision = 0;  ///< where the store begins
    std::uint64_t rows = 0;
  };
  /// All that was put is there: it is read again. @error kCorrupt it is not; as put().
  [[nodiscard]] Expected<Made> check();
  /// All are stores from now on, or none is; they are of one etcd. @error kConflict, kUnavailable.
  [[nodiscard]] static Expected<void> publish(
      const std::vector<std::unique_ptr<EtcdMaker>>& makers);

 private:
  struct Parts;
  explicit EtcdMaker(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace kintsugi::store
