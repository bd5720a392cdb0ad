#include "server/internal/shard_store.h"

#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "base/log.h"
#include "controlplane/moves/move_limits.h"
#include "controlplane/quotas/workspace_books.h"
#include "krm/json.h"
#include "server/files.h"
#include "server/internal/etcd_opening.h"
#include "server/internal/store_note.h"
#include "server/moved_store.h"
#include "store/lmdb/rescue.h"
#include "store/lmdb/source.h"
#include "store/transfer/online.h"

namespace kintsugi::server {
namespace {

using krm::Json;

constexpr const char* kUid = "copy";

class Opener {
 public:
  Opener(const ShardOptions& options, std::function<void()> on_ended)
      : options_(options),
        on_ended_(std::move(on_ended)),
        shard_(options.layout.shard(options.name)),
        data_(options.layout.shard_data(options.name)),
        mirror_(options.layout.shard_replica(options.name, options.replica) + "/mirror") {}

  Expected<ShardStore> open() {
    if (options_.etcd.endpoints.empty()) {
      return open_lmdb();
    }
    StoreNote note{options_.etcd, options_.etcd_password_file};
    if (note.etcd.prefix.empty()) {
      note.etcd.prefix = "/kintsugi/shards/" + options_.name;
    }
    auto is_here = came_back(note);
    if (!is_here) {
      return fail(std::move(is_here.error()));
    }
    return *is_here ? open_lmdb() : open_etcd(std::move(note));
  }

 private:
  Expected<ShardStore> open_lmdb() {
    if (file_exists(mirror_) && !file_exists(data_)) {
      return fail(Errc::kConfig, "--store: the data of this shard is in etcd (" + mirror_ +
                                     "); `kintsugi store copy` moves it");
    }
    store::LmdbParams lmdb;
    lmdb.directory = data_;
    lmdb.opens_moved = options_.opens_moved;
    lmdb.books = controlplane::workspace_books();
    lmdb.limits = controlplane::move_limits();
    lmdb.on_moved = on_ended_;
    auto opened = store::open_or_rescue(std::move(lmdb));
    if (!opened) {
      const auto note = opened.error().code() == Errc::kConfig ? way_of_moved() : std::nullopt;
      return note ? follow(*note) : fail(std::move(opened.error()));
    }
    std::error_code ignored;
    std::filesystem::remove_all(mirror_, ignored);  // of when it was in etcd
    std::filesystem::remove(shard_ + '/' + kStoreNote, ignored);
    return ShardStore{std::move(*opened), nullptr, data_};
  }

  struct Way {
    StoreNote note;
    std::string uid;
  };
  /// To what the store in the folder has moved to online.
  [[nodiscard]] std::optional<Way> way_of_moved() const {
    const auto moved = store::moved_of(data_);
    const auto object = moved ? Json::parse(moved->note) : fail(Errc::kNotFound);
    auto note = object ? parse_store_note(*object) : std::nullopt;
    return note ? std::optional(Way{std::move(*note), std::string(object->text({kUid}))})
                : std::nullopt;
  }

  Expected<ShardStore> follow(const Way& way) {
    log_info("the data of the shard has moved into etcd", {{"prefix", way.note.etcd.prefix}});
    auto access = access_of(way.note);
    auto finished = access ? store::finish_in_etcd(std::move(*access), way.uid)
                           : fail(std::move(access.error()));
    return finished ? open_etcd(way.note) : fail(std::move(finished.error()));
  }

  /// Whether the data that is said to be in etcd was moved online into the folder of the shard.
  [[nodiscard]] Expected<bool> came_back(const StoreNote& note) const {
    const bool is_there = file_exists(data_);
    if ((!is_there && !file_exists(data_ + ".partial")) || (is_there && store::has_moved(data_))) {
      return false;
    }
    auto access = access_of(note);
    auto moved = access ? store::finish_in_folder(std::move(*access), data_)
                        : fail(std::move(access.error()));
    if (moved && *moved) {
      log_warn("--store: the data of the shard has moved into its folder", {{"folder", data_}});
      return true;
    }
    return is_there ? fail(Errc::kConfig, "--store: the data of this shard is in " + data_ +
                                              "; `kintsugi store copy` moves it")
                    : std::move(moved);
  }

  Expected<ShardStore> open_etcd(const StoreNote& note) {
    store::EtcdParams etcd = note.etcd;
    etcd.on_ended = on_ended_;
    etcd.mirror_directory = mirror_;
    etcd.books = controlplane::workspace_books();
    auto opened = open_etcd_store(std::move(etcd), note.password_file);
    if (!opened) {
      return fail(std::move(opened.error()));
    }
    if (auto written = write_store_note(shard_, note); !written) {
      return fail(std::move(written.error()));
    }
    store::EtcdStore* const found = opened->get();
    return ShardStore{std::move(*opened), found, mirror_};
  }

  const ShardOptions& options_;
  const std::function<void()> on_ended_;
  const std::string shard_, data_, mirror_;
};

}  // namespace

std::string moved_note(const store::EtcdParams& etcd, const std::string& password_file,
                       const std::string& uid) {
  Json object = to_json(StoreNote{etcd, password_file});
  object[kUid] = uid;
  return object.dump();
}

Expected<ShardStore> open_shard_store(const ShardOptions& options, std::function<void()> on_ended) {
  return Opener(options, std::move(on_ended)).open();
}

}  // namespace kintsugi::server
