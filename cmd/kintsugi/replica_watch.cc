#include "cmd/kintsugi/replica_watch.h"

#include <chrono>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include "base/time.h"

namespace kintsugi::cmd {
namespace {

constexpr Duration kLook = milliseconds(500);
constexpr Duration kWatched = seconds(server::kReplicaWriteSeconds + 2);

struct Record {
  server::Replica replica;
  store::Revision modified = 0;
};
using Records = std::map<std::string, Record>;

Expected<Records> read_records(store::EtcdPrefix& store,
                               const std::function<bool(const server::Replica&)>& counts) {
  Records out;
  auto read = store.each_record(
      server::kReplicaRecords, [&](const store::EntryView& row) -> Expected<void> {
        const std::string id(row.key.substr(server::kReplicaRecords.size()));
        auto replica = server::Replica::parse(id, row.value);
        if (replica && counts(*replica)) {
          out[id] = {std::move(*replica), row.modified};
        }
        return {};
      });
  return std::move(read).map([&out] { return std::move(out); });
}

}  // namespace

Expected<void> watch_replicas(
    store::EtcdPrefix& store, const std::function<bool(const server::Replica&)>& counts,
    std::size_t least,
    const std::function<bool(const std::vector<server::Replica>& at_work)>& found) {
  const auto first = read_records(store, counts);
  if (!first) {
    return fail(first.error().clone());
  }
  Records rest = *first;        // of whom nothing is known
  std::set<std::string> known;  // at work
  std::vector<server::Replica> at_work;
  const TimePoint end = Clock::now() + kWatched;
  while (!rest.empty() && rest.size() + at_work.size() >= least && Clock::now() < end) {
    std::this_thread::sleep_for(kLook);
    const auto now = read_records(store, counts);
    if (!now) {
      return fail(now.error().clone());
    }
    for (const auto& [id, record] : *now) {
      const auto before = first->find(id);
      const bool writes = before == first->end() || before->second.modified != record.modified;
      if (writes && known.insert(id).second) {
        rest.erase(id);
        at_work.push_back(record.replica);
        if (!found(at_work)) {
          return {};
        }
      }
    }
    std::erase_if(rest, [&now](const auto& one) { return !now->contains(one.first); });
  }
  return {};
}

Expected<void> expect_one_process(const store::EtcdParams& etcd) {
  const auto store = store::EtcdPrefix::open(etcd);
  if (!store) {
    return fail(store.error().clone());
  }
  if (const auto look = (*store)->look(); !look) {
    return fail(look.error().clone());
  }
  const auto all = [](const server::Replica&) { return true; };
  std::vector<server::Replica> known;
  auto watched = watch_replicas(**store, all, 2, [&known](const auto& at_work) {
    known = at_work;
    return known.size() < 2;
  });
  if (!watched || known.size() < 2) {
    return watched;
  }
  return fail(Errc::kConflict, "processes at " + known[0].address + " and " + known[1].address +
                                   " serve " + etcd.prefix +
                                   ": stop all but the one in whose folder it is to be");
}

}  // namespace kintsugi::cmd
