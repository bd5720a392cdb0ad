#include "server/backup/internal/etcd_restorer.h"

#include <algorithm>
#include <utility>

#include "server/backup/internal/installation.h"
#include "server/files.h"

namespace kintsugi::server {
namespace {

constexpr Duration kEtcdAnswers = seconds(5);

}  // namespace

/// As processes of an installation have it, of the root "/kintsugi".
StoreNote EtcdRestorer::access_to(const std::string& name) const {
  StoreNote note = access_;
  const bool is_shard = name != "proxy";
  note.etcd.prefix += is_shard ? "/shards" + name.substr(name.find('/')) : "/proxy";
  return note;
}

Expected<void> EtcdRestorer::open(const std::vector<std::string>& names,
                                  const std::string& backup) {
  while (access_.etcd.prefix.ends_with('/')) {
    access_.etcd.prefix.pop_back();
  }
  for (const std::string& name : names) {
    auto params = access_of(access_to(name));
    if (!params) {
      return fail(std::move(params.error()));
    }
    params->start_timeout = kEtcdAnswers;
    auto maker = store::EtcdMaker::make(std::move(*params), backup);
    if (!maker) {
      return fail(std::move(maker.error()));
    }
    names_.push_back(name);
    makers_.push_back(std::move(*maker));
  }
  return {};
}

Expected<RestoredStore> EtcdRestorer::restore(const BackupSet& set,
                                              const std::vector<BackupManifest>& chain,
                                              const Secret& key, const std::string& name,
                                              std::int64_t age, ParkedClusters* parked) {
  const BackedUpStore& last = *chain.back().find(name);
  const auto place = std::find(names_.begin(), names_.end(), name) - names_.begin();
  store::EtcdMaker& maker = *makers_[static_cast<std::size_t>(place)];
  const auto after = restored_revision(last, age);
  auto done = after ? maker.begin(*after) : fail(after.error().clone());
  done = done ? each_restored_row(
                    set, chain, key, name, age,
                    [&](const store::EntryView& row) { return maker.put(row); }, parked)
              : std::move(done);
  const auto made = done ? maker.check() : fail(std::move(done.error()));
  done = made ? check_count(last, made->rows) : fail(made.error().clone());
  if (!done) {
    return fail(std::move(done.error()));
  }
  return RestoredStore{made->revision, made->rows};
}

Expected<void> EtcdRestorer::note(const Layout& layout, const std::string& name) const {
  auto made = make_directories(mirror_folder_of(layout, name));
  return made ? write_store_note(note_folder_of(layout, name), access_to(name)) : std::move(made);
}

}  // namespace kintsugi::server
