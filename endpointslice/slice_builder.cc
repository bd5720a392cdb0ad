#include "endpointslice/slice_builder.h"

#include <algorithm>
#include <set>

#include "base/strings.h"
#include "krm/annotations.h"
#include "topology/conditions.h"

namespace kintsugi::endpointslice {
namespace {

using krm::Json;
using topology::Condition;

constexpr std::string_view kManager = "kintsugi";  // whose name the proxy's own writes carry
constexpr std::size_t kMaxNames = 5;

struct Endpoint {
  std::string url;
  Json shards;               ///< null: absent
  bool has_consumer = true;  ///< behind it, as far as is known
};

std::string annotation(const Json& slice, std::string_view key) {
  return std::string(slice.text({"metadata", "annotations", key}));
}

Json render(const Endpoint& endpoint) {
  Json item = Json::object({{"url", endpoint.url}});
  if (!endpoint.shards.is_null()) {
    item["shards"] = endpoint.shards;
  }
  return item;
}

/// Everything that one evaluation carries along.
struct Builder {
  const SliceInput& input;
  const SliceDefaults& defaults;
  EndpointMode mode;
  Consumers consumers;
  Json status;
  std::vector<Condition> conditions;

  [[nodiscard]] const Json* old_endpoints() const {
    const Json* endpoints = input.slice->at({"status", "endpoints"});
    return endpoints != nullptr && endpoints->is_array() ? endpoints : nullptr;
  }
  [[nodiscard]] bool foreign(std::string_view url) const {
    return std::find(input.foreign_urls.begin(), input.foreign_urls.end(), url) !=
           input.foreign_urls.end();
  }
  [[nodiscard]] bool listed_before(std::string_view url) const {
    const Json* endpoints = old_endpoints();
    return endpoints != nullptr &&
           std::any_of(endpoints->items().begin(), endpoints->items().end(),
                       [&](const Json& one) { return one.text({"url"}) == url; });
  }
  [[nodiscard]] std::string export_label() const {
    const std::string_view path = input.slice->text({"spec", "export", "path"});
    return std::string(path.empty() ? std::string_view(input.cluster) : path) + "|" +
           std::string(input.slice->text({"spec", "export", "name"}));
  }

  void keep_old(std::string_view field) {
    const Json* old = input.slice->at({"status", field});
    if (old != nullptr) {
      status[field] = *old;
    }
  }
  /// Own entries go, foreign ones keep their place; wanted ones stand where they stood, new ones
  /// follow. The first wanted one changes places with the first that has consumers, if it has none:
  /// there are clients that look at one endpoint only.
  void put_endpoints(const std::vector<Endpoint>& wanted) {
    std::vector<Json> list;
    std::vector<std::size_t> own;  // places in the list
    std::vector<bool> useful;      // of these
    std::set<std::string_view> placed;
    const auto place = [&](const Endpoint& endpoint) {
      if (!placed.insert(endpoint.url).second) {
        return;
      }
      own.push_back(list.size());
      useful.push_back(std::any_of(wanted.begin(), wanted.end(), [&](const Endpoint& one) {
        return one.url == endpoint.url && one.has_consumer;
      }));
      list.push_back(render(endpoint));
    };
    if (const Json* old = old_endpoints()) {
      for (const Json& one : old->items()) {
        const std::string_view url = one.text({"url"});
        const auto still = std::find_if(wanted.begin(), wanted.end(),
                                        [&](const Endpoint& w) { return w.url == url; });
        if (still != wanted.end()) {
          place(*still);
        } else if (foreign(url)) {
          list.push_back(one);
        }
      }
    }
    std::for_each(wanted.begin(), wanted.end(), place);
    const auto first = std::find(useful.begin(), useful.end(), true);
    if (first != useful.end()) {
      std::swap(list[own.front()], list[own[static_cast<std::size_t>(first - useful.begin())]]);
    }
    if (!list.empty()) {
      Json endpoints = Json::array();
      std::for_each(list.begin(), list.end(),
                    [&](Json& one) { endpoints.push_back(std::move(one)); });
      status["endpoints"] = std::move(endpoints);
    }
  }
  void urls_failed(std::string message) {
    conditions.push_back(
        {"EndpointURLsReady", "False", "ErrorGeneratingURLs", "Error", std::move(message)});
  }
};

std::string names_of(const std::vector<const SliceShard*>& shards) {
  std::vector<std::string> names;
  for (const SliceShard* shard : shards) {
    if (names.size() < kMaxNames) {
      names.push_back(shard->facts->name);
    }
  }
  return join(names, ", ");
}

/// Step 1 to 3. False: the status is complete.
bool judge_export(Builder& b) {
  switch (b.input.export_facts.state) {
    case ExportFacts::State::kFound:
      b.conditions.push_back({.type = "APIExportValid"});
      return true;
    case ExportFacts::State::kUnknown: {
      Json status = b.input.slice->find("status") != nullptr ? *b.input.slice->find("status")
                                                             : Json::object();
      b.status = std::move(status);
      b.conditions.push_back({"APIExportValid", "False", "InternalError", "Error",
                              "Error getting APIExport " + b.export_label()});
      return false;
    }
    case ExportFacts::State::kAbsent:
      b.put_endpoints({});
      b.conditions.push_back({"APIExportValid", "False", "APIExportNotFound", "Error",
                              "Error getting APIExport " + b.export_label()});
      b.urls_failed("APIExportValid is False");
      return false;
  }
  return false;
}

/// Step 4 and 5. False: the status is complete.
bool judge_partition(Builder& b) {
  const std::string_view name = b.input.slice->text({"spec", "partition"});
  if (name.empty()) {
    b.conditions.push_back({.type = "PartitionValid"});
    return true;
  }
  const ShardSelection* partition = b.input.partition;
  if (partition == nullptr) {
    b.put_endpoints({});
    b.conditions.push_back({"PartitionValid", "False", "PartitionInvalidReference", "Error",
                            "partition.topology.kcp.io \"" + std::string(name) + "\" not found"});
    b.urls_failed("PartitionValid is False");
    return false;
  }
  if (!partition->fault.empty()) {
    b.keep_old("endpoints");
    b.keep_old("shardSelector");
    b.conditions.push_back(
        {"PartitionValid", "False", "PartitionInvalidReference", "Error", partition->fault});
    b.urls_failed("PartitionValid is False");
    return false;
  }
  b.conditions.push_back({.type = "PartitionValid"});
  if (!partition->text.empty()) {
    b.status["shardSelector"] = partition->text;
  }
  return true;
}

std::string export_path(const Builder& b) {
  return "services/apiexport/" + b.input.export_facts.cluster_name + "/" +
         std::string(b.input.slice->text({"spec", "export", "name"}));
}

bool partition_is_open(const ShardSelection* partition) {
  return partition == nullptr || partition->selector.is_null() || partition->selector.size() == 0;
}

/// Where an entry leads to that stands for these shards: the proxies of the region that the slice
/// names, else of the one that all of them are in, else all proxies (GR-502).
std::string_view proxies_for(const Builder& b, const std::vector<const SliceShard*>& shards) {
  const Regions& regions = b.defaults.regions;
  const std::string wanted = annotation(*b.input.slice, krm::kEndpointRegionAnnotation);
  std::string_view url = regions.url_of(wanted);
  if (url.empty() && wanted != "any" && !shards.empty()) {
    const auto region_of = [&regions](const SliceShard* shard) {
      return shard->facts->labels.text({regions.label});
    };
    const std::string_view region = region_of(shards.front());
    if (std::all_of(shards.begin(), shards.end(),
                    [&](const SliceShard* shard) { return region_of(shard) == region; })) {
      url = regions.url_of(region);
    }
  }
  return url.empty() ? std::string_view(b.defaults.external_url) : url;
}

/// Step 7 for the modes with one entry a shard; `faults` collects shards whose URL cannot be used.
std::vector<Endpoint> per_shard_endpoints(Builder& b,
                                          const std::vector<const SliceShard*>& effective,
                                          const std::vector<const SliceShard*>& selected,
                                          std::string& fault) {
  const bool proxied = b.mode == EndpointMode::kProxied;
  const bool named = std::all_of(selected.begin(), selected.end(), [](const SliceShard* shard) {
    return shard->facts->labels.text({"name"}) == shard->facts->name;
  });
  std::vector<Endpoint> wanted;
  for (const SliceShard* shard : effective) {
    const std::string_view base = proxied
                                      ? proxies_for(b, {shard})
                                      : std::string_view(shard->facts->virtual_workspace_url.empty()
                                                             ? shard->facts->base_url
                                                             : shard->facts->virtual_workspace_url);
    const std::string prefix = proxied ? "shards/" + shard->facts->name + "/" : "";
    auto url = join_url(base, prefix + export_path(b));
    if (!url) {
      fault = "shard \"" + shard->facts->name + "\": " + std::string(url.error().message());
      continue;
    }
    Endpoint endpoint{std::move(*url), nullptr, shard->has_consumer};
    if (proxied && named) {
      endpoint.shards = Json::object(
          {{"selector",
            Json::object({{"matchLabels", Json::object({{"name", shard->facts->name}})}})}});
    }
    wanted.push_back(std::move(endpoint));
  }
  return wanted;
}

std::vector<Endpoint> aggregated_endpoint(Builder& b, bool any,
                                          const std::vector<const SliceShard*>& selected) {
  if (!any) {
    return {};
  }
  const std::string_view partition = b.input.slice->text({"spec", "partition"});
  std::string rest = export_path(b);
  if (!partition.empty()) {
    rest = "partitions/" + b.input.cluster + "/" + std::string(partition) + "/" + rest;
  }
  Json shards = Json::object();
  if (partition.empty() || partition_is_open(b.input.partition)) {
    shards["matchAll"] = true;
  } else {
    shards["selector"] = b.input.partition->selector;
  }
  auto url = join_url(proxies_for(b, selected), rest);
  if (!url) {
    return {};
  }
  return {{std::move(*url), std::move(shards), any}};
}

/// Step 9: why the list is as it is.
Condition explain(const Builder& b, std::size_t endpoints,
                  const std::vector<const SliceShard*>& selected, const std::string& url_fault,
                  std::string_view selector_text) {
  std::vector<const SliceShard*> away;
  bool unsynced = false;
  for (const SliceShard* shard : selected) {
    if (!shard->facts->up || !shard->facts->synced || !shard->bindings_synced) {
      away.push_back(shard);
      unsynced = unsynced || !shard->facts->synced || !shard->bindings_synced;
    }
  }
  const std::string away_text = std::to_string(away.size()) + " of " +
                                std::to_string(selected.size()) +
                                " selected shards are not reachable: " + names_of(away);
  const std::string type = "EndpointURLsReady";
  if (endpoints > 0) {
    return away.empty()
               ? Condition{.type = type, .message = std::to_string(endpoints) + " endpoints"}
               : Condition{type, "True", "SomeShardsUnavailable", "", away_text};
  }
  if (b.input.shards.empty()) {
    return {type, "False", "NoShards", "Warning", "no Shard is registered"};
  }
  if (selected.empty()) {
    return {type, "False", "NoShardMatches", "Warning",
            "selector \"" + std::string(selector_text) + "\" matches none of the " +
                std::to_string(b.input.shards.size()) + " shards"};
  }
  if (!url_fault.empty()) {
    return {type, "False", "InvalidShardURL", "Warning", url_fault};
  }
  if (unsynced) {
    return {type, "False", "ShardsNotSynced", "Warning", away_text};
  }
  return {type, "False", "NoConsumers", "Info",
          "no APIBinding to " + b.export_label() + " on any of the " +
              std::to_string(selected.size()) + " selected shards"};
}

std::vector<const SliceShard*> selected_of(const SliceInput& input) {
  std::vector<const SliceShard*> selected;
  for (std::size_t i = 0; i < input.shards.size(); ++i) {
    if (input.partition == nullptr || input.partition->selected[i]) {
      selected.push_back(&input.shards[i]);
    }
  }
  return selected;
}

/// A shard whose bindings are not known keeps the entry it has and gets no new one.
bool keeps_entry(Builder& b, const SliceShard* shard,
                 const std::vector<const SliceShard*>& selected) {
  std::string ignored;
  const auto own = b.mode == EndpointMode::kAggregated
                       ? aggregated_endpoint(b, true, selected)
                       : per_shard_endpoints(b, {shard}, selected, ignored);
  return !own.empty() && b.listed_before(own.front().url);
}

void add_staying(const Builder& b, std::vector<const SliceShard*>& effective) {
  const auto stays = [](const SliceShard& shard) { return shard.stays; };
  if (std::none_of(b.input.shards.begin(), b.input.shards.end(), stays)) {
    return;
  }
  const std::vector<std::string> leaving = leaving_shards(b.input, b.defaults);
  for (const SliceShard& shard : b.input.shards) {
    if (shard.stays &&
        std::find(leaving.begin(), leaving.end(), shard.facts->name) != leaving.end()) {
      effective.push_back(&shard);
    }
  }
}

std::vector<const SliceShard*> effective_of(Builder& b,
                                            const std::vector<const SliceShard*>& selected) {
  std::vector<const SliceShard*> effective = selected;
  add_staying(b, effective);
  if (b.consumers == Consumers::kRequired) {
    std::erase_if(effective, [&](const SliceShard* shard) {
      return !shard->has_consumer && (shard->bindings_synced || !keeps_entry(b, shard, selected));
    });
  }
  return effective;
}

void fill_endpoints(Builder& b) {
  if (b.mode != EndpointMode::kDirect && b.defaults.external_url.empty()) {
    b.put_endpoints({});
    b.urls_failed("external_url is not configured");
    return;
  }
  const std::vector<const SliceShard*> selected = selected_of(b.input);
  const std::vector<const SliceShard*> effective = effective_of(b, selected);
  std::string url_fault;
  std::vector<Endpoint> wanted;
  if (b.mode == EndpointMode::kAggregated) {
    wanted = aggregated_endpoint(b, !effective.empty(), selected);
  } else {
    wanted = per_shard_endpoints(b, effective, selected, url_fault);
  }
  b.put_endpoints(wanted);
  std::set<std::string_view> distinct;
  for (const Endpoint& endpoint : wanted) {
    distinct.insert(endpoint.url);
  }
  b.conditions.push_back(
      explain(b, distinct.size(), selected, url_fault, b.status.text({"shardSelector"})));
}

Builder builder_of(const SliceInput& input, const SliceDefaults& defaults) {
  return {input,
          defaults,
          endpoint_mode(*input.slice, defaults),
          consumers_policy(*input.slice, defaults),
          Json::object(),
          {}};
}

}  // namespace

std::vector<std::string> foreign_urls(const Json& slice,
                                      const std::vector<topology::ShardFacts>& shards) {
  std::vector<std::string> urls;
  const Json* managers = slice.at({"metadata", "managedFields"});
  if (managers == nullptr) {
    return urls;
  }
  for (const Json& entry : managers->items()) {
    const std::string_view manager = entry.text({"manager"});
    const bool ours = manager == kManager ||
                      std::any_of(shards.begin(), shards.end(),
                                  [&](const auto& shard) { return shard.name == manager; });
    const Json* owned = entry.at({"fieldsV1", "f:status", "f:endpoints"});
    if (ours || owned == nullptr || !owned->is_object()) {
      continue;
    }
    for (const krm::JsonMember& member : owned->members()) {
      const std::string_view name = member.key;
      const auto key = name.starts_with("k:") ? Json::parse(name.substr(2)) : Json();
      if (key && !key->text({"url"}).empty()) {
        urls.emplace_back(key->text({"url"}));
      }
    }
  }
  return urls;
}

EndpointMode endpoint_mode(const Json& slice, const SliceDefaults& defaults) {
  const std::string value = annotation(slice, krm::kEndpointModeAnnotation);
  return value == "direct"       ? EndpointMode::kDirect
         : value == "proxied"    ? EndpointMode::kProxied
         : value == "aggregated" ? EndpointMode::kAggregated
                                 : defaults.mode;
}

Consumers consumers_policy(const Json& slice, const SliceDefaults& defaults) {
  const std::string value = annotation(slice, krm::kConsumersAnnotation);
  return value == "required"  ? Consumers::kRequired
         : value == "ignored" ? Consumers::kIgnored
                              : defaults.consumers;
}

std::string_view Regions::url_of(std::string_view region) const {
  const auto found = std::find_if(urls.begin(), urls.end(),
                                  [region](const auto& one) { return one.first == region; });
  return found == urls.end() ? std::string_view() : std::string_view(found->second);
}

std::vector<std::string> annotation_warnings(const Json& slice, const Regions& regions) {
  std::vector<std::string> warnings;
  const auto check = [&](std::string_view key, const std::vector<std::string_view>& known) {
    const std::string value = annotation(slice, key);
    if (slice.at({"metadata", "annotations", key}) != nullptr &&
        std::find(known.begin(), known.end(), value) == known.end()) {
      warnings.push_back("annotation " + std::string(key) + ": unknown value \"" + value +
                         "\", the default is used");
    }
  };
  check(krm::kEndpointModeAnnotation, {"direct", "proxied", "aggregated"});
  check(krm::kConsumersAnnotation, {"required", "ignored"});
  std::vector<std::string_view> known = {"shard", "any"};
  for (const auto& [region, url] : regions.urls) {
    known.push_back(region);
  }
  check(krm::kEndpointRegionAnnotation, known);
  return warnings;
}

ShardSelection select_shards(const Json& partition,
                             const std::vector<topology::ShardFacts>& shards) {
  ShardSelection selection;
  const Json* stored = partition.at({"spec", "selector"});
  if (stored != nullptr) {
    selection.selector = *stored;
  }
  const auto selector = topology::selector_of(stored);
  if (!selector) {
    selection.fault = selector.error().message();
    return selection;
  }
  selection.text = selector->to_string();
  for (const topology::ShardFacts& shard : shards) {
    selection.selected.push_back(selector->matches(shard.labels));
  }
  return selection;
}

std::vector<ShardPart> explain_shards(const SliceInput& input, const SliceDefaults& defaults) {
  Builder b = builder_of(input, defaults);
  const std::vector<const SliceShard*> selected = selected_of(input);
  const std::vector<const SliceShard*> effective = effective_of(b, selected);
  const auto holds = [](const std::vector<const SliceShard*>& list, const SliceShard& shard) {
    return std::find(list.begin(), list.end(), &shard) != list.end();
  };
  std::vector<ShardPart> parts;
  for (const SliceShard& shard : input.shards) {
    ShardPart part{shard.facts->name, holds(selected, shard), holds(effective, shard), {}};
    std::string fault;
    if (!part.selected && !part.effective) {
      part.why = "its labels do not match the selector of the Partition";
    } else if (!part.effective) {
      part.why = shard.bindings_synced ? "it holds no APIBinding of the export"
                                       : "its APIBindings are not listed yet";
    } else if (b.mode != EndpointMode::kAggregated &&
               per_shard_endpoints(b, {&shard}, selected, fault).empty()) {
      part.why = fault;
    }
    parts.push_back(std::move(part));
  }
  return parts;
}

std::vector<std::string> leaving_shards(const SliceInput& input, const SliceDefaults& defaults) {
  std::vector<std::string> names;
  Builder b = builder_of(input, defaults);
  const ShardSelection* partition = input.partition;
  if (partition == nullptr || !partition->fault.empty() || b.mode == EndpointMode::kAggregated ||
      input.export_facts.state != ExportFacts::State::kFound ||
      input.slice->text({"status", "shardSelector"}) != partition->text) {
    return names;
  }
  for (std::size_t i = 0; i < input.shards.size(); ++i) {
    if (!partition->selected[i]) {
      std::string ignored;
      const auto own = per_shard_endpoints(b, {&input.shards[i]}, {&input.shards[i]}, ignored);
      if (!own.empty() && b.listed_before(own.front().url)) {
        names.push_back(input.shards[i].facts->name);
      }
    }
  }
  return names;
}

Json build_slice_status(const SliceInput& input, const SliceDefaults& defaults) {
  Builder b = builder_of(input, defaults);
  if (judge_export(b) && judge_partition(b)) {
    fill_endpoints(b);
  }
  // A rule that stopped early leaves the conditions it did not reach as they were.
  const Json* old = input.slice->at({"status", "conditions"});
  for (const std::string_view type : {"PartitionValid", "EndpointURLsReady"}) {
    const bool known =
        std::any_of(b.conditions.begin(), b.conditions.end(),
                    [&](const Condition& condition) { return condition.type == type; });
    if (known || old == nullptr) {
      continue;
    }
    for (const Json& one : old->items()) {
      if (one.text({"type"}) == type) {
        b.conditions.push_back({std::string(type), std::string(one.text({"status"})),
                                std::string(one.text({"reason"})),
                                std::string(one.text({"severity"})),
                                std::string(one.text({"message"}))});
      }
    }
  }
  b.status["conditions"] = topology::render_conditions(b.conditions, old, input.now);
  return std::move(b.status);
}

Expected<std::string> join_url(std::string_view base, std::string_view rest) {
  const std::size_t scheme = base.find("://");
  const std::string_view name = base.substr(0, scheme == std::string_view::npos ? 0 : scheme);
  if (name != "https" && name != "http") {
    return fail(Errc::kBadRequest, "\"" + std::string(base) + "\" is not an http or https URL");
  }
  const std::string_view tail = base.substr(scheme + 3);
  const std::size_t slash = tail.find('/');
  const std::string_view host = tail.substr(0, slash);
  if (host.empty() || host.find_first_of(" ?#@") != std::string_view::npos) {
    return fail(Errc::kBadRequest, "\"" + std::string(base) + "\" has no valid host");
  }
  std::string url = std::string(name) + "://" + std::string(host);
  const std::string path =
      (slash == std::string_view::npos ? "" : std::string(tail.substr(slash))) + "/" +
      std::string(rest);
  for (const std::string_view segment : split(path, '/')) {
    if (!segment.empty()) {
      url += "/" + std::string(segment);
    }
  }
  return url;
}

}  // namespace kintsugi::endpointslice
