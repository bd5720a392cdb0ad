#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "workers/delivery/hub/hub_book.h"

namespace kintsugi::workers {

/// The objects of a text, JSON or YAML, of which "---" separates several. @error kConfig: it is
/// neither, or one of them has no apiVersion, kind, or metadata.name
[[nodiscard]] Expected<std::vector<krm::Json>> parse_manifests(std::string_view text);

/// A folder whose files are what a hub wants of one client: *.json, *.yaml, *.yml; others and those
/// that begin with a dot are left alone. Files are read again when they are others by time, size or
/// inode.
class HubFolder {
 public:
  explicit HubFolder(std::string path) : path_(std::move(path)) {}

  struct Seen {
    std::vector<HubBook::Wish> wishes;
    std::set<std::string> unreadable;  ///< files whose objects stay as they were
    std::vector<std::string> faults;   ///< of files that are new here
    bool changed = false;              ///< since the last look; else the rest is empty
  };
  /// @error kIo: the folder cannot be read
  [[nodiscard]] Expected<Seen> look();

 private:
  struct File {
    std::int64_t time = 0;
    std::uint64_t size = 0, inode = 0;
    bool readable = false;
    std::vector<krm::Json> objects;
  };
  const std::string path_;
  std::map<std::string, File> files_;
  bool looked_ = false;
};

}  // namespace kintsugi::workers
