#include "proxy/discovery_merge.h"

#include <algorithm>
#include <string_view>

namespace kintsugi::proxy {
namespace {

using krm::Json;
using KeyPath = std::initializer_list<std::string_view>;

Json* find_entry(Json& list, KeyPath key, std::string_view value) {
  for (Json& entry : list.edit_items()) {
    if (entry.text(key) == value) {
      return &entry;
    }
  }
  return nullptr;
}

/// Merges list `name` of both objects by `key`; entries of both sides go through `merge_entry`.
template <class MergeEntry>
void merge_lists(Json& theirs, const Json& ours, std::string_view name, KeyPath key,
                 MergeEntry merge_entry) {
  const Json* source = ours.find(name);
  if (source == nullptr || source->size() == 0) {
    return;
  }
  Json& target = theirs[name];
  for (const Json& entry : source->items()) {
    if (Json* found = find_entry(target, key, entry.text(key))) {
      merge_entry(*found, entry);
    } else {
      target.push_back(entry);
    }
  }
}

void replace(Json& theirs, const Json& ours) { theirs = ours; }

void merge_group(Json& theirs, const Json& ours) {
  merge_lists(theirs, ours, "versions", {"groupVersion"}, replace);
}

void merge_discovery_group(Json& theirs, const Json& ours) {
  merge_lists(theirs, ours, "versions", {"version"}, [](Json& version, const Json& our_version) {
    merge_lists(version, our_version, "resources", {"resource"}, replace);
  });
}

void common_verbs(Json& resource, const Json& other) {
  Json verbs = Json::array();
  if (const Json* mine = resource.find("verbs")) {
    const Json* theirs = other.find("verbs");
    for (const Json& verb : mine->items()) {
      if (theirs != nullptr && std::any_of(theirs->items().begin(), theirs->items().end(),
                                           [&](const Json& one) { return one == verb; })) {
        verbs.push_back(verb);
      }
    }
    resource["verbs"] = std::move(verbs);
  }
  merge_lists(resource, other, "subresources", {"subresource"}, common_verbs);
}

void keep(Json& /*mine*/, const Json& /*theirs*/) {}

void unite_group(Json& into, const Json& more) {
  merge_lists(into, more, "versions", {"groupVersion"}, keep);
}

void unite_discovery_group(Json& into, const Json& more) {
  merge_lists(into, more, "versions", {"version"}, [](Json& version, const Json& other) {
    merge_lists(version, other, "resources", {"resource"}, common_verbs);
  });
}

void unite_versions(Json& into, const Json& more) {
  const Json* versions = more.find("versions");
  Json& mine = into["versions"];
  for (std::size_t i = 0; versions != nullptr && i < versions->size(); ++i) {
    const Json& version = versions->items()[i];
    if (std::find(mine.items().begin(), mine.items().end(), version) == mine.items().end()) {
      mine.push_back(version);
    }
  }
}

}  // namespace

bool unite_discovery(Json& into, const Json& more) {
  const std::string_view kind = into.text({"kind"});
  if (kind != more.text({"kind"})) {
    return false;
  }
  if (kind == "APIGroupList") {
    merge_lists(into, more, "groups", {"name"}, unite_group);
  } else if (kind == "APIGroup") {
    unite_group(into, more);
  } else if (kind == "APIResourceList") {
    merge_lists(into, more, "resources", {"name"}, common_verbs);
  } else if (kind == "APIGroupDiscoveryList") {
    merge_lists(into, more, "items", {"metadata", "name"}, unite_discovery_group);
  } else if (kind == "APIVersions") {
    unite_versions(into, more);
  } else {
    return false;
  }
  return true;
}

bool merge_discovery(Json& theirs, const Json& ours) {
  const std::string_view kind = theirs.text({"kind"});
  if (kind != ours.text({"kind"})) {
    return false;
  }
  if (kind == "APIGroupList") {
    merge_lists(theirs, ours, "groups", {"name"}, merge_group);
  } else if (kind == "APIGroup") {
    merge_group(theirs, ours);
  } else if (kind == "APIResourceList") {
    merge_lists(theirs, ours, "resources", {"name"}, replace);
  } else if (kind == "APIGroupDiscoveryList") {
    merge_lists(theirs, ours, "items", {"metadata", "name"}, merge_discovery_group);
  } else {
    return false;
  }
  return true;
}

}  // namespace kintsugi::proxy
