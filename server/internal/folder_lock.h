#pragma once

#include <string>

#include "base/file_lock.h"

namespace kintsugi::server {

/// As long as this is kept no other process changes what all of an installation use in a folder;
/// whoever comes meanwhile waits. For a few writes only. @error kIo, kFull, kNotFound.
[[nodiscard]] inline Expected<FileLock> lock_folder(const std::string& folder) {
  return FileLock::take(folder + "/lock", LockFile::kNamesHolder, LockWait::kUntilFree);
}

}  // namespace kintsugi::server
