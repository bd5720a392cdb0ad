#include "server/backup/internal/installation_snapshot.h"

#include <map>
#include <utility>

#include "store/etcd/etcd_prefix.h"
#include "store/lmdb/snapshot.h"

namespace kintsugi::server {
namespace {

/// A member that is there answers at once.
constexpr Duration kEtcdAnswers = seconds(5);

}  // namespace

/// One of both.
struct InstallationSnapshot::Source {
  std::unique_ptr<store::LmdbSnapshot> lmdb;
  std::unique_ptr<store::EtcdPrefix> etcd;
  std::uint64_t at = 0;          ///< etcd's revision as of which is read
  store::Revision revision = 0;  ///< that of the store then
  std::string not_held;          ///< why nobody keeps history for it; "": somebody does

  void note(Expected<void> held) {
    not_held = held ? std::string() : std::string(held.error().message());
  }
  /// Of a read that took longer than history was kept.
  [[nodiscard]] Error gone(const std::string& what) const {
    const std::string why =
        not_held.empty() ? "somebody else compacts, or it took longer than an hour" : not_held;
    return {Errc::kCompacted, what + ": its history was not kept: " + why};
  }
};

InstallationSnapshot::InstallationSnapshot() = default;
InstallationSnapshot::~InstallationSnapshot() = default;

Expected<std::unique_ptr<InstallationSnapshot>> InstallationSnapshot::open(
    const Layout& layout, std::string_view without) {
  auto stores = stores_of(layout);
  if (!stores) {
    return fail(std::move(stores.error()));
  }
  std::unique_ptr<InstallationSnapshot> out(new InstallationSnapshot());
  out->stores_ = std::move(*stores);
  std::erase_if(out->stores_, [&](const StoreFolder& store) { return store.name == without; });
  for (const StoreFolder& store : out->stores_) {
    if (auto opened = out->open_source(store); !opened) {
      return fail(std::move(opened.error()));
    }
  }
  return out;
}

Expected<void> InstallationSnapshot::open_source(const StoreFolder& store) {
  Source source;
  if (!store.note) {
    auto opened = store::LmdbSnapshot::open(store.directory);
    if (!opened) {
      return fail(std::move(opened.error()));
    }
    source.lmdb = std::move(*opened);
  } else {
    auto params = access_of(*store.note);
    if (!params) {
      return fail(std::move(params.error()).at(store.name));
    }
    params->start_timeout = kEtcdAnswers;
    auto opened = store::EtcdPrefix::open(std::move(*params));
    if (!opened) {
      return fail(std::move(opened.error()).at(store.name));
    }
    source.etcd = std::move(*opened);
  }
  sources_.push_back(std::move(source));
  return {};
}

Expected<bool> InstallationSnapshot::pin(Duration patience) {
  std::vector<store::LmdbSnapshot*> in_folders;
  for (const Source& source : sources_) {
    if (source.lmdb != nullptr) {
      in_folders.push_back(source.lmdb.get());
    }
  }
  hold_etcds();
  auto together =
      store::pin_together(in_folders, Clock::now() + patience,
                          {[this] { return pin_etcds(); }, [this] { return are_etcds_newest(); }});
  if (!together) {
    return together;
  }
  hold_folders();
  if (auto looked = look_at_etcds(); !looked) {
    return fail(std::move(looked.error()));
  }
  return together;
}

/// Until all are read: each of those who compact an etcd does it for all of its stores.
void InstallationSnapshot::hold_etcds() {
  for (Source& source : sources_) {
    if (source.etcd != nullptr) {
      source.note(source.etcd->hold());
    }
  }
}

void InstallationSnapshot::hold_folders() {
  for (Source& source : sources_) {
    if (source.lmdb != nullptr) {
      source.note(source.lmdb->hold());
    }
  }
}

Expected<void> InstallationSnapshot::pin_etcds() {
  std::map<std::uint64_t, std::uint64_t> newest;  // by cluster
  for (Source& source : sources_) {
    if (source.etcd == nullptr) {
      continue;
    }
    const auto [at, is_first] = newest.emplace(source.etcd->cluster(), 0);
    if (is_first) {
      const auto found = source.etcd->newest();
      if (!found) {
        return fail(found.error().clone());
      }
      at->second = *found;
      last_etcd_ = at->first;
    }
    source.at = at->second;
  }
  return {};
}

/// The one that was asked last tells the moment: of the others nothing may have changed until then.
Expected<bool> InstallationSnapshot::are_etcds_newest() {
  for (Source& source : sources_) {
    const bool may_have_changed = source.etcd != nullptr && source.etcd->cluster() != last_etcd_;
    auto same = may_have_changed ? source.etcd->is_unchanged_since(source.at) : true;
    if (!same || !*same) {
      return same;
    }
  }
  return true;
}

Expected<void> InstallationSnapshot::look_at_etcds() {
  using Kind = store::EtcdPrefix::Kind;
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    Source& source = sources_[i];
    if (source.etcd == nullptr) {
      continue;
    }
    const auto content = source.etcd->look_at(source.at);
    if (!content) {
      return fail(content.error().clone().at(stores_[i].name));
    }
    if (content->kind != Kind::kStore) {
      const std::string prefix = stores_[i].note->etcd.prefix + " in etcd: ";
      return fail(Errc::kConfig,
                  prefix + (content->kind == Kind::kMoved ? "has moved to " + content->place
                                                          : "no store is there"));
    }
    source.revision = content->revision;
  }
  return {};
}

Expected<store::Revision> InstallationSnapshot::revision(std::size_t index) const {
  const Source& source = sources_[index];
  return source.lmdb != nullptr ? source.lmdb->revision() : source.revision;
}

std::string InstallationSnapshot::incarnation(std::size_t index) const {
  const Source& source = sources_[index];
  return source.lmdb != nullptr ? source.lmdb->incarnation() : source.etcd->incarnation();
}

Expected<std::vector<std::string>> InstallationSnapshot::read(std::size_t index,
                                                              const RowVisit& visit) {
  Source& source = sources_[index];
  if (source.lmdb != nullptr) {
    auto read = source.lmdb->read(visit);
    return read || read.error().code() != Errc::kCompacted
               ? std::move(read)
               : fail(source.gone("the store was compacted while it was read"));
  }
  std::vector<std::string> damaged;
  if (auto all = source.etcd->each(visit, &damaged); !all) {
    return fail(all.error().code() == Errc::kCompacted
                    ? source.gone("etcd was compacted past revision " + std::to_string(source.at) +
                                  " while that was read")
                    : std::move(all.error()));
  }
  return damaged;
}

}  // namespace kintsugi::server
