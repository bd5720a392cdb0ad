// What of the objects the index believes (KK-064, KK-103, KK-292, KK-294).
#include <algorithm>
#include <cstring>
#include <iterator>

#include "base/digest.h"
#include "base/log.h"
#include "base/strings.h"
#include "topology/index.h"

namespace kintsugi::topology {
namespace {

constexpr std::size_t kMaxParents = 512;        // of a cluster that are remembered
constexpr std::uint64_t kLoggedDistrust = 100;  // then every thousandth

}  // namespace

Index::Index() : salt_(random_bytes(16)) {}

std::uint64_t Index::mark_of(std::string_view cluster, std::string_view name,
                             std::string_view uid) const {
  if (uid.empty()) {
    return 0;
  }
  const std::string text = FactWriter().raw(salt_).text(cluster).text(name).text(uid).bytes();
  const auto digest = sha256(text);
  std::uint64_t mark = 0;
  std::memcpy(&mark, digest.data(), sizeof(mark));
  return mark == 0 ? 1 : mark;
}

void Index::distrust(UntrustedFact fact, std::string_view cluster, std::string_view detail) {
  const std::uint64_t count = ++facts_.untrusted_[static_cast<std::size_t>(fact)];
  if (count <= kLoggedDistrust || count % 1'000 == 0) {
    log_warn("an object is not believed", {{"fact", untrusted_fact_name(fact)},
                                           {"cluster", cluster},
                                           {"detail", detail},
                                           {"count", count}});
  }
}

void Index::add_parent(std::string_view child, std::uint64_t mark) {
  if (child.empty() || mark == 0) {
    return;
  }
  const ClusterRecord before = read_cluster(child);
  if (before.parents.size() >= kMaxParents) {
    return;
  }
  ClusterRecord now = before;
  now.parents.push_back(mark);
  elect(child, now);
  write_cluster(child, before, now);
}

void Index::drop_parent(std::string_view child, std::uint64_t mark) {
  const ClusterRecord before = read_cluster(child);
  ClusterRecord now = before;
  const auto known = std::find(now.parents.begin(), now.parents.end(), mark);
  if (child.empty() || known == now.parents.end()) {
    return;
  }
  now.parents.erase(known);
  elect(child, now);
  write_cluster(child, before, now);
}

/// How much speaks for a report: most where only the shard `root` can be right and it is that, less
/// when the Workspace that it names as its owner names it, there more for one that is active
/// (GR-411), 0 nothing.
int Index::rank(std::string_view name, const ClusterRecord& record, const Report& report) const {
  if (name == kRootName || report.home) {
    const ShardInfo* shard = facts_.shard(report.shard);
    return shard != nullptr && shard->spec.name == kRootName ? 4 : 0;
  }
  const auto& parents = record.parents;
  const bool confirmed =
      report.owner != 0 && std::find(parents.begin(), parents.end(), report.owner) != parents.end();
  const int by_owner = confirmed ? 2 : 0;
  return by_owner != 0 && !report.inactive ? by_owner + 1 : by_owner;
}

/// Puts the report that counts behind the others: one of highest rank, and that is the one that
/// stood there when it is among them.
void Index::elect(std::string_view name, ClusterRecord& record) const {
  if (record.reports.size() < 2) {
    return;
  }
  auto best = record.reports.end() - 1;
  for (auto at = record.reports.end() - 1; at != record.reports.begin();) {
    --at;
    if (rank(name, record, *at) > rank(name, record, *best)) {
      best = at;
    }
  }
  std::rotate(best, best + 1, record.reports.end());
}

}  // namespace kintsugi::topology
