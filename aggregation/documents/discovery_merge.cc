#include "aggregation/documents/discovery_merge.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "krm/version_order.h"

namespace kintsugi::aggregation {
namespace {

using krm::Json;
using KeyPath = std::initializer_list<std::string_view>;

constexpr std::string_view kCurrent = "Current", kStale = "Stale";

const Json* find_entry(const Json& list, KeyPath key, std::string_view value) {
  for (const Json& entry : list.items()) {
    if (entry.text(key) == value) {
      return &entry;
    }
  }
  return nullptr;
}

Json* find_entry(Json& list, KeyPath key, std::string_view value) {
  return const_cast<Json*>(find_entry(std::as_const(list), key, value));
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

/// The same where two shards are joined.
template <class MergeEntry>
void join_lists(Json& into, const Json& more, std::string_view name, KeyPath key, Join join,
                MergeEntry merge_entry) {
  if (join == Join::kUnion) {
    merge_lists(into, more, name, key, merge_entry);
    return;
  }
  const Json* others = more.find(name);
  if (Json* mine = into.find(name)) {
    std::erase_if(mine->edit_items(), [&](Json& entry) {
      const Json* other = others == nullptr ? nullptr : find_entry(*others, key, entry.text(key));
      if (other == nullptr) {
        return true;
      }
      merge_entry(entry, *other);
      return false;
    });
  }
}

bool has_text(const Json* list, std::string_view text) {
  return list != nullptr && std::any_of(list->items().begin(), list->items().end(),
                                        [&](const Json& one) { return one.as_string() == text; });
}

void join_resource(Json& resource, const Json& other, Join join) {
  if (Json* verbs = resource.find("verbs")) {
    std::erase_if(verbs->edit_items(), [theirs = other.find("verbs")](const Json& verb) {
      return !has_text(theirs, verb.as_string());
    });
  }
  join_lists(resource, other, "subresources", {"subresource"}, join,
             [join](Json& mine, const Json& theirs) { join_resource(mine, theirs, join); });
}

void join_resources(Json& into, const Json& more, std::string_view key, Join join) {
  join_lists(into, more, "resources", {key}, join,
             [join](Json& mine, const Json& theirs) { join_resource(mine, theirs, join); });
}

void join_group(Json& into, const Json& more, Join join) {
  join_lists(into, more, "versions", {"groupVersion"}, join, [](Json&, const Json&) {});
}

void join_discovery_group(Json& into, const Json& more, Join join) {
  join_lists(into, more, "versions", {"version"}, join, [join](Json& version, const Json& other) {
    if (other.text({"freshness"}) == kCurrent) {
      version["freshness"] = kCurrent;
    }
    join_resources(version, other, "resource", join);
  });
}

void join_versions(Json& into, const Json& more, Join join) {
  const Json* theirs = more.find("versions");
  Json& mine = into["versions"];
  if (join == Join::kIntersection) {
    std::erase_if(mine.edit_items(),
                  [theirs](const Json& one) { return !has_text(theirs, one.as_string()); });
    return;
  }
  if (theirs == nullptr) {
    return;
  }
  for (const Json& version : theirs->items()) {
    if (!has_text(&mine, version.as_string())) {
      mine.push_back(version);
    }
  }
}

/// What has nothing in its list of this name.
void drop_empty(Json* entries, std::string_view name) {
  if (entries != nullptr) {
    std::erase_if(entries->edit_items(), [name](const Json& entry) {
      const Json* list = entry.find(name);
      return list == nullptr || list->size() == 0;
    });
  }
}

/// Groups of which no version is left in common.
void drop_empty_groups(Json& document, std::string_view list, Join join) {
  drop_empty(join == Join::kIntersection ? document.find(list) : nullptr, "versions");
}

/// What a group's versions are, for whoever visits them.
template <class Visit>
void for_each_group(Json& document, Visit visit) {
  const std::string_view kind = document.text({"kind"});
  const std::string_view list = kind == "APIGroupList"            ? "groups"
                                : kind == "APIGroupDiscoveryList" ? "items"
                                                                  : "";
  if (kind == "APIGroup") {
    visit(document);
  } else if (Json* groups = list.empty() ? nullptr : document.find(list)) {
    for (Json& group : groups->edit_items()) {
      visit(group);
    }
  }
}

void keep_verbs_of(Json& resources, const std::vector<std::string_view>& verbs) {
  std::erase_if(resources.edit_items(), [&verbs](Json& resource) {
    resource.erase("subresources");
    if (Json* served = resource.find("verbs")) {
      std::erase_if(served->edit_items(), [&verbs](const Json& verb) {
        return std::find(verbs.begin(), verbs.end(), verb.as_string()) == verbs.end();
      });
      return served->size() == 0 || resource.text({"name"}).find('/') != std::string_view::npos;
    }
    return true;
  });
}

}  // namespace

bool join_discovery(Json& into, const Json& more, Join join) {
  const std::string_view kind = into.text({"kind"});
  if (kind != more.text({"kind"})) {
    return false;
  }
  if (kind == "APIGroupList") {
    join_lists(into, more, "groups", {"name"}, join,
               [join](Json& mine, const Json& theirs) { join_group(mine, theirs, join); });
    drop_empty_groups(into, "groups", join);
  } else if (kind == "APIGroup") {
    join_group(into, more, join);
  } else if (kind == "APIResourceList") {
    join_resources(into, more, "name", join);
  } else if (kind == "APIGroupDiscoveryList") {
    join_lists(
        into, more, "items", {"metadata", "name"}, join,
        [join](Json& mine, const Json& theirs) { join_discovery_group(mine, theirs, join); });
    drop_empty_groups(into, "items", join);
  } else if (kind == "APIVersions") {
    join_versions(into, more, join);
  } else {
    return false;
  }
  return true;
}

void mark_stale(Json& document) {
  if (document.text({"kind"}) != "APIGroupDiscoveryList") {
    return;
  }
  for_each_group(document, [](Json& group) {
    for (Json& version : group["versions"].edit_items()) {
      version["freshness"] = kStale;
    }
  });
}

void keep_verbs(Json& document, const std::vector<std::string_view>& verbs) {
  if (document.text({"kind"}) == "APIResourceList") {
    keep_verbs_of(document["resources"], verbs);
  } else if (document.text({"kind"}) == "APIGroupDiscoveryList") {
    for_each_group(document, [&verbs](Json& group) {
      std::erase_if(group["versions"].edit_items(), [&verbs](Json& version) {
        Json& resources = version["resources"];
        keep_verbs_of(resources, verbs);
        return resources.size() == 0 && version.text({"freshness"}) != kStale;
      });
    });
    drop_empty(document.find("items"), "versions");
  }
}

void keep_resources(
    Json& document, std::string_view group,
    const std::function<bool(std::string_view group, std::string_view resource)>& keeps) {
  const std::string_view kind = document.text({"kind"});
  const auto filter = [&keeps](Json& resources, std::string_view of, std::string_view key) {
    std::erase_if(resources.edit_items(), [&](const Json& one) {
      const std::string_view name = one.text({key});
      return !keeps(of, name.substr(0, name.find('/')));
    });
  };
  if (kind == "APIResourceList") {
    filter(document["resources"], group, "name");
  } else if (kind == "APIGroupList") {
    std::erase_if(document["groups"].edit_items(),
                  [&keeps](const Json& one) { return !keeps(one.text({"name"}), {}); });
  } else if (kind == "APIGroup" && !keeps(group, {})) {
    document["versions"].edit_items().clear();
  } else if (kind == "APIGroupDiscoveryList") {
    for_each_group(document, [&filter](Json& one) {
      const std::string name(one.text({"metadata", "name"}));
      for (Json& version : one["versions"].edit_items()) {
        filter(version["resources"], name, "resource");
      }
      drop_empty(&one["versions"], "resources");
    });
    drop_empty(document.find("items"), "versions");
  }
}

std::vector<std::string> group_versions(const Json& document) {
  std::vector<std::string> out;
  const auto add = [&out](const Json& group) {
    const Json* versions = group.find("versions");
    for (const Json& one : versions != nullptr ? versions->items() : Json::Array()) {
      out.emplace_back(one.text({"groupVersion"}));
    }
  };
  if (document.text({"kind"}) == "APIGroup") {
    add(document);
  } else if (document.text({"kind"}) == "APIGroupList") {
    const Json* groups = document.find("groups");
    for (const Json& group : groups != nullptr ? groups->items() : Json::Array()) {
      add(group);
    }
  }
  return out;
}

void drop_versions(Json& document, const std::vector<std::string>& group_versions) {
  for_each_group(document, [&group_versions](Json& group) {
    std::erase_if(group["versions"].edit_items(), [&](const Json& one) {
      return std::find(group_versions.begin(), group_versions.end(), one.text({"groupVersion"})) !=
             group_versions.end();
    });
  });
  drop_empty(document.find("groups"), "versions");
}

void order_versions(Json& document) {
  if (document.text({"kind"}) == "APIVersions") {
    Json::Array& versions = document["versions"].edit_items();
    std::stable_sort(versions.begin(), versions.end(), [](const Json& a, const Json& b) {
      return krm::is_preferred_version(a.as_string(), b.as_string());
    });
    return;
  }
  for_each_group(document, [](Json& group) {
    Json::Array& versions = group["versions"].edit_items();
    std::stable_sort(versions.begin(), versions.end(), [](const Json& a, const Json& b) {
      return krm::is_preferred_version(a.text({"version"}), b.text({"version"}));
    });
    if (!versions.empty() && group.find("preferredVersion") != nullptr) {
      group["preferredVersion"] = versions.front();
    }
  });
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

}  // namespace kintsugi::aggregation
