#include "endpointslice/internal/pick_url.h"

#include <algorithm>

namespace kintsugi::endpointslice {
namespace {

using krm::Json;
using Scope = SliceEndpoint::Scope;

Error wrong(std::size_t index, std::string_view what) {
  return Error(Errc::kInvalid,
               "status.endpoints[" + std::to_string(index) + "]" + std::string(what));
}

/// Absent and null are the same.
const Json* member(const Json& object, std::string_view key) {
  const Json* value = object.find(key);
  return value != nullptr && !value->is_null() ? value : nullptr;
}

Expected<SliceEndpoint> parse_endpoint(const Json& item, std::size_t index) {
  if (!item.is_object()) {
    return fail(wrong(index, ": must be an object"));
  }
  SliceEndpoint endpoint;
  const Json* url = member(item, "url");
  if (url == nullptr || !url->is_string() || url->as_string().empty()) {
    return fail(wrong(index, ".url: must be text that is not empty"));
  }
  endpoint.url = url->as_string();
  const Json* shards = member(item, "shards");
  if (shards == nullptr) {
    return endpoint;
  }
  if (!shards->is_object()) {
    return fail(wrong(index, ".shards: must be an object"));
  }
  const Json* all = member(*shards, "matchAll");
  if (all != nullptr && !all->is_bool()) {
    return fail(wrong(index, ".shards.matchAll: must be true or false"));
  }
  const Json* selector = member(*shards, "selector");
  if (selector != nullptr) {
    if (!selector->is_object()) {
      return fail(wrong(index, ".shards.selector: must be an object"));
    }
    auto parsed = krm::Selector::from_json(*selector);
    if (!parsed) {
      return fail(wrong(index, ".shards.selector: " + std::string(parsed.error().message())));
    }
    endpoint.selector = std::move(*parsed);
    endpoint.scope = Scope::kSelected;
  }
  if (all != nullptr && all->as_bool()) {
    endpoint.scope = selector != nullptr ? Scope::kAmbiguous : Scope::kAll;
  }
  return endpoint;
}

bool begins_with(std::string_view url, std::string_view prefix) {
  while (!prefix.empty() && prefix.back() == '/') {
    prefix.remove_suffix(1);
  }
  return !prefix.empty() && url.starts_with(prefix) &&
         (url.size() == prefix.size() || url[prefix.size()] == '/');
}

Expected<std::string> pick_by_prefix(const std::vector<SliceEndpoint>& endpoints,
                                     std::string_view prefix) {
  const SliceEndpoint* found = nullptr;
  for (const SliceEndpoint& endpoint : endpoints) {
    if (!begins_with(endpoint.url, prefix)) {
      continue;
    }
    if (found != nullptr) {
      return fail(Errc::kInvalid, "more than one endpoint URL begins with \"" +
                                      std::string(prefix) + "\": " + found->url + ", " +
                                      endpoint.url);
    }
    found = &endpoint;
  }
  if (found == nullptr) {
    return fail(Errc::kNotFound, "no endpoint URL begins with \"" + std::string(prefix) + "\"");
  }
  return found->url;
}

}  // namespace

Expected<std::vector<SliceEndpoint>> parse_endpoints(const Json& slice) {
  std::vector<SliceEndpoint> endpoints;
  const Json* status = slice.is_object() ? member(slice, "status") : nullptr;
  const Json* list =
      status != nullptr && status->is_object() ? member(*status, "endpoints") : nullptr;
  if (list == nullptr) {
    return endpoints;
  }
  if (!list->is_array()) {
    return fail(Errc::kInvalid, "status.endpoints: must be a list");
  }
  for (std::size_t i = 0; i < list->items().size(); ++i) {
    auto endpoint = parse_endpoint(list->items()[i], i);
    if (!endpoint) {
      return fail(std::move(endpoint.error()));
    }
    endpoints.push_back(std::move(*endpoint));
  }
  return endpoints;
}

Expected<std::string> pick_url(const std::vector<SliceEndpoint>& endpoints, const Json& labels,
                               std::string_view own_prefix) {
  if (std::all_of(endpoints.begin(), endpoints.end(),
                  [](const SliceEndpoint& one) { return one.scope == Scope::kPlain; })) {
    return pick_by_prefix(endpoints, own_prefix);
  }
  const SliceEndpoint* best = nullptr;
  const SliceEndpoint* rival = nullptr;
  for (const SliceEndpoint& endpoint : endpoints) {
    if (endpoint.scope == Scope::kAmbiguous) {
      return fail(Errc::kInvalid,
                  "endpoint " + endpoint.url + ": matchAll and selector are mutually exclusive");
    }
    if (endpoint.scope == Scope::kPlain || !endpoint.selector.matches(labels)) {
      continue;
    }
    const std::size_t weight = endpoint.selector.requirements().size();
    if (best == nullptr || weight > best->selector.requirements().size()) {
      best = &endpoint;
      rival = nullptr;
    } else if (weight == best->selector.requirements().size()) {
      rival = &endpoint;
    }
  }
  if (best == nullptr) {
    return fail(Errc::kNotFound, "no endpoint is for a shard with these labels");
  }
  if (rival != nullptr) {
    return fail(Errc::kInvalid,
                "two endpoints match the shard equally well: " + best->url + ", " + rival->url);
  }
  return best->url;
}

}  // namespace kintsugi::endpointslice
