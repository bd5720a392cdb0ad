#include "store/lmdb/internal/replace.h"

#include <cstring>
#include <filesystem>
#include <system_error>

#include "base/sync_path.h"

namespace kintsugi::store {
namespace {

namespace fs = std::filesystem;

Expected<void> sync_rewritten(const std::string& path) {
  const int fault = sync_path(path);
  return fault == 0 ? Expected<void>() : fail(Errc::kIo, path + ": " + std::strerror(fault));
}

}  // namespace

Expected<void> put_in_place(const std::string& directory, const std::string& made) {
  if (auto synced = sync_rewritten(made + "/data.mdb"); !synced) {
    return synced;
  }
  std::error_code code;
  fs::remove(directory + "/lock.mdb", code);
  if (!code) {
    fs::rename(made + "/data.mdb", directory + "/data.mdb", code);
  }
  if (code) {
    return fail(Errc::kIo, directory + ": " + code.message());
  }
  return sync_rewritten(directory);
}

}  // namespace kintsugi::store
