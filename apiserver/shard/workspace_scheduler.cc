#include "apiserver/shard/workspace_scheduler.h"

#include <algorithm>
#include <utility>

#include "apiserver/shard/conditions.h"
#include "apiserver/shard/lifecycle.h"
#include "apiserver/shard/names.h"
#include "base/log.h"

namespace kintsugi::apiserver {
namespace {

using krm::Json;

constexpr Duration kFirstWait = milliseconds(10);
constexpr Duration kLongestWait = seconds(2);
constexpr Duration kLongestRemoval = seconds(10);
constexpr Duration kLookForShards = seconds(5);

bool is_mount(const Json& workspace) { return workspace.at({"spec", "mount"}) != nullptr; }

/// Workspaces that some finalizer of another holds keep ours until last, as kcp does.
bool only_our_finalizer(const Json& workspace) {
  const Json* list = workspace.at({"metadata", "finalizers"});
  return list == nullptr ||
         std::all_of(list->items().begin(), list->items().end(),
                     [](const Json& item) { return item.as_string() == kWorkspaceFinalizer; });
}

/// Phase, initializers and terminators of the logical cluster.
void copy_lifecycle(Json& workspace, const Json& logical_cluster) {
  Json& status = workspace.make({"status"});
  status["phase"] = logical_cluster.text({"status", "phase"});
  for (const std::string_view list : {"initializers", "terminators"}) {
    const Json* names = logical_cluster.at({"status", list});
    if (names != nullptr && names->size() > 0) {
      status[list] = *names;
    } else {
      status.erase(list);
    }
  }
}

std::string placed_cluster(const Json& workspace) {
  const std::string_view published = workspace.text({"spec", "cluster"});
  return published.empty() ? annotation(workspace, kPlacedClusterAnnotation)
                           : std::string(published);
}

}  // namespace

struct WorkspaceScheduler::Job {
  std::string text;
  ObjectKey key;
  Json workspace;
  std::string shard, cluster;  // placement
  Finished finished;
};

WorkspaceScheduler::WorkspaceScheduler(const ControllerContext& context, Params params)
    : ControllerBase(context, "kintsugi-workspace-scheduler"), params_(std::move(params)) {}

void WorkspaceScheduler::start() {
  follow(kTenancyGroup, kWorkspaces,
         [this](const ApiServer::Change& change) { follow_workspace(change); });
  follow(kCoreGroup, kLogicalClusters, [this](const ApiServer::Change& change) {
    const Json* known = change.object ? change.object.get() : change.previous.get();
    if (known != nullptr && known->text({"spec", "owner", "resource"}) == kWorkspaces) {
      const ObjectKey owner{std::string(known->text({"spec", "owner", "cluster"})),
                            std::string(kTenancyGroup), std::string(kWorkspaces), "",
                            std::string(known->text({"spec", "owner", "name"}))};
      waits_.erase(owner.pack());
      queue_.add(owner.pack());
    }
  });
  params_.root.listen([this] {
    for (const std::string& key : unplaced_) {
      queue_.add(key);
    }
  });
}

void WorkspaceScheduler::add_cluster(std::string_view cluster) {
  reader().list(cluster, kTenancyGroup, kWorkspaces, "", [&](const Json& workspace) {
    count(workspace, +1);
    queue_.add(ObjectKey{std::string(cluster), std::string(kTenancyGroup), std::string(kWorkspaces),
                         "", std::string(workspace.text({"metadata", "name"}))}
                   .pack());
    return true;
  });
}

void WorkspaceScheduler::count(const Json& workspace, int change) {
  const std::string shard = annotation(workspace, kPlacedShardAnnotation);
  if (!shard.empty()) {
    std::size_t& placed = counts_[shard];
    placed = change > 0 ? placed + 1 : placed - std::min<std::size_t>(placed, 1);
  }
}

void WorkspaceScheduler::follow_workspace(const ApiServer::Change& change) {
  const std::string before =
      change.previous ? annotation(*change.previous, kPlacedShardAnnotation) : std::string();
  const std::string now =
      change.object ? annotation(*change.object, kPlacedShardAnnotation) : std::string();
  if (before != now) {
    if (change.previous) {
      count(*change.previous, -1);
    }
    if (change.object) {
      count(*change.object, +1);
    }
  }
  const std::string key =
      ObjectKey{change.cluster, change.group, change.resource, "", change.name}.pack();
  if (change.object == nullptr) {
    unplaced_.erase(key);
    waits_.erase(key);
    return;
  }
  queue_.add(key);
}

void WorkspaceScheduler::process(const std::string& text, Finished finished) {
  auto job = std::make_shared<Job>();
  job->text = text;
  job->key = ObjectKey::unpack(text);
  job->finished = std::move(finished);
  std::optional<Json> workspace = get(job->key);
  if (!workspace) {
    unplaced_.erase(text);
    job->finished(true);
    return;
  }
  job->workspace = std::move(*workspace);
  job->shard = annotation(job->workspace, kPlacedShardAnnotation);
  job->cluster = placed_cluster(job->workspace);
  if (is_deleted(job->workspace)) {
    remove(job);
  } else if (is_mount(job->workspace)) {
    job->finished(true);  // traffic goes to spec.URL; there is no logical cluster
  } else if (job->shard.empty() || job->cluster.empty() ||
             !has_finalizer(job->workspace, kWorkspaceFinalizer)) {
    place(job);
  } else {
    unplaced_.erase(text);
    check_cluster(job);
  }
}

void WorkspaceScheduler::wait(const JobPtr& job, Duration longest) {
  unsigned& waits = waits_[job->text];
  const Duration pause = std::min<Duration>(longest, kFirstWait * (1LL << std::min(waits, 16U)));
  ++waits;
  queue_.add_after(job->text, pause);
  job->finished(true);
}

void WorkspaceScheduler::progress(const JobPtr& job) { waits_.erase(job->text); }

void WorkspaceScheduler::place(const JobPtr& job) {
  if (!job->shard.empty() && !job->cluster.empty()) {
    note_placement(job, job->shard);  // somebody took the finalizer away
    return;
  }
  if (!params_.root.synced()) {
    unplaced_.insert(job->text);
    wait(job, kLongestWait);
    return;
  }
  Expected<std::vector<std::string>> shards = placement_candidates(
      params_.root, job->workspace.at({"spec", "location", "selector"}), counts_);
  if (!shards) {
    unschedulable(job, "spec.location.selector: " + std::string(shards.error().message()));
  } else if (shards->empty()) {
    unschedulable(job, "No available shards to schedule the workspace");
  } else {
    try_shard(job, std::move(*shards), 0);
  }
}

void WorkspaceScheduler::try_shard(const JobPtr& job, std::vector<std::string> shards,
                                   std::size_t next) {
  if (next == shards.size()) {
    unplaced_.insert(job->text);
    wait(job, kLongestWait);
    return;
  }
  const std::string shard = shards[next];
  params_.access.probe(shard, [this, job, shards = std::move(shards), next, shard](bool up) {
    if (up) {
      note_placement(job, shard);
    } else {
      try_shard(job, shards, next + 1);
    }
  });
}

void WorkspaceScheduler::note_placement(const JobPtr& job, const std::string& shard) {
  Json workspace = job->workspace;
  const std::string cluster = job->cluster.empty() ? random_cluster_name() : job->cluster;
  workspace.make({"metadata", "annotations", kPlacedShardAnnotation}) = shard;
  workspace.make({"metadata", "annotations", kPlacedClusterAnnotation}) = cluster;
  if (!has_finalizer(workspace, kWorkspaceFinalizer)) {
    workspace.make({"metadata", "finalizers"}).push_back(Json(kWorkspaceFinalizer));
  }
  if (const ShardRecord* record = params_.root.shard(shard)) {
    const std::string_view region = record->labels.text({"region"});
    if (!region.empty() && workspace.text({"metadata", "labels", "region"}).empty()) {
      workspace.make({"metadata", "labels", "region"}) = region;
    }
  }
  update(job->key, "", std::move(workspace), [this, job](Expected<Json> stored) {
    if (stored) {
      progress(job);
      unplaced_.erase(job->text);
    }
    job->finished(stored.has_value());  // the change queues the workspace again
  });
}

void WorkspaceScheduler::forget_placement(const JobPtr& job) {
  Json workspace = job->workspace;
  if (Json* annotations = workspace.at({"metadata", "annotations"})) {
    annotations->erase(kPlacedShardAnnotation);
    annotations->erase(kPlacedClusterAnnotation);
  }
  update(job->key, "", std::move(workspace),
         [job](Expected<Json> stored) { job->finished(stored.has_value()); });
}

void WorkspaceScheduler::unschedulable(const JobPtr& job, std::string_view message) {
  unplaced_.insert(job->text);
  queue_.add_after(job->text, kLookForShards);
  Json workspace = job->workspace;
  if (!set_kcp_condition(workspace, "WorkspaceScheduled", "False", "Error", "Unschedulable",
                         message)) {
    job->finished(true);
    return;
  }
  update(job->key, "status", std::move(workspace),
         [job](Expected<Json> stored) { job->finished(stored.has_value()); });
}

void WorkspaceScheduler::check_cluster(const JobPtr& job) {
  const bool published = !job->workspace.text({"spec", "cluster"}).empty();
  if (published && job->workspace.text({"status", "phase"}) == "Ready") {
    progress(job);
    job->finished(true);
    return;
  }
  if (!published && params_.root.synced() && job->shard != params_.own_shard &&
      params_.root.shard(job->shard) == nullptr) {
    forget_placement(job);
    return;
  }
  params_.access.get(job->shard, job->cluster, [this, job](Expected<std::optional<Json>> found) {
    if (!found) {
      log_warn(
          "logical cluster cannot be read",
          {{"shard", job->shard}, {"cluster", job->cluster}, {"error", found.error().to_string()}});
      wait(job, kLongestWait);
    } else if (!*found) {
      make_cluster(job);
    } else if ((*found)->text({"spec", "owner", "uid"}) != uid_of(job->workspace)) {
      forget_placement(job);  // the name is somebody else's
    } else {
      publish(job, **found);
    }
  });
}

void WorkspaceScheduler::make_cluster(const JobPtr& job) {
  const Json& workspace = job->workspace;
  const std::string path(workspace.text({"spec", "type", "path"}));
  const std::string type_name(workspace.text({"spec", "type", "name"}));
  const std::optional<FoundType> type = params_.types.find(reader(), path, type_name);
  if (!type) {
    wait(job, kLongestWait);  // root is away, or the type was deleted; kcp waits too
    return;
  }
  Json object = Json::object({{"apiVersion", "core.kcp.io/v1alpha1"}, {"kind", "LogicalCluster"}});
  object.make({"metadata", "name"}) = kClusterName;
  object.make({"metadata", "finalizers"}).push_back(Json(kLogicalClusterFinalizer));
  Json& annotations = object.make({"metadata", "annotations"});
  annotations[kPathAnnotation] = params_.index.path_of(job->key.cluster) + ":" + job->key.name;
  annotations[kTypeAnnotation] = type->full_name();
  annotations[kShardAnnotation] = job->shard;
  annotations["internal.apis.kcp.io/resource-bindings"] = "{}";
  const std::string owner = annotation(workspace, kOwnerAnnotation);
  annotations[kOwnerAnnotation] = owner;
  if (const std::string groups = annotation(workspace, kRequiredGroupsAnnotation);
      !groups.empty()) {
    annotations[kRequiredGroupsAnnotation] = groups;
  }
  object.make({"spec", "owner"}) = Json::object({{"apiVersion", "tenancy.kcp.io/v1alpha1"},
                                                 {"resource", kWorkspaces},
                                                 {"name", Json(job->key.name)},
                                                 {"cluster", Json(job->key.cluster)},
                                                 {"uid", Json(uid_of(workspace))}});
  if (Expected<Json> user = Json::parse(owner); user) {
    object.make({"spec", "createdBy"}) = std::move(*user);
  }
  object.make({"spec", "directlyDeletable"}) = false;
  for (const std::string& name : params_.types.initializers(reader(), *type)) {
    object.make({"spec", "initializers"}).push_back(Json(name));
  }
  for (const std::string& name : params_.types.terminators(reader(), *type)) {
    object.make({"spec", "terminators"}).push_back(Json(name));
  }
  params_.access.create(
      job->shard, job->cluster, std::move(object), [this, job](Expected<void> created) {
        if (created || created.error().code() == Errc::kAlreadyExists) {
          progress(job);
        } else {
          log_warn("logical cluster cannot be made", {{"shard", job->shard},
                                                      {"cluster", job->cluster},
                                                      {"error", created.error().to_string()}});
        }
        wait(job, kLongestWait);
      });
}

void WorkspaceScheduler::publish(const JobPtr& job, const Json& logical_cluster) {
  const std::string phase(logical_cluster.text({"status", "phase"}));
  if (phase != "Ready" && phase != "Initializing") {
    wait(job, kLongestWait);
    return;
  }
  Json workspace = job->workspace;
  workspace.make({"spec", "cluster"}) = job->cluster;
  if (workspace.text({"spec", "URL"}).empty()) {
    // The other shard's own words without the cluster's name, then the path.
    const std::string_view url = logical_cluster.text({"status", "URL"});
    workspace.make({"spec", "URL"}) = std::string(url.substr(0, url.rfind("/clusters/"))) +
                                      "/clusters/" + params_.index.path_of(job->key.cluster) + ":" +
                                      job->key.name;
  }
  workspace.make({"metadata", "labels", kPhaseLabel}) = phase;
  if (workspace == job->workspace) {
    publish_status(job, std::move(workspace), logical_cluster);
    return;
  }
  update(job->key, "", std::move(workspace), [this, job, logical_cluster](Expected<Json> stored) {
    if (!stored) {
      job->finished(false);
      return;
    }
    publish_status(job, std::move(*stored), logical_cluster);
  });
}

void WorkspaceScheduler::publish_status(const JobPtr& job, Json workspace,
                                        const Json& logical_cluster) {
  const Json before = workspace;
  const std::string phase(logical_cluster.text({"status", "phase"}));
  const bool ready = phase == "Ready";
  copy_lifecycle(workspace, logical_cluster);
  set_kcp_condition(workspace, "WorkspaceScheduled", "True");
  set_initialized_condition(workspace);
  constexpr std::string_view kBindings = "APIBindingsInitialized";
  if (const Json* known = find_condition(logical_cluster, kBindings)) {
    set_kcp_condition(workspace, kBindings, known->text({"status"}), known->text({"severity"}),
                      known->text({"reason"}), known->text({"message"}));
  }
  const auto done = [this, job, ready] {
    if (ready) {
      progress(job);
      job->finished(true);
    } else {
      wait(job, kLongestWait);
    }
  };
  if (workspace == before) {
    done();
    return;
  }
  update(job->key, "status", std::move(workspace), [job, done](Expected<Json> stored) {
    if (stored) {
      done();
    } else {
      job->finished(false);
    }
  });
}

void WorkspaceScheduler::remove(const JobPtr& job) {
  if (!has_finalizer(job->workspace, kWorkspaceFinalizer)) {
    job->finished(true);
    return;
  }
  if (job->shard.empty() || job->cluster.empty()) {
    release(job);
    return;
  }
  params_.access.get(job->shard, job->cluster, [this, job](Expected<std::optional<Json>> found) {
    if (!found) {
      wait(job, kLongestRemoval);
      return;
    }
    if (!*found || (*found)->text({"spec", "owner", "uid"}) != uid_of(job->workspace)) {
      release(job);
      return;
    }
    if (is_deleted(**found)) {
      publish_removal(job, **found);
      return;
    }
    params_.access.remove(job->shard, job->cluster, uid_of(**found),
                          [this, job](Expected<void>) { wait(job, kLongestRemoval); });
  });
}

/// Shows how far the logical cluster is, and waits for its end.
void WorkspaceScheduler::publish_removal(const JobPtr& job, const Json& logical_cluster) {
  Json workspace = job->workspace;
  copy_lifecycle(workspace, logical_cluster);
  if (workspace == job->workspace) {
    wait(job, kLongestRemoval);
    return;
  }
  update(job->key, "status", std::move(workspace),
         [this, job](Expected<Json>) { wait(job, kLongestRemoval); });
}

void WorkspaceScheduler::release(const JobPtr& job) {
  if (!only_our_finalizer(job->workspace)) {
    job->finished(true);  // the change of the others queues it again
    return;
  }
  Json workspace = job->workspace;
  drop_finalizer(workspace, kWorkspaceFinalizer);
  update(job->key, "", std::move(workspace), [job](Expected<Json> stored) {
    job->finished(stored.has_value() || stored.error().code() == Errc::kNotFound);
  });
}

}  // namespace kintsugi::apiserver
