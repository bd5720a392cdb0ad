#pragma once

#include <string>

#include "base/error.h"
#include "store/etcd/etcd_prefix.h"
#include "store/lmdb/source.h"
#include "store/transfer/internal/row_sum.h"
#include "store/transfer/transfer.h"

/// What copies of stores are made of. Private to store/transfer/.
namespace kintsugi::store {

/// Of an end in etcd, for people and for marks.
[[nodiscard]] std::string place_of(const EtcdParams& etcd);
/// Absolute, without an end of '/'.
[[nodiscard]] std::string plain_path(const std::string& path);
[[nodiscard]] Error differs(const std::string& place, const RowSum& wanted, const RowSum& found);

/// Adds what is seen to a sum; and tells.
struct Counting {
  RowSum sum;
  const TransferOptions& options;
  void add(const EntryView& row);
};
[[nodiscard]] Expected<RowSum> sum_of(const LmdbSource& store);
[[nodiscard]] Expected<RowSum> sum_of(EtcdPrefix& prefix);

/// Nothing is there, or what an earlier run from here has left. @error kConfig.
[[nodiscard]] Expected<void> check_target(const EtcdPrefix::Content& content,
                                          const std::string& place, const std::string& from);
/// It is not there, or empty. @error kConfig.
[[nodiscard]] Expected<void> check_folder(const std::string& directory);
/// Where a folder is made before it has its name.
[[nodiscard]] inline std::string partial_of(const std::string& directory) {
  return directory + ".partial";
}
/// Nothing is there of an earlier run.
void clear_partial(const std::string& directory);
/// Gives what is whole its name. @error kIo.
[[nodiscard]] Expected<void> publish_folder(const std::string& partial,
                                            const std::string& directory);
/// All rows of the prefix in a new store, which is the newest of its own, and read again.
/// @error kConfig, kCorrupt, kIo, kFull, kUnavailable.
[[nodiscard]] Expected<TransferReport> fill_folder(EtcdPrefix& source, Revision before,
                                                   const std::string& partial,
                                                   const TransferOptions& options);
/// Where revisions go on. @error kConfig they get too large (GR-307).
[[nodiscard]] Expected<Revision> revision_after(Revision before);

}  // namespace kintsugi::store
