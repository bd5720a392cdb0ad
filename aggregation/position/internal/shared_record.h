#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>

#include "aggregation/position/slot_table.h"
#include "base/error.h"
#include "base/secret.h"

namespace kintsugi::aggregation {

/// What replicas have in common (AGG-509, AGG-516 to AGG-518, AGG-612).
struct SharedContent {
  SlotHistory slots;
  Secret token_secret;      ///< that continue tokens are made with; "": none yet
  std::uint32_t epoch = 0;  ///< starts of all replicas
};

/// A file that all replicas of a proxy write, on a file system that has locks (flock) and renames
/// whole files. Whoever changes it holds `<path>.lock`, reads what is there, and renames a new file
/// over it that has reached the disk. Threads: one.
class SharedRecord {
 public:
  explicit SharedRecord(std::string path) : path_(std::move(path)) {}

  /// @error kNotFound there is none; kCorrupt, kIo
  [[nodiscard]] Expected<SharedContent> read();
  /// @param change  edits what is there, an empty content where there is none; false: it is good
  /// as it is. Waits for the disk if something is written, for nobody else.
  /// @return what is there now. @error kOverloaded another replica is at it: try again; kCorrupt,
  /// kIo
  [[nodiscard]] Expected<SharedContent> update(const std::function<bool(SharedContent&)>& change);
  /// Somebody has written it since read() or update().
  [[nodiscard]] bool has_changed() const;
  [[nodiscard]] const std::string& path() const noexcept { return path_; }

 private:
  struct Mark {
    std::uint64_t inode = 0;
    std::int64_t seconds = 0, nanoseconds = 0, size = 0;
    bool operator==(const Mark&) const = default;
  };
  [[nodiscard]] Mark mark() const;
  [[nodiscard]] Expected<void> write(const SharedContent& content);

  std::string path_;
  Mark seen_;
};

/// What a replica has to tell the record: how the shards that it sees differ from those that it saw
/// when it told last. What only the record says stays: another replica may know more, or sooner.
/// @param told  nullopt: nothing yet; the record becomes what it sees
/// @param missed  shards that it sees although the record has been without them for long
[[nodiscard]] SlotChange shared_change(const SlotHistory& record, const SlotChange& own,
                                       const std::optional<SlotChange>& told,
                                       const std::set<std::string>& missed);

}  // namespace kintsugi::aggregation
