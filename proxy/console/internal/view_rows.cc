#include "proxy/console/internal/view_rows.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "base/version.h"
#include "krm/annotations.h"
#include "proxy/admin/shard_health.h"
#include "proxy/admin/why_not_ready.h"
#include "topology/partition_set.h"

namespace kintsugi::proxy {
namespace {

using krm::Json;

Json number(std::uint64_t value) { return {value}; }

/// What merged reads cost one shard.
struct Merged {
  std::size_t streams = 0, readers = 0, queue = 0;
};

std::map<std::string, Merged, std::less<>> merged_by_shard(const std::vector<LoopReport>& loops) {
  std::map<std::string, Merged, std::less<>> out;
  for (const LoopReport& loop : loops) {
    for (const aggregation::GroupReport& group : loop.groups) {
      for (const auto& shard : group.shards) {
        Merged& one = out[shard.name];
        one.streams += shard.relayed ? 0 : 1;
        one.readers += group.readers;
        one.queue += group.queue_bytes;
      }
    }
  }
  return out;
}

std::size_t watches_at(const std::vector<LoopReport>& loops, std::string_view shard) {
  std::size_t sum = 0;
  for (const LoopReport& loop : loops) {
    const auto found = loop.forward.servers.find(shard);
    sum += found != loop.forward.servers.end() ? found->second.watches : 0;
  }
  return sum;
}

bool is_up(const topology::ShardInfo& shard, const std::set<std::string>& silent) {
  return shard.up && !silent.contains(shard.spec.name);
}

void put_status(const topology::Feed::ShardStatus& status, TimePoint now, Json& row) {
  row["lagSeconds"] = static_cast<std::int64_t>(index_lag(status, now));
  for (std::size_t i = 0; i < topology::kResources; ++i) {
    row["resources"][topology::resource_name(static_cast<topology::Resource>(i))] =
        Json::object({{"objects", number(status.resources[i].objects)},
                      {"synced", status.resources[i].synced},
                      {"failures", status.resources[i].failures}});
  }
}

/// Of what the shard shows, and of what is used for it alone; null: there is nothing such.
Json certificate_days(const TopologyReport& topology, const std::vector<CertificateEnd>& peers,
                      const std::string& shard) {
  Json out;
  const auto look = [&out](const CertificateEnd& one) {
    const std::int64_t days = days_left(one.at);
    out = out.is_null() ? days : std::min(out.as_integer(), days);
  };
  for (const CertificateEnd& one : topology.certificates) {
    if (one.name == "shards." + shard || one.name == "topology.shards." + shard) {
      look(one);
    }
  }
  for (const CertificateEnd& one : peers) {
    if (one.name == shard) {
      look(one);
    }
  }
  return out;
}

ViewRows shard_rows(const ViewSources& from) {
  const topology::Snapshot& index = from.admin.feed.index();
  const auto statuses = from.admin.feed.status();
  const std::set<std::string> silent = silent_shards(statuses, from.loops);
  const auto merged = merged_by_shard(from.loops);
  const std::vector<CertificateEnd> peers = peer_ends(statuses, from.loops);
  std::map<std::string_view, const topology::Feed::ShardStatus*> by_name;
  for (const auto& status : statuses) {
    by_name[status.name] = &status;
  }
  ViewRows out;
  for (const auto& shard : index.shards()) {
    const std::string& name = shard->spec.name;
    Json labels = Json::object();
    for (const auto& [key, value] : shard->spec.labels) {
      labels[key] = value;
    }
    const std::string* const region = shard->spec.label("region");
    bool synced = true;
    for (std::size_t i = 0; i < topology::kResources; ++i) {
      synced = synced && shard->is_synced(static_cast<topology::Resource>(i));
    }
    const auto found = merged.find(name);
    const Merged load = found != merged.end() ? found->second : Merged{};
    const Rates::Of rate = from.rates.shard(name);
    const bool up = is_up(*shard, silent);
    Json row =
        Json::object({{"id", name},
                      {"name", name},
                      {"region", region != nullptr ? *region : ""},
                      {"labels", std::move(labels)},
                      {"up", up},
                      {"ready", up && (synced || shard->spec.plain)},
                      {"cause", !shard->cause.empty() || up ? shard->cause : "it has not answered"},
                      {"clusters", number(index.owned(shard->id))},
                      {"watches", number(watches_at(from.loops, name))},
                      {"mergedStreams", number(load.streams)},
                      {"readers", number(load.readers)},
                      {"queueBytes", number(load.queue)},
                      {"lagSeconds", 0},
                      {"certificateDays", certificate_days(from.topology, peers, name)},
                      {"requestsPerSecond", rate.requests},
                      {"errorsPerSecond", rate.errors},
                      {"urls", Json::object({{"base", shard->spec.base_url},
                                             {"external", shard->spec.external_url},
                                             {"virtual", shard->spec.virtual_workspace_url}})}});
    if (const auto status = by_name.find(name); status != by_name.end()) {
      put_status(*status->second, from.now, row);
    }
    out.push_back(std::move(row));
  }
  return out;
}

Json group_row(const LoopReport& loop, const aggregation::GroupReport& group) {
  Json shards = Json::array();
  for (const auto& shard : group.shards) {
    // Seconds in which nothing comes are usual; what lasts is told, in steps.
    const auto silent = std::chrono::duration_cast<seconds>(shard.silent).count() / 10 * 10;
    shards.push_back(Json::object({{"name", shard.name},
                                   {"state", shard.state},
                                   {"position", std::to_string(shard.position)},
                                   {"from", shard.relayed ? "another loop" : "the shard"},
                                   {"silentSeconds", static_cast<std::int64_t>(silent)}}));
  }
  const std::string share = group.reviewed ? "reviewed" : "caller";
  const std::string path = group.query.empty() ? group.path : group.path + "?" + group.query;
  return Json::object(
      {{"id", loop.name + "|" + group.route + "|" + path + "|" + group.user + share},
       {"kind", "merged"},
       {"user", group.user},
       {"route", group.route},
       {"cluster", "*"},
       {"path", path},
       {"share", share},
       {"readers", number(group.readers)},
       {"callers", number(group.callers)},
       {"queueBytes", number(group.queue_bytes)},
       {"logEvents", number(group.log_events)},
       {"loop", loop.name},
       {"shards", std::move(shards)}});
}

Json watch_row(const LoopReport& loop, const serving::WatchRow& watch, const ViewSources& from) {
  const auto since = std::chrono::duration_cast<seconds>(watch.since - from.started).count();
  Json shards = Json::array();
  for (const std::string& shard : watch.shards) {
    shards.push_back(Json::object({{"name", shard}}));
  }
  return Json::object({{"id", loop.name + "|" + std::string(watch.kind) + "|" +
                                  std::to_string(watch.since.time_since_epoch().count()) + "|" +
                                  watch.address + "|" + watch.path},
                       {"kind", watch.kind},
                       {"user", watch.user},
                       {"route", ""},
                       {"cluster", watch.cluster},
                       {"path", watch.path},
                       {"share", ""},
                       {"readers", 1},
                       {"queueBytes", number(watch.queue)},
                       {"sinceStart", static_cast<std::int64_t>(since)},
                       {"loop", loop.name},
                       {"shards", std::move(shards)}});
}

/// Groups of merged watches, whose readers are not told one by one, and every other watch.
ViewRows stream_rows(const ViewSources& from) {
  ViewRows out;
  std::map<std::string, int, std::less<>> seen;
  const auto add = [&](Json row) {
    const std::string id(row.text({"id"}));
    if (const int before = seen[id]++; before > 0) {
      row["id"] = id + "#" + std::to_string(before);
    }
    out.push_back(std::move(row));
  };
  for (const LoopReport& loop : from.loops) {
    for (const aggregation::GroupReport& group : loop.groups) {
      add(group_row(loop, group));
    }
    for (const serving::WatchRow& watch : loop.watches) {
      if (watch.kind != "merged") {
        add(watch_row(loop, watch, from));
      }
    }
  }
  return out;
}

Json evictions(const std::vector<LoopReport>& loops) {
  struct Row {
    std::string_view reason;
    std::uint64_t aggregation::MergeStats::*count;
  };
  using Stats = aggregation::MergeStats;
  static constexpr Row kRows[] = {
      {"slow", &Stats::evicted_slow},           {"memory", &Stats::evicted_memory},
      {"stall", &Stats::evicted_stall},         {"drain", &Stats::evicted_drain},
      {"forbidden", &Stats::evicted_forbidden}, {"review", &Stats::evicted_unreviewed}};
  Json out = Json::object();
  for (const Row& row : kRows) {
    std::uint64_t sum = 0;
    for (const LoopReport& loop : loops) {
      sum += loop.merge.*row.count;
    }
    out[row.reason] = sum;
  }
  return out;
}

Json least_certificate(const TopologyReport& topology) {
  const auto& all = topology.certificates;
  const auto least = std::min_element(all.begin(), all.end(),
                                      [](const auto& a, const auto& b) { return a.at < b.at; });
  return least == all.end() ? Json()
                            : Json::object({{"name", least->name}, {"days", days_left(least->at)}});
}

Json checks(const ViewSources& from, const std::string& away) {
  const auto check = [](std::string_view name, bool ok, std::string_view reason) {
    return Json::object({{"name", name}, {"ok", ok}, {"reason", ok ? "" : reason}});
  };
  return Json::array(
      {check("informer-sync", from.admin.feed.ready(), why_not_ready(from.admin.feed)),
       check("shards", away.empty(), away + " does not answer"),
       check("serving", !from.topology.draining, "the proxy is being stopped")});
}

ViewRows overview_rows(const ViewSources& from) {
  const topology::Snapshot& index = from.admin.feed.index();
  const std::set<std::string> silent = silent_shards(from.admin.feed.status(), from.loops);
  std::size_t up = 0, watches = 0;
  std::string away;
  for (const auto& shard : index.shards()) {
    if (is_up(*shard, silent)) {
      ++up;
    } else {
      away += (away.empty() ? "" : ", ") + shard->spec.name;
    }
  }
  for (const LoopReport& loop : from.loops) {
    watches += loop.open_watches;
  }
  const Rates::Of rate = from.rates.all();
  const bool ready = from.admin.feed.ready() && !from.topology.draining;
  return {Json::object(
      {{"id", "overview"},
       {"version", build_version()},
       {"uptimeSeconds", static_cast<std::int64_t>(
                             std::chrono::duration_cast<seconds>(from.now - from.started).count())},
       {"ready", ready},
       {"checks", checks(from, away)},
       {"shards", Json::object({{"total", number(index.shards().size())}, {"up", number(up)}})},
       {"clusters", number(index.cluster_count())},
       {"watches", number(watches)},
       {"requestsPerSecond", from.rates.known() ? Json(rate.requests) : Json()},
       {"errorsPerSecond", from.rates.known() ? Json(rate.errors) : Json()},
       {"p99Seconds", from.rates.p99() >= 0 ? Json(from.rates.p99()) : Json()},
       {"evictions", evictions(from.loops)},
       {"lastEviction", from.timeline.last("eviction")},
       {"leastCertificate", least_certificate(from.topology)},
       {"processes", Json::array({Json::object({{"name", "proxy"},
                                                {"pid", static_cast<std::int64_t>(::getpid())},
                                                {"version", build_version()},
                                                {"ready", ready}})})}})};
}

Json start_of(const Json& object) {
  const std::string cluster(object.at({"metadata", "annotations"}) != nullptr
                                ? object.text({"metadata", "annotations", krm::kClusterAnnotation})
                                : std::string_view());
  const std::string name(object.text({"metadata", "name"}));
  return Json::object({{"id", cluster + "|" + name}, {"cluster", cluster}, {"name", name}});
}

ViewRows slice_rows(const AdminParams& admin) {
  ViewRows out;
  admin.objects("apis.kcp.io", "apiexportendpointslices", [&](const Json& slice) {
    Json row = start_of(slice);
    const std::string path(slice.text({"spec", "export", "path"}));
    row["export"] =
        (path.empty() ? "" : path + ":") + std::string(slice.text({"spec", "export", "name"}));
    row["partition"] = slice.text({"spec", "partition"});
    const Json* const mode = slice.at({"metadata", "annotations", krm::kEndpointModeAnnotation});
    row["mode"] = mode != nullptr ? *mode : Json("default");
    const Json told =
        explain_slice(admin.feed.index(), admin.explain, row.text({"cluster"}), row.text({"name"}));
    for (const std::string_view field : {"endpoints", "conditions", "shards"}) {
      const Json* const value = told.find(field);
      row[field] = value != nullptr ? *value : Json::array();
    }
    const Json* const selector = told.find("shardSelector");
    row["selector"] = selector != nullptr ? *selector : Json("");
    out.push_back(std::move(row));
  });
  return out;
}

ViewRows partition_rows(const AdminParams& admin) {
  std::vector<topology::ShardFacts> facts;
  for (const auto& shard : admin.feed.index().shards()) {
    topology::ShardFacts one;
    one.name = shard->spec.name;
    for (const auto& [key, value] : shard->spec.labels) {
      one.labels[key] = value;
    }
    facts.push_back(std::move(one));
  }
  ViewRows out;
  admin.objects("topology.kcp.io", "partitions", [&](const Json& partition) {
    Json row = start_of(partition);
    std::string set;
    if (const Json* owners = partition.at({"metadata", "ownerReferences"})) {
      for (const Json& owner : owners->items()) {
        set = owner.text({"kind"}) == "PartitionSet" ? owner.text({"name"}) : std::string_view(set);
      }
    }
    const auto selection = endpointslice::select_shards(partition, facts);
    Json shards = Json::array();
    for (std::size_t i = 0; i < selection.selected.size(); ++i) {
      if (selection.selected[i]) {
        shards.push_back(facts[i].name);
      }
    }
    row["set"] = set;
    row["selector"] = selection.text;
    row["fault"] = selection.fault;
    row["shards"] = std::move(shards);
    out.push_back(std::move(row));
  });
  return out;
}

ViewRows set_rows(const AdminParams& admin) {
  std::map<std::pair<std::string, std::string>, Json> partitions;  // by cluster and set
  for (const Json& row : partition_rows(admin)) {
    if (const std::string_view set = row.text({"set"}); !set.empty()) {
      partitions[{std::string(row.text({"cluster"})), std::string(set)}].push_back(
          Json::object({{"name", row.text({"name"})}, {"shards", *row.find("shards")}}));
    }
  }
  ViewRows out;
  admin.objects("topology.kcp.io", "partitionsets", [&](const Json& set) {
    Json row = start_of(set);
    const auto copy = [&](std::string_view field, std::initializer_list<std::string_view> path) {
      const Json* const value = set.at(path);
      row[field] = value != nullptr ? *value : Json::array();
    };
    copy("dimensions", {"spec", "dimensions"});
    copy("conditions", {"status", "conditions"});
    const Json* const labels = set.at({"spec", "shardSelector"});
    const auto selector = topology::selector_of(labels);
    row["selector"] = labels != nullptr ? labels->dump() : "";
    row["fault"] = selector ? "" : selector.error().message();
    const auto found =
        partitions.find({std::string(row.text({"cluster"})), std::string(row.text({"name"}))});
    row["partitions"] = found != partitions.end() ? std::move(found->second) : Json::array();
    out.push_back(std::move(row));
  });
  return out;
}

}  // namespace

bool is_view(std::string_view name) noexcept {
  return std::find(std::begin(kViews), std::end(kViews), name) != std::end(kViews);
}

bool is_of_objects(std::string_view view) noexcept {
  return view == "slices" || view == "partitions" || view == "sets";
}

ViewRows rows_of(std::string_view view, const ViewSources& from) {
  if (view == "shards") {
    return shard_rows(from);
  }
  if (view == "streams") {
    return stream_rows(from);
  }
  if (is_of_objects(view)) {
    return !from.admin.objects ? ViewRows()
           : view == "slices"  ? slice_rows(from.admin)
           : view == "sets"    ? set_rows(from.admin)
                               : partition_rows(from.admin);
  }
  if (view == "events") {
    return from.timeline.rows();
  }
  if (view == "workers") {
    return from.admin.workers ? from.admin.workers() : ViewRows();
  }
  return overview_rows(from);
}

}  // namespace kintsugi::proxy
