#include "controlplane/controllers/internal/logical_cluster_controller.h"

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "apiserver/keys.h"
#include "base/log.h"
#include "base/strings.h"
#include "controlplane/catalog/cached_resources.h"
#include "controlplane/clusters/trust.h"
#include "controlplane/controllers/internal/conditions.h"
#include "controlplane/controllers/internal/resource_locks.h"
#include "controlplane/controllers/lifecycle.h"
#include "controlplane/internal/names.h"
#include "krm/annotations.h"
#include "krm/finalizers.h"
#include "krm/path_prefixes.h"
#include "store/batches.h"

namespace kintsugi::controlplane {
namespace {

using krm::Json;

constexpr std::string_view kRbacGroup = "rbac.authorization.k8s.io";
constexpr Duration kSweepAfter = seconds(2);
constexpr std::size_t kSweptAtOnce = 1'000;
constexpr Duration kLocksAfter = milliseconds(500);  // bindings and definitions change in bursts
constexpr std::string_view kDefinitionGroup = "apiextensions.k8s.io";
constexpr std::string_view kDefinitions = "customresourcedefinitions";
constexpr Duration kLookAgain = milliseconds(50);

/// Initializers whose work this shard does itself while it fills a cluster.
bool is_own_initializer(std::string_view name) {
  return name == "root:universal" || name == "root:organization" || name == "root:team";
}

apiserver::ObjectKey cluster_key(const std::string& cluster) {
  return {cluster, std::string(kCoreGroup), std::string(kLogicalClusters), "",
          std::string(kClusterName)};
}

Json make_namespace(const char* name, bool create_only) {
  Json object = Json::object({{"apiVersion", "v1"}, {"kind", "Namespace"}});
  object.make({"metadata", "name"}) = name;
  if (create_only) {
    object.make({"metadata", "annotations", krm::kCreateOnlyAnnotation}) = "true";
  }
  return object;
}

Json make_admin_binding(std::string_view user) {
  Json object = Json::object(
      {{"apiVersion", "rbac.authorization.k8s.io/v1"}, {"kind", "ClusterRoleBinding"}});
  object.make({"metadata", "name"}) = "workspace-admin";
  object["roleRef"] =
      Json::object({{"apiGroup", kRbacGroup}, {"kind", "ClusterRole"}, {"name", "cluster-admin"}});
  object["subjects"].push_back(
      Json::object({{"apiGroup", kRbacGroup}, {"kind", "User"}, {"name", user}}));
  return object;
}

constexpr std::string_view kAdminBinding = "workspace-admin";

/// Gives the creator, and nobody else, all rights.
bool is_admin_binding(const Json& binding, std::string_view user) {
  const Json* subjects = binding.find("subjects");
  return binding.text({"roleRef", "kind"}) == "ClusterRole" &&
         binding.text({"roleRef", "name"}) == "cluster-admin" && subjects != nullptr &&
         subjects->items().size() == 1 && subjects->items()[0].text({"kind"}) == "User" &&
         subjects->items()[0].text({"name"}) == user;
}

/// Deleted through another view, or never stored.
bool is_content(const apiserver::ResourceDef& def) {
  return !def.virtual_create_only && !def.stored_under_group && def.has_verb("delete") &&
         !(def.group == kCoreGroup && def.plural == kLogicalClusters);
}

/// Those who have work to do, from spec to status: nobody has done any yet.
void start_lifecycle(Json& cluster) {
  Json left = Json::array();
  if (const Json* wanted = cluster.at({"spec", "initializers"})) {
    for (const Json& name : wanted->items()) {
      if (!is_own_initializer(name.as_string())) {
        left.push_back(name);
      }
    }
  }
  if (left.size() > 0) {
    cluster.make({"status", "initializers"}) = std::move(left);
  }
  if (const Json* terminators = cluster.at({"spec", "terminators"})) {
    cluster.make({"status", "terminators"}) = *terminators;
  }
  cluster.make({"status", "phase"}) = "Initializing";
}

/// Its life has not begun.
bool is_new(const Json& cluster) {
  const std::string_view phase = cluster.text({"status", "phase"});
  return phase.empty() || phase == "Scheduling";
}

bool is_cluster_rbac(const apiserver::ResourceDef& def) {
  return def.group == kRbacGroup && !def.namespaced;
}

using Counts = std::map<std::string, std::size_t>;

std::string counted(const Counts& counts, std::string_view verb) {
  std::vector<std::string> parts;
  for (const auto& [what, count] : counts) {
    parts.push_back(what + " " + std::string(verb) + " " + std::to_string(count) +
                    " resource instances");
  }
  return join(parts, ", ");
}

/// @param kinds as "<plural>.<group>"
std::string remaining_text(const Counts& kinds, const Counts& finalizers) {
  std::string text = "Some resources are remaining: " + counted(kinds, "has");
  if (!finalizers.empty()) {
    text += ", Some content in the logical cluster has finalizers remaining: " +
            counted(finalizers, "in");
  }
  return text;
}

}  // namespace

/// The objects that a new cluster gets, made one after the other.
struct LogicalClusterController::Fill {
  std::string cluster;
  Json object;  // the LogicalCluster
  std::vector<std::pair<apiserver::ObjectKey, Json>> wanted;
  std::size_t next = 0;
  Finished finished;
};

LogicalClusterController::LogicalClusterController(const apiserver::ControllerContext& context,
                                                   Params params)
    : apiserver::ControllerBase(context, "kintsugi-logical-cluster"),
      params_(std::move(params)),
      facts_(context.loop, params_.store) {}

void LogicalClusterController::start() {
  follow(kCoreGroup, kLogicalClusters, [this](const apiserver::ApiServer::Change& change) {
    if (change.object != nullptr) {
      queue_.add(change.cluster);
    } else {
      facts_.erase(cluster_key(change.cluster));
      queue_.add_after(change.cluster, kSweepAfter);
    }
  });
  follow(kRbacGroup, "clusterrolebindings", [this](const apiserver::ApiServer::Change& change) {
    const ClusterInfo* info =
        change.name == kAdminBinding ? params_.index.find(change.cluster) : nullptr;
    if (info != nullptr && !info->deleting) {
      queue_.add(change.cluster);
    }
  });
  for (const auto& [group, resource] :
       {std::pair(kApisGroup, kApiBindings), std::pair(kDefinitionGroup, kDefinitions)}) {
    follow(group, resource, [this](const apiserver::ApiServer::Change& change) {
      const ClusterInfo* info = params_.index.find(change.cluster);
      if (info != nullptr && !info->deleting) {
        queue_.add_after(change.cluster, kLocksAfter);
      }
    });
  }
  // The last object of a deleted cluster lets it go.
  follow("", "", [this](const apiserver::ApiServer::Change& change) {
    if (change.object != nullptr) {
      return;
    }
    const ClusterInfo* info = params_.index.find(change.cluster);
    if (info != nullptr && info->deleting) {
      queue_.add(change.cluster);
    }
  });
}

void LogicalClusterController::add_cluster(std::string_view cluster) { queue_.add(cluster); }

void LogicalClusterController::process(const std::string& cluster, Finished finished) {
  if (is_system_cluster(cluster)) {
    finished(true);  // whatever the system keeps there has no life cycle
    return;
  }
  std::optional<Json> object = get(cluster_key(cluster));
  if (!object) {
    sweep(cluster, std::move(finished));
    return;
  }
  if (apiserver::is_deleted(*object)) {
    params_.on_content(cluster, true);
    if (waiting_names(*object, Lifecycle::kTerminating).empty()) {
      empty(cluster, std::move(*object), std::move(finished));
    } else {
      finished(true);  // the write that takes the last terminator away queues it again
    }
    return;
  }
  if (keep_path(cluster, *object, finished) || keep_admin(cluster, *object, finished) ||
      keep_owner(cluster, *object, finished) || keep_locks(cluster, *object, finished)) {
    return;  // what was written queues it again
  }
  auto work = std::make_shared<Fill>();
  work->cluster = cluster;
  work->object = std::move(*object);
  work->finished = std::move(finished);
  const auto want = [&](std::string_view group, std::string_view resource, Json wanted) {
    const apiserver::ObjectKey key{cluster, std::string(group), std::string(resource), "",
                                   std::string(wanted.text({"metadata", "name"}))};
    work->wanted.emplace_back(key, std::move(wanted));
  };
  if (is_new(work->object)) {
    want("", "namespaces", make_namespace("default", true));
    want("", "namespaces", make_namespace("kube-system", false));
  }
  const std::string_view creator = work->object.text({"spec", "createdBy", "username"});
  if (!creator.empty()) {
    want(kRbacGroup, "clusterrolebindings", make_admin_binding(creator));
  }
  fill(work);
}

/// The annotation says the path that the cluster has (KK-103); what another shard said of it when
/// it was made is kept. Returns whether something is written.
bool LogicalClusterController::keep_path(const std::string& cluster, const Json& object,
                                         const Finished& finished) {
  const ClusterInfo* info = params_.index.find(cluster);
  if (info == nullptr || info->path == cluster || info->uid != apiserver::uid_of(object)) {
    return false;
  }
  const apiserver::ObjectKey key = cluster_key(cluster);
  if (!info->path_is_sure && !info->owner_uid.empty()) {
    const std::optional<Json> known = facts_.get(key);
    if (!known || known->text({"uid"}) != info->uid) {
      facts_.put(key, Json::object({{"uid", Json(info->uid)}, {"path", Json(info->path)}}),
                 nullptr);
    }
  }
  const std::string said = annotation(object, krm::kPathAnnotation);
  if (said == info->path) {
    return false;
  }
  note_untrusted(UntrustedValue::kPath, cluster, kClusterName, said);
  Json repaired = object;
  repaired.make({"metadata", "annotations", krm::kPathAnnotation}) = info->path;
  update(key, "", std::move(repaired),
         [finished](Expected<Json> stored) { finished(stored.has_value()); });
  return true;
}

/// ClusterRoleBinding workspace-admin is the creator's, whoever changed it (KK-104); only createdBy
/// tells who that is. Returns whether something is written; a missing one is made by fill().
bool LogicalClusterController::keep_admin(const std::string& cluster, const Json& object,
                                          const Finished& finished) {
  const std::string creator(object.text({"spec", "createdBy", "username"}));
  const apiserver::ObjectKey key{cluster, std::string(kRbacGroup), "clusterrolebindings", "",
                                 std::string(kAdminBinding)};
  std::optional<Json> binding = creator.empty() ? std::nullopt : get(key);
  if (!binding || apiserver::is_deleted(*binding) || is_admin_binding(*binding, creator)) {
    return false;
  }
  note_untrusted(UntrustedValue::kAdminBinding, cluster, kAdminBinding, creator);
  const Json wanted = make_admin_binding(creator);
  const auto written = [this, cluster, finished](const Expected<Json>& stored) {
    queue_.add(cluster);
    finished(stored.has_value());
  };
  if (*binding->find("roleRef") == *wanted.find("roleRef")) {
    (*binding)["subjects"] = *wanted.find("subjects");
    update(key, "", std::move(*binding), written);
  } else {
    const std::string uid = apiserver::uid_of(*binding);
    apiserver::ControllerBase::remove(key, uid, written);  // nobody can change a roleRef
  }
  return true;
}

/// Of a cluster that is Ready nobody needs more of the owner than his name (KK-111). Returns
/// whether something is written.
bool LogicalClusterController::keep_owner(const std::string& cluster, const Json& object,
                                          const Finished& finished) {
  if (object.text({"status", "phase"}) != "Ready") {
    return false;
  }
  const Expected<Json> said = Json::parse(annotation(object, krm::kOwnerAnnotation));
  const std::string name(said && said->is_object() ? said->text({"username"}) : "");
  if (name.empty() || said->size() == 1) {
    return false;
  }
  Json cut = object;
  cut.make({"metadata", "annotations", krm::kOwnerAnnotation}) =
      Json::object({{"username", name}}).dump();
  update(cluster_key(cluster), "", std::move(cut),
         [finished](Expected<Json> stored) { finished(stored.has_value()); });
  return true;
}

/// The annotation says who serves what (KK-117), whoever changed it. Returns whether something is
/// written.
bool LogicalClusterController::keep_locks(const std::string& cluster, const Json& object,
                                          const Finished& finished) {
  const std::string locks = resource_locks(reader(), cluster);
  const std::string said = annotation(object, krm::kResourceBindingsAnnotation);
  if (said == locks || (said.empty() && locks == "{}")) {
    return false;
  }
  Json told = object;
  told.make({"metadata", "annotations", krm::kResourceBindingsAnnotation}) = locks;
  update(cluster_key(cluster), "", std::move(told),
         [finished](Expected<Json> stored) { finished(stored.has_value()); });
  return true;
}

void LogicalClusterController::fill(const std::shared_ptr<Fill>& work) {
  while (work->next < work->wanted.size() && get(work->wanted[work->next].first)) {
    ++work->next;
  }
  if (work->next == work->wanted.size()) {
    set_status(work);
    return;
  }
  auto& [key, object] = work->wanted[work->next++];
  create(key, std::move(object), [this, work, name = key.name](Expected<Json> created) {
    if (!created && created.error().code() != Errc::kAlreadyExists) {
      log_warn(
          "content of a new logical cluster cannot be made",
          {{"cluster", work->cluster}, {"name", name}, {"error", created.error().to_string()}});
      work->finished(false);
      return;
    }
    fill(work);
  });
}

void LogicalClusterController::set_status(const std::shared_ptr<Fill>& work) {
  Json object = work->object;
  if (is_new(object)) {
    start_lifecycle(object);
  }
  if (object.text({"status", "phase"}) == "Initializing" &&
      waiting_names(object, Lifecycle::kInitializing).empty()) {
    object.make({"status", "phase"}) = "Ready";
  }
  // By name, as kcp says it; the Workspace has the URL by path.
  object.make({"status", "URL"}) = params_.external_url() + krm::cluster_root(work->cluster);
  set_initialized_condition(object);
  params_.on_content(work->cluster, false);
  settle_status(cluster_key(work->cluster), work->object, std::move(object), work->finished);
}

void LogicalClusterController::empty(const std::string& cluster, Json object, Finished finished) {
  struct Pass {
    std::size_t left = 0;      // objects that are still there
    std::size_t pending = 1;   // deletions without an answer, and this scan
    Counts kinds, finalizers;  // of what is left
    std::function<void()> done;
  };
  auto pass = std::make_shared<Pass>();
  const auto answered = [pass] {
    if (--pass->pending == 0) {
      pass->done();
    }
  };
  const std::vector<apiserver::ResourcePtr> kinds = context_.registry.all(cluster);
  const auto visit = [&](bool rbac) {
    for (const apiserver::ResourcePtr& def : kinds) {
      if (!is_content(*def) || is_cluster_rbac(*def) != rbac) {
        continue;
      }
      reader().list(cluster, def->group, def->plural, "", [&](const Json& item) {
        ++pass->left;
        ++pass->kinds[def->plural + "." + def->group];
        if (const Json* held = item.at({"metadata", "finalizers"})) {
          for (const Json& one : held->items()) {
            ++pass->finalizers[std::string(one.as_string())];
          }
        }
        if (!apiserver::is_deleted(item)) {
          ++pass->pending;
          const apiserver::ObjectKey key{cluster, def->group, def->plural,
                                         std::string(item.text({"metadata", "namespace"})),
                                         std::string(item.text({"metadata", "name"}))};
          remove_in_cascade(cluster, key, apiserver::uid_of(item),
                            [answered](const Expected<Json>&) { answered(); });
        }
        return true;
      });
    }
  };
  visit(false);
  if (pass->left == 0) {
    visit(true);
  }
  const bool is_empty = pass->left == 0;
  // What waits for others' finalizers is told (KK-116); not while deletions are on their way.
  const bool is_held =
      !is_empty && pass->pending == 1 &&
      set_kcp_condition(object, "WorkspaceContentDeleted", "False", "Info", "SomeResourcesRemain",
                        remaining_text(pass->kinds, pass->finalizers));
  pass->done = [this, cluster, is_empty, is_held, object = std::move(object),
                finished = std::move(finished)]() mutable {
    if (!is_empty) {
      queue_.add_once_after(cluster,
                            kLookAgain);  // what has no deletion event (conversions, views)
      if (is_held) {
        update(cluster_key(cluster), "status", std::move(object),
               [finished](Expected<Json> stored) { finished(stored.has_value()); });
      } else {
        finished(true);
      }
      return;
    }
    if (!apiserver::drop_finalizer(object, krm::kLogicalClusterFinalizer)) {
      finished(true);
      return;
    }
    update(cluster_key(cluster), "", std::move(object), [finished](Expected<Json> stored) {
      finished(stored.has_value() || stored.error().code() == Errc::kNotFound);
    });
  };
  answered();
}

/// Rows of a cluster that is gone. Finds them by the names of resources that the store holds.
void LogicalClusterController::sweep(const std::string& cluster, Finished finished) {
  std::vector<store::Op> ops;
  std::string start;
  while (true) {
    std::string resource;
    store::RangeQuery first;
    first.start = start;
    auto found = params_.store.range(first, [&](const store::EntryView& entry) {
      resource = entry.key.substr(0, entry.key.find('\0'));
      return false;
    });
    if (!found || resource.empty()) {
      break;
    }
    start = resource + '\x01';  // behind every key of this resource
    if (apiserver::parse_stored_resource(resource).group == kinds::kReplicaGroup ||
        !offered_by(resource).empty()) {
      continue;  // the cluster may live on another shard
    }
    store::RangeQuery rows;
    rows.prefix = apiserver::collection_prefix(resource, cluster, "");
    auto read = params_.store.range(rows, [&](const store::EntryView& entry) {
      ops.push_back({store::EventType::kDelete, std::string(entry.key), std::string(entry.value),
                     entry.modified});
      return ops.size() < kSweptAtOnce;
    });
    if (!read) {
      break;
    }
  }
  if (ops.empty()) {
    finished(true);
    return;
  }
  log_info("sweeping what is left of a logical cluster",
           {{"cluster", cluster}, {"objects", static_cast<std::uint64_t>(ops.size())}});
  sweep_rows(cluster, std::make_shared<std::vector<store::Op>>(std::move(ops)),
             std::move(finished));
}

/// In as many transactions as it takes; then looks once more.
void LogicalClusterController::sweep_rows(const std::string& cluster,
                                          std::shared_ptr<std::vector<store::Op>> ops,
                                          Finished finished) {
  std::vector<store::Op> batch = store::take_batch(*ops, params_.store.limits());
  params_.store.commit(
      std::move(batch), [this, &loop = context_.loop, alive = alive_.weak(), cluster, ops,
                         finished = std::move(finished)](Expected<store::CommitResult> result) {
        loop.post([this, alive, cluster, ops, finished, ok = result && !result->conflict] {
          if (!alive) {
            return;
          }
          if (!ok) {
            finished(false);
          } else if (!ops->empty()) {
            sweep_rows(cluster, ops, finished);
          } else {
            sweep(cluster, finished);
          }
        });
      });
}

}  // namespace kintsugi::controlplane
