#include "server/backup/internal/restorer.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <utility>

#include "aggregation/position/restored_records.h"
#include "base/secret_file.h"
#include "server/backup/internal/chunks.h"
#include "server/backup/internal/live_keys.h"
#include "server/files.h"
#include "store/lmdb/maker.h"

namespace kintsugi::server {
namespace {

constexpr std::size_t kLeastKey = 32;  ///< [bytes]
constexpr store::Revision kLeastJump = 1'000'000'000;
constexpr store::Revision kWritesPerSecond = 10'000;  ///< more than a store ever takes on average
/// Native revisions stay below (AGG-517).
constexpr store::Revision kMostRevision = store::Revision{1} << 44U;

BackupSeal seal_of(const BackupManifest& manifest, const Secret& key) {
  return manifest.is_sealed ? BackupSeal(key, manifest.id) : BackupSeal();
}

Expected<LiveKeys> live_keys_of(const BackupSet& set, const BackupManifest& manifest,
                                const Secret& key, const BackedUpStore& store) {
  LiveKeys live;
  auto read =
      each_record_of(set, manifest, key, store.live, [&live](const store::EntryView& record) {
        LiveKeys::Digest digest{};
        if (record.key.size() != digest.size()) {
          return Expected<void>(fail(Errc::kCorrupt, "is no digest of a key"));
        }
        std::memcpy(digest.data(), record.key.data(), digest.size());
        live.add(digest);
        return Expected<void>();
      });
  if (!read) {
    return fail(std::move(read.error()));
  }
  if (live.size() != store.keys) {
    return fail(Errc::kCorrupt, store.name + " has " + std::to_string(live.size()) +
                                    " keys, its manifest says " + std::to_string(store.keys));
  }
  live.sort();
  return live;
}

/// A path in a folder that leads nowhere else.
bool stays_inside(std::string_view path) {
  const std::filesystem::path whole(path);
  return !path.empty() && whole.is_relative() &&
         std::none_of(whole.begin(), whole.end(), [](const auto& part) { return part == ".."; });
}

}  // namespace

Expected<void> each_record_of(const BackupSet& set, const BackupManifest& manifest,
                              const Secret& key, const std::vector<BackupFile>& files,
                              const RecordVisit& visit) {
  const BackupSeal seal = seal_of(manifest, key);
  for (const BackupFile& file : files) {
    const auto chunk = read_chunk(set.path_of(manifest.name), file, seal);
    if (!chunk) {
      return fail(chunk.error().clone());
    }
    if (auto read = each_record(*chunk, visit); !read) {
      return fail(std::move(read.error()).at(set.path_of(manifest.name) + '/' + file.name));
    }
  }
  return {};
}

Expected<Secret> read_backup_key(const std::string& file) {
  if (file.empty()) {
    return Secret();
  }
  auto key = read_secret_file(file);
  if (key && key->size() < kLeastKey) {
    return fail(Errc::kConfig, file + ": has " + std::to_string(key->size()) +
                                   " bytes, a key needs " + std::to_string(kLeastKey));
  }
  return key;
}

std::string shown_key(std::string_view key) {
  std::string text(key);
  for (char& c : text) {
    if (c == '\0') {
      c = '/';
    } else if (static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) > 0x7e) {
      c = '?';
    }
  }
  return text;
}

Expected<void> verify_backup(const BackupSet& set, const std::vector<BackupManifest>& chain,
                             const Secret& key, const TellProgress& tell) {
  for (const BackupManifest& manifest : chain) {
    for (const BackedUpStore& store : manifest.stores) {
      tell("reading " + manifest.name + ", " + store.name);
      const auto live = live_keys_of(set, manifest, key, store);
      if (!live) {
        return fail(live.error().clone());
      }
      auto rows =
          each_record_of(set, manifest, key, store.rows, [&store](const store::EntryView& row) {
            return row.modified > store.after && row.modified <= store.revision
                       ? Expected<void>()
                       : fail(Errc::kCorrupt, "a row is of another revision");
          });
      if (!rows) {
        return rows;
      }
    }
    auto files = each_record_of(set, manifest, key, manifest.files,
                                [](const store::EntryView&) { return Expected<void>(); });
    if (!files) {
      return files;
    }
  }
  return {};
}

Expected<void> each_live_row(const BackupSet& set, const std::vector<BackupManifest>& chain,
                             const Secret& key, const std::string& name, const RecordVisit& visit) {
  const BackedUpStore* const last = chain.back().find(name);
  if (last == nullptr) {
    return fail(Errc::kConfig, set.path_of(chain.back().name) + ": has no " + name);
  }
  const auto live = live_keys_of(set, chain.back(), key, *last);
  if (!live) {
    return fail(live.error().clone());
  }
  // The newest first: what comes later of a key is what it was before.
  std::vector<bool> seen(live->size(), false);
  std::uint64_t count = 0;
  for (auto manifest = chain.rbegin(); manifest != chain.rend(); ++manifest) {
    const BackedUpStore* const store = manifest->find(name);
    if (store == nullptr) {
      continue;
    }
    auto read = each_record_of(set, *manifest, key, store->rows,
                               [&](const store::EntryView& row) -> Expected<void> {
                                 const auto index = live->index_of(row.key);
                                 if (!index || seen[*index]) {
                                   return {};  // deleted, or changed later
                                 }
                                 seen[*index] = true;
                                 ++count;
                                 return visit(row);
                               });
    if (!read) {
      return read;
    }
  }
  return count == last->keys
             ? Expected<void>()
             : fail(Errc::kCorrupt, name + ": of " + std::to_string(last->keys) + " objects " +
                                        std::to_string(count) + " are there");
}

store::Revision revisions_ahead(std::int64_t age) noexcept {
  return kLeastJump +
         kWritesPerSecond * static_cast<store::Revision>(std::max<std::int64_t>(age, 0));
}

Expected<store::Revision> restored_revision(const BackedUpStore& store, std::int64_t age) {
  const store::Revision revision = store.revision + revisions_ahead(age);
  if (revision >= kMostRevision) {
    return fail(Errc::kConfig, store.name + ": its revisions have become too large");
  }
  return revision;
}

Expected<void> each_restored_row(const BackupSet& set, const std::vector<BackupManifest>& chain,
                                 const Secret& key, const std::string& name, std::int64_t age,
                                 const RecordVisit& visit, ParkedClusters* parked) {
  const bool is_proxy = name == "proxy";
  return each_live_row(set, chain, key, name, [&](const store::EntryView& row) -> Expected<void> {
    const auto record = is_proxy            ? aggregation::restored_record(row.key, row.value, age)
                        : parked != nullptr ? parked->instead_of(row)
                                            : Expected<std::optional<std::string>>();
    if (!record) {
      return fail(record.error().clone());
    }
    return visit(
        {row.key, *record ? std::string_view(**record) : row.value, row.created, row.modified});
  });
}

Expected<void> check_count(const BackedUpStore& store, std::uint64_t made) {
  return made == store.keys
             ? Expected<void>()
             : fail(Errc::kCorrupt, store.name + ": of " + std::to_string(store.keys) +
                                        " objects " + std::to_string(made) + " are there");
}

Expected<RestoredStore> restore_one(const BackupSet& set, const std::vector<BackupManifest>& chain,
                                    const Secret& key, const std::string& name,
                                    const std::string& directory, std::int64_t age,
                                    ParkedClusters* parked) {
  const BackupManifest& newest = chain.back();
  const BackedUpStore* last = newest.find(name);
  if (last == nullptr) {
    return fail(Errc::kConfig, set.path_of(newest.name) + ": has no " + name);
  }
  const auto revision = restored_revision(*last, age);
  if (!revision) {
    return fail(revision.error().clone());
  }
  auto maker = store::StoreMaker::make(directory);
  if (!maker) {
    return fail(std::move(maker.error()));
  }
  auto copied = each_restored_row(
      set, chain, key, name, age, [&](const store::EntryView& row) { return (*maker)->put(row); },
      parked);
  if (!copied) {
    return fail(std::move(copied.error()));
  }
  const auto keys = (*maker)->finish(*revision);
  auto all = keys ? check_count(*last, *keys) : fail(keys.error().clone());
  if (!all) {
    return fail(std::move(all.error()));
  }
  return RestoredStore{*revision, *keys};
}

Expected<std::size_t> restore_files(const BackupSet& set, const BackupManifest& manifest,
                                    const Secret& key, const std::string& directory) {
  std::size_t count = 0;
  auto done = each_record_of(
      set, manifest, key, manifest.files, [&](const store::EntryView& file) -> Expected<void> {
        if (!stays_inside(file.key)) {
          return fail(Errc::kCorrupt, "a file has no place in an installation");
        }
        const std::string path = directory + '/' + std::string(file.key);
        const std::string folder = std::filesystem::path(path).parent_path().string();
        if (auto made = make_directories(folder); !made) {
          return made;
        }
        ++count;
        return write_file(path, file.value, static_cast<unsigned>(file.created & 0777U));
      });
  if (!done) {
    return fail(std::move(done.error()));
  }
  return count;
}

}  // namespace kintsugi::server
