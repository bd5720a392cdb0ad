#include <cstdio>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/version.h"
#include "cmd/kintsugi/commands.h"
#include "cmd/kintsugi/replica_watch.h"
#include "cmd/kintsugi/store_copy.h"
#include "server/replica_record.h"
#include "store/etcd/etcd_prefix.h"

namespace kintsugi::cmd {
namespace {

constexpr const char* kCommand = "store finish-upgrade";

/// @error kConflict names one of another release.
Expected<void> expect_no_others(store::EtcdPrefix& store) {
  const std::string own = product_version();
  std::optional<server::Replica> other;
  auto watched = watch_replicas(
      store, [&own](const server::Replica& one) { return one.version != own; }, 1,
      [&other](const std::vector<server::Replica>& at_work) {
        other = at_work.front();
        return false;
      });
  if (!watched || !other) {
    return watched;
  }
  return fail(Errc::kConflict,
              "kintsugi " + other->version + " at " + other->address + " is at work there");
}

}  // namespace

int run_store_finish_upgrade(const std::string& from, StoreFlags etcd) {
  const auto prefix = open_prefix(kCommand, from, std::move(etcd));
  if (!prefix) {
    return prefix.error();
  }
  store::EtcdPrefix& store = *prefix->store;
  if (auto quiet = expect_no_others(store); !quiet) {
    return complain(kCommand, quiet.error());
  }
  const auto found = store.look();
  const auto raised =
      found ? store.raise_lowest(product_version()) : Expected<void>(fail(found.error().clone()));
  if (!raised) {
    return complain(kCommand, raised.error());
  }
  std::printf("%s in etcd: for kintsugi %s and later; it was for %s and later\n",
              prefix->name.c_str(), product_version(), found->lowest.c_str());
  return 0;
}

}  // namespace kintsugi::cmd
