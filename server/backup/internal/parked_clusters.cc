#include "server/backup/internal/parked_clusters.h"

#include <string_view>
#include <utility>

#include "base/strings.h"
#include "krm/annotations.h"
#include "krm/json.h"
#include "server/backup/internal/installation_snapshot.h"

namespace kintsugi::server {
namespace {

constexpr Duration kPatience = seconds(2);
constexpr std::string_view kClusters = "logicalclusters.core.kcp.io";
/// On a LogicalCluster that was made to rest here: the store that had it then.
constexpr std::string_view kParkedAnnotation = "kintsugi.dev/parked";

/// Whether an earlier restore has made it rest, and nobody has woken it: then it is not what
/// counts. One that cannot be read is not known to.
bool is_parked(const Expected<krm::Json>& object) {
  return object && object->text({"metadata", "annotations", krm::kInactiveAnnotation}) == "true" &&
         object->at({"metadata", "annotations", kParkedAnnotation}) != nullptr;
}

}  // namespace

std::string logical_cluster_of(std::string_view key) {
  const auto parts = split(key, '\0');
  const bool is_one = parts.size() == 3 && parts[0] == kClusters && parts[1] != "root" &&
                      parts[1].find(':') == std::string_view::npos;
  return is_one ? std::string(parts[1]) : std::string();
}

Expected<ParkedClusters> ParkedClusters::beside(const Layout& layout, const std::string& name) {
  auto objects = StoredObjects::of(layout);
  if (!objects) {
    return fail(std::move(objects.error()));
  }
  auto source = InstallationSnapshot::open(layout, name);
  if (!source && source.error().code() == Errc::kNotFound) {
    return ParkedClusters(std::move(*objects), {});  // nothing is beside it
  }
  auto pinned = source ? (*source)->pin(kPatience) : fail(source.error().clone());
  if (!pinned) {
    return fail(std::move(pinned.error()));
  }
  Places elsewhere;
  for (std::size_t i = 0; i < (*source)->stores().size(); ++i) {
    const std::string& store = (*source)->stores()[i].name;
    if (store == "proxy") {
      continue;
    }
    const auto damaged = (*source)->read(i, [&](const store::EntryView& row) {
      if (std::string cluster = logical_cluster_of(row.key);
          !cluster.empty() && !is_parked(objects->read(row))) {
        elsewhere.emplace(std::move(cluster), store);
      }
      return Expected<void>();
    });
    if (!damaged) {
      return fail(damaged.error().clone().at(store));
    }
  }
  return ParkedClusters(std::move(*objects), std::move(elsewhere));
}

Expected<std::optional<std::string>> ParkedClusters::instead_of(const store::EntryView& row) {
  const auto known =
      elsewhere_.empty() ? elsewhere_.end() : elsewhere_.find(logical_cluster_of(row.key));
  if (known == elsewhere_.end()) {
    return std::optional<std::string>();
  }
  auto parked = objects_.changed(row, [&](krm::Json& object) {
    object.make({"metadata", "annotations", krm::kInactiveAnnotation}) = "true";
    object.make({"metadata", "annotations", kParkedAnnotation}) = known->second;
  });
  if (!parked) {
    return fail(Errc::kCorrupt,
                "LogicalCluster " + known->first + " is at " + known->second +
                    ", too, and cannot be read here: " + std::string(parked.error().message()));
  }
  parked_.push_back(known->first + ", which is at " + known->second);
  return std::optional(std::move(*parked));
}

}  // namespace kintsugi::server
