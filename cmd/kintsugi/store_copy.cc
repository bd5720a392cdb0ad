#include "cmd/kintsugi/store_copy.h"

#include <cstdio>
#include <string_view>
#include <utility>

#include "cmd/kintsugi/commands.h"
#include "cmd/kintsugi/progress.h"
#include "server/etcd_password.h"
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
  auto etcd = understood_store(words.etcd);
  if (!etcd) {
    return complain(kCommand, etcd.error(), 2);
  }
  auto password = server::read_etcd_password(words.etcd.password_file);
  if (!password) {
    return complain(kCommand, password.error());
  }
  etcd->password = std::move(*password);
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

}  // namespace kintsugi::cmd
