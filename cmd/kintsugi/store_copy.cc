#include "cmd/kintsugi/store_copy.h"

#include <csignal>
#include <cstdio>
#include <string_view>
#include <utility>

#include "cmd/kintsugi/commands.h"
#include "cmd/kintsugi/progress.h"
#include "cmd/kintsugi/replica_watch.h"
#include "server/etcd_password.h"
#include "server/moved_store.h"
#include "store/transfer/online.h"
#include "store/transfer/transfer.h"

namespace kintsugi::cmd {
namespace {

constexpr const char* kCommand = "store copy";
constexpr std::string_view kFolder = "lmdb:";
constexpr std::string_view kEtcd = "etcd=";

/// Of "lmdb:DIR"; "": it is something else.
std::string folder_of(std::string_view place) {
  return place.starts_with(kFolder) ? std::string(place.substr(kFolder.size())) : std::string();
}

int run_online(const StoreCopyWords& words, const std::string& folder, store::EtcdParams etcd,
               store::TransferOptions transfer) {
  // Not in the moment in which nobody writes.
  std::signal(SIGTSTP, SIG_IGN);
  store::OnlineOptions options;
  options.transfer = std::move(transfer);
  options.note = [&words, etcd](const std::string& uid) {
    return server::moved_note(etcd, words.etcd.password_file, uid);
  };
  const bool into_etcd = words.to.starts_with(kEtcd);
  if (auto alone = into_etcd ? Expected<void>() : expect_one_process(etcd); !alone) {
    return complain(kCommand, alone.error());
  }
  const auto report = into_etcd ? store::move_to_etcd_online(folder, etcd, options)
                                : store::move_to_lmdb_online(etcd, folder, options);
  if (!report) {
    return complain(kCommand, report.error());
  }
  if (report->earlier) {
    std::printf("%s: the store is there already, moved by an earlier run; nothing was copied\n",
                words.to.c_str());
    return 0;
  }
  std::printf(
      "%s: %llu objects; nobody wrote for %lld ms\nrevision %llu in %s, %llu here; clients list "
      "once "
      "more\n%s has moved; who served it goes on here\n",
      words.to.c_str(), static_cast<unsigned long long>(report->rows.rows),
      static_cast<long long>(report->stopped / milliseconds(1)),
      static_cast<unsigned long long>(report->rows.before), words.from.c_str(),
      static_cast<unsigned long long>(report->rows.after), words.from.c_str());
  return 0;
}

}  // namespace

Expected<store::EtcdParams> etcd_params(const StoreFlags& flags) {
  auto etcd = understood_store(flags);
  auto password = server::read_etcd_password(flags.password_file);
  if (!etcd || !password) {
    return fail(std::move(!etcd ? etcd.error() : password.error()));
  }
  etcd->password = std::move(*password);
  return etcd;
}

int run_store_copy(StoreCopyWords words) {
  const bool into_etcd = words.to.starts_with(kEtcd);
  const std::string folder = folder_of(into_etcd ? words.from : words.to);
  if (folder.empty() || (!into_etcd && !words.from.starts_with(kEtcd))) {
    return complain(kCommand, "say --from lmdb:DIR --to etcd=URL,… or the other way round", 2);
  }
  if (words.etcd.prefix.empty()) {
    return complain(kCommand, "--prefix is required: that of the store in etcd", 2);
  }
  words.etcd.store = into_etcd ? words.to : words.from;
  auto etcd = etcd_params(words.etcd);
  if (!etcd) {
    return complain(kCommand, etcd.error(), etcd.error().code() == Errc::kConfig ? 2 : 1);
  }
  Progress progress(kCommand);
  store::TransferOptions options;
  options.force = words.etcd.force;
  options.tell = [&progress](std::uint64_t rows) {
    progress.show(std::to_string(rows) + " objects");
  };
  if (words.online) {
    return run_online(words, folder, std::move(*etcd), std::move(options));
  }
  const auto report = into_etcd ? store::move_to_etcd(folder, std::move(*etcd), options)
                                : store::move_to_lmdb(std::move(*etcd), folder, options);
  if (!report) {
    return complain(kCommand, report.error());
  }
  std::printf(
      "%s: %llu objects, digest %.16s, as in %s\nrevision %llu there, %llu here; clients list once "
      "more\n%s has moved: it opens with --force only\n",
      words.to.c_str(), static_cast<unsigned long long>(report->rows), report->digest.c_str(),
      words.from.c_str(), static_cast<unsigned long long>(report->before),
      static_cast<unsigned long long>(report->after), words.from.c_str());
  return 0;
}

tl::expected<NamedPrefix, int> open_prefix(const std::string& command, const std::string& from,
                                           StoreFlags etcd) {
  if (!from.starts_with(kEtcd) || etcd.prefix.empty()) {
    return tl::unexpected(complain(command, "--from etcd=URL,… and --prefix are required", 2));
  }
  etcd.store = from;
  auto params = etcd_params(etcd);
  if (!params) {
    return tl::unexpected(
        complain(command, params.error(), params.error().code() == Errc::kConfig ? 2 : 1));
  }
  NamedPrefix out;
  out.name = params->prefix;
  auto store = store::EtcdPrefix::open(std::move(*params));
  if (!store) {
    return tl::unexpected(complain(command, store.error()));
  }
  out.store = std::move(*store);
  return out;
}

int run_store_renew(const std::string& from, StoreFlags etcd) {
  constexpr const char* kRenew = "store renew";
  const auto prefix = open_prefix(kRenew, from, std::move(etcd));
  if (!prefix) {
    return prefix.error();
  }
  const auto found = prefix->store->look();
  const auto revision = found ? prefix->store->renew() : fail(found.error().clone());
  if (!revision) {
    return complain(kRenew, revision.error());
  }
  std::printf("%s in etcd: revision %llu is %llu now; clients list once more\n",
              prefix->name.c_str(), static_cast<unsigned long long>(found->revision),
              static_cast<unsigned long long>(*revision));
  return 0;
}

}  // namespace kintsugi::cmd
