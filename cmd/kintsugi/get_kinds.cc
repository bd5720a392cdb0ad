#include "cmd/kintsugi/get_kinds.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/strings.h"
#include "cmd/kintsugi/admin_client.h"
#include "krm/age.h"

namespace kintsugi::cmd {
namespace {

using krm::Json;

std::string number(const Json* value) {
  return std::to_string(value == nullptr ? 0 : value->as_integer());
}

/// Of what may be unknown: "" then.
std::string number_if(const Json& row, const char* member) {
  const Json* const value = row.find(member);
  return value == nullptr || value->is_null() ? "" : number(value);
}

std::string text_of(const Json& row, const char* member) { return std::string(row.text({member})); }

bool is_true(const Json& row, const char* member) {
  const Json* const value = row.find(member);
  return value != nullptr && value->as_bool();
}

std::string names_of(const Json* list, const char* member = nullptr) {
  std::vector<std::string> out;
  if (list != nullptr) {
    for (const Json& one : list->items()) {
      out.emplace_back(member == nullptr ? one.as_string() : one.text({member}));
    }
  }
  return join(out, ",");
}

bool is_synced(const Json& shard) {
  const Json* resources = shard.find("resources");
  if (resources == nullptr) {
    return false;
  }
  for (const auto& [name, resource] : resources->members()) {
    if (!is_true(resource, "synced")) {
      return false;
    }
  }
  return true;
}

std::string labels_of(const Json& shard) {
  std::vector<std::string> out;
  if (const Json* labels = shard.find("labels")) {
    for (const auto& [key, value] : labels->members()) {
      out.push_back(key + "=" + std::string(value.as_string()));
    }
  }
  return join(out, ",");
}

/// "ClusterProfile fleet/berlin, member"
std::string source_of(const Json& shard) {
  const std::string object(shard.text({"source", "object"}));
  return object.empty() ? "" : object + ", " + std::string(shard.text({"source", "state"}));
}

/// "" while it answers.
std::string lag_of(const Json& shard) {
  const Json* const lag = shard.find("lagSeconds");
  return lag == nullptr || lag->as_integer() == 0 ? "" : krm::age_text(lag->as_integer());
}

GetRow shard_row(const Json& shard) {
  return {text_of(shard, "name"),
          is_true(shard, "up") ? (is_synced(shard) ? "yes" : "syncing") : "no",
          std::string(shard.text({"labels", "region"})),
          number(shard.find("logicalClusters")),
          number_if(shard, "watches"),
          lag_of(shard),
          number_if(shard, "certificateDays"),
          text_of(shard, "cause"),
          text_of(shard, "baseURL"),
          number(shard.at({"consumers", "exports"})),
          labels_of(shard),
          source_of(shard)};
}

GetRow stream_row(const Json& watch) {
  const Json* age = watch.find("ageSeconds");
  return {text_of(watch, "user"),          text_of(watch, "cluster"),
          names_of(watch.find("shards")),  age == nullptr ? "" : krm::age_text(age->as_integer()),
          number(watch.find("sentBytes")), number(watch.find("queueBytes")),
          text_of(watch, "path"),          text_of(watch, "kind"),
          text_of(watch, "address"),       text_of(watch, "loop")};
}

GetRow group_row(const Json& stream) {
  std::vector<std::string> shards;
  if (const Json* list = stream.find("shards")) {
    for (const Json& shard : list->items()) {
      const std::string state = text_of(shard, "state");
      shards.push_back(text_of(shard, "shard") + (state == "live" ? "" : " (" + state + ")"));
    }
  }
  return {text_of(stream, "user"),  text_of(stream, "route"),       text_of(stream, "path"),
          join(shards, ","),        number(stream.find("readers")), number(stream.find("logBytes")),
          text_of(stream, "share"), number(stream.find("streams")), text_of(stream, "loop"),
          text_of(stream, "query")};
}

GetRow route_row(const Json& route) {
  return {text_of(route, "path"), text_of(route, "route"), text_of(route, "handler"),
          text_of(route, "reason"), text_of(route, "example")};
}

/// The first condition that is not True: nullptr where all are.
const Json* fault_of(const Json& slice) {
  if (const Json* const list = slice.find("conditions")) {
    for (const Json& one : list->items()) {
      if (one.text({"status"}) != "True") {
        return &one;
      }
    }
  }
  return nullptr;
}

/// "EndpointURLsReady ErrorGeneratingURLs: …", else which selected shards have no endpoint and why.
std::string why_of(const Json& slice) {
  if (const Json* const fault = fault_of(slice)) {
    const std::string message = text_of(*fault, "message");
    return text_of(*fault, "type") + " " + text_of(*fault, "reason") +
           (message.empty() ? "" : ": " + message);
  }
  std::vector<std::string> out;
  if (const Json* const shards = slice.find("shards")) {
    for (const Json& shard : shards->items()) {
      if (is_true(shard, "selected") && !is_true(shard, "effective")) {
        out.push_back(text_of(shard, "shard") + ": " + text_of(shard, "why"));
      }
    }
  }
  return join(out, "; ");
}

GetRow slice_row(const Json& slice) {
  const Json* const endpoints = slice.find("endpoints");
  const Json* const conditions = slice.find("conditions");
  const bool is_judged = conditions != nullptr && conditions->size() != 0;
  return {text_of(slice, "cluster"),
          text_of(slice, "name"),
          text_of(slice, "mode"),
          text_of(slice, "partition"),
          std::to_string(endpoints == nullptr ? 0 : endpoints->size()),
          !is_judged ? "unknown" : (fault_of(slice) == nullptr ? "yes" : "no"),
          why_of(slice),
          text_of(slice, "export"),
          names_of(endpoints, "url")};
}

GetRow partition_row(const Json& partition) {
  const std::string fault = text_of(partition, "fault");
  return {text_of(partition, "cluster"), text_of(partition, "name"), text_of(partition, "set"),
          text_of(partition, "selector"),
          fault.empty() ? names_of(partition.find("shards")) : "none: " + fault};
}

GetRow set_row(const Json& set) {
  const Json* const partitions = set.find("partitions");
  const std::string fault = text_of(set, "fault");
  return {text_of(set, "cluster"),
          text_of(set, "name"),
          names_of(set.find("dimensions")),
          std::to_string(partitions == nullptr ? 0 : partitions->size()),
          fault.empty() ? text_of(set, "selector") : "none: " + fault,
          names_of(partitions, "name")};
}

GetRow worker_row(const Json& worker) {
  return {text_of(worker, "instance"),
          text_of(worker, "role"),
          is_true(worker, "ready") ? "yes" : "no",
          number_if(worker, "units"),
          number_if(worker, "queue"),
          number_if(worker, "partitions"),
          text_of(worker, "reason"),
          number_if(worker, "generation"),
          number_if(worker, "journalBytes"),
          is_true(worker, "coordinates") ? "yes" : ""};
}

Expected<Got> ask_once(const GetKind& kind, const std::string& socket) {
  auto document = ask_admin(socket, kind.target);
  if (!document) {
    return fail(std::move(document.error()));
  }
  Got got;
  if (const Json* const list = document->find(kind.list)) {
    got.items.assign(list->items().begin(), list->items().end());
  }
  if (const Json* const cut = kind.cut == nullptr ? nullptr : document->find(kind.cut)) {
    got.cut = cut->as_integer();
  }
  return got;
}

Expected<Got> ask_pages(const std::string& socket, const std::string& target,
                        const char* list_member) {
  Got got;
  std::string next;
  do {
    auto page = ask_admin(socket, target + "?limit=500" + (next.empty() ? "" : "&next=" + next));
    if (!page) {
      return fail(std::move(page.error()));
    }
    if (const Json* const list = page->find(list_member)) {
      got.items.insert(got.items.end(), list->items().begin(), list->items().end());
    }
    next = text_of(*page, "next");
  } while (!next.empty());
  return got;
}

/// What only the data loops know of shards. Where they do not answer the rest is shown all the
/// same: it is asked for when something is wrong.
void add_loads(const std::string& socket, std::vector<Json>& shards) {
  const auto told = ask_pages(socket, "/ui/api/v1/shards", "items");
  if (!told) {
    return;
  }
  std::map<std::string_view, const Json*> by_name;
  for (const Json& one : told->items) {
    by_name.emplace(one.text({"name"}), &one);
  }
  for (Json& shard : shards) {
    const auto found = by_name.find(shard.text({"name"}));
    if (found == by_name.end()) {
      continue;
    }
    const Json* const alone = found->second->find("watches");
    const Json* const merged = found->second->find("mergedStreams");
    if (alone != nullptr && merged != nullptr) {
      shard["watches"] = alone->as_integer() + merged->as_integer();
    }
    if (const Json* const lag = found->second->find("lagSeconds")) {
      shard["lagSeconds"] = *lag;
    }
  }
}

constexpr const char* kShards = "shards";

}  // namespace

const std::vector<GetKind>& get_kinds() {
  static const std::vector<GetKind> kKinds = {
      {kShards,
       "whether each answers, how much it has to do, days its certificate has left, why not",
       "/debug/shards",
       "shards",
       false,
       {"NAME", "READY", "REGION", "CLUSTERS", "WATCHES", "LAG", "CERT", "REASON", "URL", "EXPORTS",
        "LABELS", "SOURCE"},
       1,
       8,
       true,
       "LAG",
       shard_row},
      {"streams",
       "watches that are running: whose, of what, what they were sent, what waits",
       "/debug/streams",
       "watches",
       false,
       {"USER", "CLUSTER", "SHARDS", "AGE", "SENT", "QUEUE", "PATH", "KIND", "ADDRESS", "LOOP"},
       1,
       7,
       false,
       "AGE",
       stream_row,
       "watchesCut"},
      {"groups",
       "merged watches that share streams: whose, of what, how many read them",
       "/debug/streams",
       "mergedWatches",
       false,
       {"USER", "ROUTE", "PATH", "SHARDS", "READERS", "LOG", "SHARE", "STREAMS", "LOOP", "QUERY"},
       1,
       6,
       true,
       nullptr,
       group_row},
      {"routes",
       "what each form of path leads to",
       "/debug/routes",
       "routes",
       false,
       {"PATH", "ROUTE", "HANDLER", "REASON", "EXAMPLE"},
       1,
       3,
       false,
       nullptr,
       route_row},
      {"slices",
       "APIExportEndpointSlices: endpoints, whether they are ready, why not",
       "/ui/api/v1/slices",
       "items",
       true,
       {"CLUSTER", "NAME", "MODE", "PARTITION", "ENDPOINTS", "READY", "WHY", "EXPORT", "URLS"},
       2,
       7,
       true,
       nullptr,
       slice_row},
      {"partitions",
       "Partitions: of which set, what they select, which shards that is",
       "/ui/api/v1/partitions",
       "items",
       true,
       {"CLUSTER", "NAME", "SET", "SELECTOR", "SHARDS"},
       2,
       5,
       true,
       nullptr,
       partition_row},
      {"sets",
       "PartitionSets: dimensions, how many Partitions",
       "/ui/api/v1/sets",
       "items",
       true,
       {"CLUSTER", "NAME", "DIMENSIONS", "PARTITIONS", "SELECTOR", "NAMES"},
       2,
       4,
       true,
       nullptr,
       set_row},
      {"workers",
       "those of ui.workers, a line for each role: ready, endpoints, queue, part of the ring",
       "/ui/api/v1/workers",
       "items",
       true,
       {"INSTANCE", "ROLE", "READY", "UNITS", "QUEUE", "RING", "REASON", "GENERATION", "JOURNAL",
        "COORDINATES"},
       2,
       7,
       true,
       nullptr,
       worker_row},
  };
  return kKinds;
}

std::string get_name(const GetKind& kind, const GetRow& row) {
  std::string out;
  for (std::size_t i = 0; i < kind.named; ++i) {
    out += (out.empty() ? "" : "/") + row[i];
  }
  return out;
}

bool is_named(const GetKind& kind, const GetRow& row, std::string_view wanted) {
  const auto end = row.begin() + static_cast<std::ptrdiff_t>(kind.named);
  return std::find(row.begin(), end, wanted) != end || get_name(kind, row) == wanted;
}

Expected<Got> fetch(const GetKind& kind, const std::string& socket) {
  if (kind.paged) {
    return ask_pages(socket, kind.target, kind.list);
  }
  auto got = ask_once(kind, socket);
  if (got && std::string_view(kind.name) == kShards) {
    add_loads(socket, got->items);
  }
  return got;
}

}  // namespace kintsugi::cmd
