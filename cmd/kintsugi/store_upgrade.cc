#include <chrono>
#include <cstdio>
#include <map>
#include <string>
#include <thread>
#include <utility>

#include "base/time.h"
#include "base/version.h"
#include "cmd/kintsugi/commands.h"
#include "cmd/kintsugi/store_copy.h"
#include "server/replica_record.h"
#include "store/etcd/etcd_prefix.h"

namespace kintsugi::cmd {
namespace {

constexpr const char* kCommand = "store finish-upgrade";
constexpr Duration kLook = milliseconds(500);
constexpr Duration kWatched = seconds(server::kReplicaWriteSeconds + 2);

struct Record {
  server::Replica replica;
  store::Revision modified = 0;
};
using Records = std::map<std::string, Record>;

Expected<Records> read_records(store::EtcdPrefix& store) {
  Records out;
  auto read = store.each_record(
      server::kReplicaRecords, [&out](const store::EntryView& row) -> Expected<void> {
        const std::string id(row.key.substr(server::kReplicaRecords.size()));
        auto replica = server::Replica::parse(id, row.value);
        if (replica) {
          out[id] = {std::move(*replica), row.modified};
        }
        return {};
      });
  return std::move(read).map([&out] { return std::move(out); });
}

/// Whoever is at work writes its record within kReplicaWriteSeconds.
/// @error kConflict names one of another release.
Expected<void> expect_no_others(store::EtcdPrefix& store) {
  const std::string own = product_version();
  const auto first = read_records(store);
  if (!first) {
    return fail(first.error().clone());
  }
  Records suspects;
  for (const auto& [id, record] : *first) {
    if (record.replica.version != own) {
      suspects.emplace(id, record);
    }
  }
  for (const TimePoint end = Clock::now() + kWatched; !suspects.empty() && Clock::now() < end;) {
    std::this_thread::sleep_for(kLook);
    const auto now = read_records(store);
    if (!now) {
      return fail(now.error().clone());
    }
    for (const auto& [id, record] : *now) {
      const auto known = suspects.find(id);
      const bool is_new = known == suspects.end() && record.replica.version != own;
      if (is_new || (known != suspects.end() && known->second.modified != record.modified)) {
        return fail(Errc::kConflict, "kintsugi " + record.replica.version + " at " +
                                         record.replica.address + " is at work there");
      }
    }
    std::erase_if(suspects, [&now](const auto& one) { return !now->contains(one.first); });
  }
  return {};
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
