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

}  // namespace

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
