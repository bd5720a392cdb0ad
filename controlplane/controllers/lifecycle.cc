#include "controlplane/controllers/lifecycle.h"

#include <algorithm>
#include <utility>

#include "base/digest.h"
#include "base/strings.h"
#include "controlplane/controllers/internal/conditions.h"
#include "controlplane/internal/names.h"
#include "krm/finalizers.h"
#include "krm/go_text.h"
#include "krm/labels.h"
#include "krm/status.h"

namespace kintsugi::controlplane {
namespace {

using krm::Json;

constexpr std::size_t kLongestLabelName = 63;
constexpr Lifecycle kLifecycles[] = {Lifecycle::kInitializing, Lifecycle::kTerminating};

constexpr LifecycleNames kNames[] = {
    {"initializers", "initializer", "Initializing", krm::kInitializerLabelPrefix, "initialize",
     "initializerPermissions", "initializingworkspaces"},
    {"terminators", "terminator", "Terminating", krm::kTerminatorLabelPrefix, "terminate",
     "terminatorPermissions", "terminatingworkspaces"},
};

const Json* list_of(const Json& object, std::string_view part, Lifecycle lifecycle) {
  const Json* list = object.at({part, lifecycle_names(lifecycle).list});
  return list != nullptr && list->is_array() && list->size() > 0 ? list : nullptr;
}

bool holds(const Json* list, const Json& item) {
  return list != nullptr &&
         std::find(list->items().begin(), list->items().end(), item) != list->items().end();
}

/// Every item of `part` is in `whole`.
bool is_within(const Json* part, const Json* whole) {
  return part == nullptr || std::all_of(part->items().begin(), part->items().end(),
                                        [&](const Json& item) { return holds(whole, item); });
}

bool is_lifecycle_label(std::string_view key) {
  return std::any_of(std::begin(kNames), std::end(kNames), [&](const LifecycleNames& names) {
    return key.starts_with(names.label_prefix);
  });
}

void keep_labels(Json& cluster) {
  const Json* known = cluster.at({"metadata", "labels"});
  Json labels = Json::object();
  if (known != nullptr) {
    for (const krm::JsonMember& label : known->members()) {
      if (!is_lifecycle_label(label.key)) {
        labels[label.key] = label.value;
      }
    }
  }
  const std::string phase(cluster.text({"status", "phase"}));
  if (!phase.empty()) {
    labels[krm::kPhaseLabel] = phase;
  }
  for (const Lifecycle lifecycle : kLifecycles) {
    for (const std::string& name : waiting_names(cluster, lifecycle)) {
      LifecycleLabel label = lifecycle_label(lifecycle, name);
      labels[label.key] = std::move(label.value);
    }
  }
  if (known != nullptr || labels.size() > 0) {
    cluster.make({"metadata", "labels"}) = std::move(labels);
  }
}

void keep_finalizer(Json& cluster, bool wanted) {
  const Json finalizer(krm::kTerminatorsFinalizer);
  Json* list = cluster.at({"metadata", "finalizers"});
  if (holds(list, finalizer) == wanted) {
    return;
  }
  if (wanted) {
    cluster.make({"metadata", "finalizers"}).push_back(finalizer);
    return;
  }
  Json left = Json::array();
  for (const Json& item : list->items()) {
    if (!(item == finalizer)) {
      left.push_back(item);
    }
  }
  *list = std::move(left);
}

/// The status without what a view may write, and without the phase that follows from it.
Json fixed_status(const Json& object, Lifecycle lifecycle) {
  const Json* status = object.find("status");
  Json rest = status == nullptr ? Json::object() : *status;
  rest.erase(lifecycle_names(lifecycle).list);
  rest.erase("conditions");
  if (lifecycle == Lifecycle::kTerminating) {
    rest.erase("phase");
  }
  return rest;
}

}  // namespace

const LifecycleNames& lifecycle_names(Lifecycle lifecycle) noexcept {
  return kNames[static_cast<std::size_t>(lifecycle)];
}

LifecycleLabel lifecycle_label(Lifecycle lifecycle, std::string_view name) {
  const auto digest = sha224(name);
  std::string hash = hex_encode({reinterpret_cast<const char*>(digest.data()), digest.size()});
  const std::string_view prefix = lifecycle_names(lifecycle).label_prefix;
  return {std::string(prefix) + hash.substr(0, kLongestLabelName - prefix.size()), hash};
}

std::vector<std::string> waiting_names(const Json& logical_cluster, Lifecycle lifecycle) {
  std::vector<std::string> names;
  if (const Json* list = list_of(logical_cluster, "status", lifecycle)) {
    for (const Json& item : list->items()) {
      names.emplace_back(item.as_string());
    }
  }
  return names;
}

bool waits_for(const Json& logical_cluster, Lifecycle lifecycle, std::string_view name) {
  return logical_cluster.text({"status", "phase"}) == lifecycle_names(lifecycle).phase &&
         holds(list_of(logical_cluster, "status", lifecycle), Json(name));
}

void keep_lifecycle(Json& logical_cluster) {
  const bool terminators = list_of(logical_cluster, "status", Lifecycle::kTerminating) != nullptr;
  if (!logical_cluster.text({"metadata", "deletionTimestamp"}).empty()) {
    logical_cluster.make({"status", "phase"}) = terminators ? "Terminating" : "Deleting";
  }
  keep_labels(logical_cluster);
  keep_finalizer(logical_cluster, terminators);
}

void set_initialized_condition(Json& object) {
  if (object.text({"status", "phase"}) == "Ready") {
    set_kcp_condition(object, "WorkspaceInitialized", "True");
    return;
  }
  const std::vector<std::string> left = waiting_names(object, Lifecycle::kInitializing);
  set_kcp_condition(object, "WorkspaceInitialized", "False", "Info", "InitializerExists",
                    "Initializers still exist: [" + join(left, " ") + "]");
}

Expected<void> check_only_removes(const Json& now, const Json& old, Lifecycle lifecycle,
                                  std::string_view name) {
  const Json* before = list_of(old, "status", lifecycle);
  const Json* after = list_of(now, "status", lifecycle);
  const std::size_t count = after == nullptr ? 0 : after->size();
  const std::size_t had = before == nullptr ? 0 : before->size();
  const bool removes = had == count + 1 && is_within(after, before) && holds(before, Json(name)) &&
                       !holds(after, Json(name));
  const bool same = had == count && (had == 0 || *before == *after);
  if ((removes || same) && fixed_status(now, lifecycle) == fixed_status(old, lifecycle)) {
    return {};
  }
  const LifecycleNames& names = lifecycle_names(lifecycle);
  const Cause cause = krm::field_invalid(
      "status." + std::string(names.list), after == nullptr ? Json::array() : *after,
      "only removing the " + krm::go_quote(name) + " " + std::string(names.one) + " is supported");
  const bool initializing = lifecycle == Lifecycle::kInitializing;
  return fail(krm::invalid(initializing ? kTenancyGroup : kCoreGroup, "LogicalCluster",
                           kClusterName, {cause}));
}

}  // namespace kintsugi::controlplane
