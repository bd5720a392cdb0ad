#include "server/backup/internal/backup_set.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

#include "base/sync_path.h"
#include "base/time.h"
#include "server/files.h"

namespace kintsugi::server {
namespace {

namespace fs = std::filesystem;

constexpr const char* kManifest = "/manifest.json";
constexpr const char* kUnfinished = "/unfinished";
constexpr const char* kLock = "/lock";

Expected<void> sync_folder(const std::string& path) {
  const int fault = sync_path(path);
  return fault == 0 ? Expected<void>() : fail(Errc::kIo, path + ": " + std::strerror(fault));
}

/// "20260102T030405Z".
std::string name_of(std::int64_t time) {
  std::string text = rfc3339(time);
  std::erase_if(text, [](char c) { return c == '-' || c == ':'; });
  return text;
}

/// What may stand in a folder that becomes one of backups.
bool is_ours(const fs::path& entry) {
  const std::string name = entry.filename().string();
  return '/' + name == kLock || '/' + name == kUnfinished ||
         file_exists(entry.string() + kManifest);
}

}  // namespace

Expected<std::vector<std::string>> BackupSet::names() const {
  std::error_code code;
  std::vector<std::string> out;
  for (fs::directory_iterator at(folder_, code), end; !code && at != end; at.increment(code)) {
    const std::string name = at->path().filename().string();
    if ('/' + name != kUnfinished && file_exists(at->path().string() + kManifest)) {
      out.push_back(name);
    }
  }
  if (code) {
    return fail(Errc::kConfig, folder_ + ": " + code.message());
  }
  std::sort(out.begin(), out.end());
  return out;
}

Expected<BackupManifest> BackupSet::read(std::string_view name, const Secret& key) const {
  const std::string path = path_of(name) + kManifest;
  auto text = read_file(path);
  if (!text) {
    return fail(std::move(text.error()));
  }
  auto manifest = read_manifest(*text, key);
  if (!manifest) {
    return fail(std::move(manifest.error()).at(path));
  }
  manifest->name = name;
  return manifest;
}

Expected<std::vector<BackupManifest>> BackupSet::chain_of(std::string_view name,
                                                          const Secret& key) const {
  std::string next(name);
  if (next.empty()) {
    const auto all = names();
    if (!all) {
      return fail(all.error().clone());
    }
    if (all->empty()) {
      return fail(Errc::kConfig, folder_ + ": there is no backup");
    }
    next = all->back();
  }
  std::vector<BackupManifest> chain;
  std::string mark;
  while (!next.empty()) {
    if (next.find('/') != std::string::npos || chain.size() >= kLongestChain) {
      return fail(Errc::kCorrupt, path_of(next) + ": is no backup of a chain");
    }
    auto manifest = read(next, key);
    if (!manifest) {
      return fail(std::move(manifest.error()));
    }
    if (!chain.empty() && manifest->mark != mark) {
      return fail(Errc::kCorrupt,
                  path_of(next) + ": is not the one that " + chain.back().name + " adds to");
    }
    next = manifest->parent;
    mark = manifest->parent_mark;
    chain.push_back(std::move(*manifest));
  }
  std::reverse(chain.begin(), chain.end());
  return chain;
}

Expected<NewBackup> NewBackup::begin(const std::string& folder) {
  if (auto made = make_directories(folder); !made) {
    return fail(std::move(made.error()));
  }
  std::error_code code;
  for (const auto& entry : fs::directory_iterator(folder, code)) {
    if (!is_ours(entry.path())) {
      return fail(Errc::kConfig, folder + ": is not empty, and " +
                                     entry.path().filename().string() + " in it is no backup");
    }
  }
  auto lock = FileLock::take(folder + kLock);
  if (!lock) {
    return fail(std::move(lock.error()).at(folder));
  }
  NewBackup backup(folder, std::move(*lock));
  fs::remove_all(backup.folder(), code);
  if (auto made = make_directories(backup.folder()); !made) {
    return fail(std::move(made.error()));
  }
  return backup;
}

NewBackup::~NewBackup() {
  if (!folder_.empty()) {
    std::error_code ignored;
    fs::remove_all(folder(), ignored);
  }
}

std::string NewBackup::folder() const { return folder_ + kUnfinished; }

Expected<void> NewBackup::publish(BackupManifest& manifest, const BackupSeal& seal) {
  const std::string text = write_manifest(manifest, seal);
  if (auto written = write_file(folder() + kManifest, text, 0600); !written) {
    return written;
  }
  // Of two within a second, or where the clock was set back, the later one has the greater name.
  std::string name = name_of(manifest.time);
  const auto names = BackupSet(folder_).names();
  for (std::int64_t later = 1; names && !names->empty() && names->back() >= name; ++later) {
    name = name_of(manifest.time + later);
  }
  if (std::rename(folder().c_str(), (folder_ + '/' + name).c_str()) != 0) {
    return fail(Errc::kIo, folder_ + '/' + name + ": " + std::strerror(errno));
  }
  manifest.name = std::move(name);
  return sync_folder(folder_);
}

Expected<std::size_t> NewBackup::keep(std::size_t count, const Secret& key) {
  const BackupSet set(folder_);
  const auto names = set.names();
  if (!names) {
    return fail(names.error().clone());
  }
  std::set<std::string, std::less<>> needed;
  for (std::size_t i = names->size() - std::min(count, names->size()); i < names->size(); ++i) {
    const auto chain = set.chain_of((*names)[i], key);
    if (!chain) {
      return fail(chain.error().clone());
    }
    for (const BackupManifest& one : *chain) {
      needed.insert(one.name);
    }
  }
  std::size_t removed = 0;
  for (const std::string& name : *names) {
    if (needed.contains(name)) {
      continue;
    }
    // The manifest goes first: what is left of a backup is none.
    std::error_code code;
    fs::remove(set.path_of(name) + kManifest, code);
    const bool gone = !code && fs::remove_all(set.path_of(name), code) > 0 && !code;
    if (!gone) {
      return fail(Errc::kIo, set.path_of(name) + ": " + code.message());
    }
    ++removed;
  }
  return removed;
}

}  // namespace kintsugi::server
