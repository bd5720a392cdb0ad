#include "cmd/kintsugi/store_copy.h"

#include <cstdio>
#include <string_view>
#include <utility>

#include "cmd/kintsugi/commands.h"
#include "cmd/kintsugi/progress.h"
#include "server/etcd_password.h"
#include "store/etcd/etcd_prefix.h"
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

int run_store_renew(const std::string& from, StoreFlags etcd) {
  constexpr const char* kRenew = "store renew";
  if (!from.starts_with(kEtcd) || etcd.prefix.empty()) {
    return complain(kRenew, "--from etcd=URL,… and --prefix are required", 2);
  }
  etcd.store = from;
  auto params = etcd_params(etcd);
  if (!params) {
    return complain(kRenew, params.error(), params.error().code() == Errc::kConfig ? 2 : 1);
  }
  const std::string prefix = params->prefix;
  auto store = store::EtcdPrefix::open(std::move(*params));
  const auto found = store ? (*store)->look() : fail(store.error().clone());
  const auto revision = found ? (*store)->renew() : fail(found.error().clone());
  if (!revision) {
    return complain(kRenew, revision.error());
  }
  std::printf("%s in etcd: revision %llu is %llu now; clients list once more\n", prefix.c_str(),
              static_cast<unsigned long long>(found->revision),
              static_cast<unsigned long long>(*revision));
  return 0;
}

}  // namespace kintsugi::cmd
