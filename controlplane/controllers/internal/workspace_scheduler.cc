#include "controlplane/controllers/internal/workspace_scheduler.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "controlplane/clusters/trust.h"
#include "controlplane/controllers/internal/conditions.h"
#include "controlplane/controllers/internal/managed_workspace.h"
#include "controlplane/controllers/lifecycle.h"
#include "controlplane/internal/names.h"
#include "krm/annotations.h"
#include "krm/finalizers.h"
#include "krm/labels.h"
#include "krm/path_prefixes.h"

namespace kintsugi::controlplane {
namespace {

using krm::Json;

constexpr Duration kFirstWait = milliseconds(10);
constexpr Duration kLongestWait = seconds(2);
constexpr Duration kLongestRemoval = seconds(10);

/// Workspaces that some finalizer of another holds keep ours until last, as kcp does.
bool only_our_finalizer(const Json& workspace) {
  const Json* list = workspace.at({"metadata", "finalizers"});
  return list == nullptr ||
         std::all_of(list->items().begin(), list->items().end(),
                     [](const Json& item) { return item.as_string() == krm::kWorkspaceFinalizer; });
}

/// A condition of those that concern the Workspace as a whole says No (KK-065). Those that this
/// controller writes itself follow the phase and do not count.
bool is_held_up(const Json& workspace) {
  const Json* conditions = workspace.at({"status", "conditions"});
  return conditions != nullptr &&
         std::any_of(conditions->items().begin(), conditions->items().end(), [](const Json& one) {
           const std::string_view type = one.text({"type"});
           return type.starts_with("Workspace") && type != "WorkspaceScheduled" &&
                  type != "WorkspaceInitialized" && one.text({"status"}) == "False";
         });
}

/// What the Workspace shows of a logical cluster in that phase.
std::string_view shown_phase(const Json& workspace, std::string_view phase) {
  return phase == "Ready" && is_held_up(workspace) ? "Unavailable" : phase;
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

/// A condition of the logical cluster that the Workspace shows too, if it is there.
void copy_condition(Json& workspace, const Json& logical_cluster, std::string_view type) {
  if (const Json* known = apiserver::find_condition(logical_cluster, type)) {
    set_kcp_condition(workspace, type, known->text({"status"}), known->text({"severity"}),
                      known->text({"reason"}), known->text({"message"}));
  }
}

}  // namespace

WorkspaceScheduler::WorkspaceScheduler(const apiserver::ControllerContext& context, Params params)
    : apiserver::ControllerBase(context, "kintsugi-workspace-scheduler"),
      params_(std::move(params)),
      facts_(context.loop, params_.store) {}

void WorkspaceScheduler::start() {
  follow(kTenancyGroup, kWorkspaces,
         [this](const apiserver::ApiServer::Change& change) { follow_workspace(change); });
  follow(kCoreGroup, kLogicalClusters, [this](const apiserver::ApiServer::Change& change) {
    const Json* known = change.object ? change.object.get() : change.previous.get();
    if (known != nullptr && known->text({"spec", "owner", "resource"}) == kWorkspaces) {
      const apiserver::ObjectKey owner{std::string(known->text({"spec", "owner", "cluster"})),
                                       std::string(kTenancyGroup), std::string(kWorkspaces), "",
                                       std::string(known->text({"spec", "owner", "name"}))};
      waits_.erase(owner.pack());
      queue_.add(owner.pack());
    }
  });
  params_.root.listen(alive_.guard([this] {
    for (const std::string& key : unplaced_) {
      queue_.add(key);
    }
  }));
}

void WorkspaceScheduler::add_cluster(std::string_view cluster) {
  reader().list(cluster, kTenancyGroup, kWorkspaces, "", [&](const Json& workspace) {
    count(workspace, +1);
    queue_.add(apiserver::ObjectKey{std::string(cluster), std::string(kTenancyGroup),
                                    std::string(kWorkspaces), "",
                                    std::string(workspace.text({"metadata", "name"}))}
                   .pack());
    return true;
  });
}

void WorkspaceScheduler::count(const Json& workspace, int change) {
  const std::string shard = annotation(workspace, krm::kPlacedShardAnnotation);
  if (!shard.empty()) {
    std::size_t& placed = counts_[shard];
    placed = change > 0 ? placed + 1 : placed - std::min<std::size_t>(placed, 1);
  }
}

void WorkspaceScheduler::follow_workspace(const apiserver::ApiServer::Change& change) {
  const std::string before =
      change.previous ? annotation(*change.previous, krm::kPlacedShardAnnotation) : std::string();
  const std::string now =
      change.object ? annotation(*change.object, krm::kPlacedShardAnnotation) : std::string();
  if (before != now) {
    if (change.previous) {
      count(*change.previous, -1);
    }
    if (change.object) {
      count(*change.object, +1);
    }
  }
  const std::string key =
      apiserver::ObjectKey{change.cluster, change.group, change.resource, "", change.name}.pack();
  if (change.object == nullptr) {
    unplaced_.erase(key);
    leaving_.erase(key);
    waits_.erase(key);
    first_.erase(key);
    facts_.erase(apiserver::ObjectKey::unpack(key));
    return;
  }
  if (change.previous == nullptr) {
    // As it was made: whoever changes it later changes nobody's identity.
    first_.insert_or_assign(key, fact_of(*change.object));
  }
  queue_.add(key);
}

void WorkspaceScheduler::process(const std::string& text, Finished finished) {
  if (text == kLookKey) {
    for (const std::string& key : unplaced_) {
      queue_.add(key);
    }
    finished(true);
    return;
  }
  const JobPtr job = read(text, std::move(finished));
  if (job == nullptr) {
    return;
  }
  if (apiserver::is_deleted(job->workspace)) {
    remove(job);
  } else if (job->is_mount()) {
    job->finished(true);  // traffic goes to spec.URL; there is no logical cluster (KK-053)
  } else if (job->cluster.empty()) {
    // Without a fact the names in it are claims.
    job->hint_cluster().empty() ? place(job) : adopt(job);
  } else if (job->is_shown()) {
    unplaced_.erase(text);
    check_cluster(job);
  } else {
    show_placement(job);
  }
}

void WorkspaceScheduler::wait(const JobPtr& job, Duration longest) {
  unsigned& waits = waits_[job->text];
  const Duration pause = std::min<Duration>(longest, kFirstWait * (1LL << std::min(waits, 16U)));
  ++waits;
  queue_.add_once_after(job->text, pause);
  job->finished(true);
}

void WorkspaceScheduler::progress(const JobPtr& job) { waits_.erase(job->text); }

void WorkspaceScheduler::check_cluster(const JobPtr& job) {
  const std::string_view named = job->workspace.text({"spec", "cluster"});
  if (!named.empty() && named != job->cluster) {
    note_untrusted(UntrustedValue::kNamedCluster, job->key.cluster, job->key.name, named);
    stall(job, "spec.cluster is \"" + std::string(named) + "\", but logical cluster \"" +
                   job->cluster + "\" belongs to this workspace");
    return;
  }
  const bool published = !named.empty();
  if (published && job->workspace.text({"status", "phase"}) == "Ready" &&
      !is_held_up(job->workspace)) {
    progress(job);
    job->finished(true);
    return;
  }
  if (!published && params_.root.synced() && job->shard != params_.own_shard &&
      params_.root.shard(job->shard) == nullptr) {
    forget_placement(job);
    return;
  }
  params_.access.get(
      job->shard, job->cluster,
      alive_.guard([this, job, published](Expected<std::optional<Json>> found) {
        if (!found) {
          log_warn("logical cluster cannot be read", {{"shard", job->shard},
                                                      {"cluster", job->cluster},
                                                      {"error", found.error().to_string()}});
          wait(job, kLongestWait);
        } else if (!*found) {
          published ? find_or_make(job) : make_cluster(job);
        } else if (!job->owns(**found)) {
          note_untrusted(UntrustedValue::kClusterOwner, job->cluster, job->key.name,
                         "another owner");
          if (published) {
            stall(job,
                  "logical cluster \"" + job->cluster + "\" does not belong to this workspace");
          } else {
            forget_placement(job);
          }
        } else {
          publish(job, **found);
        }
      }));
}

/// A logical cluster that was Ready and is not where the fact says: it may have moved long ago, and
/// then nobody there knows of it any more (GR-601). Of two nobody would know which is the right
/// one.
void WorkspaceScheduler::find_or_make(const JobPtr& job) {
  find_own(job, [this, job](bool found, bool sure) {
    if (!found && sure) {
      make_cluster(job);
    } else {
      wait(job, kLongestWait);
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
  object.make({"metadata", "finalizers"}).push_back(Json(krm::kLogicalClusterFinalizer));
  Json& annotations = object.make({"metadata", "annotations"});
  annotations[krm::kPathAnnotation] = params_.index.path_of(job->key.cluster) + ":" + job->key.name;
  annotations[krm::kTypeAnnotation] = type->full_name();
  annotations[krm::kShardAnnotation] = job->shard;
  annotations[krm::kResourceBindingsAnnotation] = "{}";
  Json creator = job->creator();
  // His name alone: what else there is of him stands in createdBy (KK-111).
  annotations[krm::kOwnerAnnotation] =
      Json::object({{"username", creator.text({"username"})}}).dump();
  const ClusterInfo* parent = params_.index.find(job->key.cluster);
  const std::string groups = parent == nullptr ? std::string() : parent->required_groups;
  if (annotation(workspace, krm::kRequiredGroupsAnnotation) != groups) {
    note_untrusted(UntrustedValue::kRequiredGroups, job->key.cluster, job->key.name,
                   annotation(workspace, krm::kRequiredGroupsAnnotation));
  }
  if (!groups.empty()) {
    annotations[krm::kRequiredGroupsAnnotation] = groups;
  }
  object.make({"spec", "owner"}) = Json::object({{"apiVersion", "tenancy.kcp.io/v1alpha1"},
                                                 {"resource", kWorkspaces},
                                                 {"name", Json(job->key.name)},
                                                 {"cluster", Json(job->key.cluster)},
                                                 {"uid", Json(apiserver::uid_of(workspace))}});
  if (creator.size() > 0) {
    object.make({"spec", "createdBy"}) = std::move(creator);
  }
  object.make({"spec", "directlyDeletable"}) = false;
  for (const std::string& name : params_.types.initializers(reader(), *type)) {
    object.make({"spec", "initializers"}).push_back(Json(name));
  }
  for (const std::string& name : params_.types.terminators(reader(), *type)) {
    object.make({"spec", "terminators"}).push_back(Json(name));
  }
  params_.access.create(job->shard, job->cluster, std::move(object),
                        alive_.guard([this, job](Expected<void> created) {
                          if (created || created.error().code() == Errc::kAlreadyExists) {
                            progress(job);
                          } else {
                            log_warn("logical cluster cannot be made",
                                     {{"shard", job->shard},
                                      {"cluster", job->cluster},
                                      {"error", created.error().to_string()}});
                          }
                          wait(job, kLongestWait);
                        }));
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
    workspace.make({"spec", "URL"}) = std::string(url.substr(0, url.rfind(krm::kClustersPrefix))) +
                                      krm::cluster_root(params_.index.path_of(job->key.cluster)) +
                                      ":" + job->key.name;
  }
  workspace.make({"metadata", "labels", krm::kPhaseLabel}) = shown_phase(workspace, phase);
  const Json creator = job->creator();
  if (phase == "Ready" && !creator.text({"username"}).empty()) {
    // Nobody needs his groups any more (KK-056).
    workspace.make({"metadata", "annotations", krm::kOwnerAnnotation}) =
        Json::object({{"username", creator.text({"username"})}}).dump();
  }
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
  if (apiserver::find_condition(workspace, kStalled) != nullptr) {
    set_kcp_condition(workspace, kStalled, "False");
  }
  set_initialized_condition(workspace);
  copy_condition(workspace, logical_cluster, "APIBindingsInitialized");
  workspace.make({"status", "phase"}) = shown_phase(workspace, phase);
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
  if (!apiserver::has_finalizer(job->workspace, krm::kWorkspaceFinalizer)) {
    job->finished(true);
  } else if (!job->cluster.empty()) {
    remove_cluster_of(job);
  } else if (job->is_mount() || job->hint_cluster().empty()) {
    release(job);  // a mount never has a logical cluster (KK-053)
  } else {
    find_own(job, [this, job](bool found, bool sure) {
      if (found) {
        remove_cluster_of(job);
      } else if (sure) {
        release(job);
      } else {
        wait(job, kLongestRemoval);
      }
    });
  }
}

void WorkspaceScheduler::remove_cluster_of(const JobPtr& job) {
  params_.access.get(
      job->shard, job->cluster, alive_.guard([this, job](Expected<std::optional<Json>> found) {
        if (!found) {
          find_moved(job);
          return;
        }
        const bool is_new = leaving_.count(job->text) == 0;
        if (!*found && is_new && !job->workspace.text({"spec", "cluster"}).empty()) {
          remove_moved(job);
          return;
        }
        if (!*found || !job->owns(**found)) {
          release(job);  // another's, whatever this Workspace says (KK-063)
          return;
        }
        leaving_.insert(job->text);
        if (apiserver::is_deleted(**found)) {
          publish_removal(job, **found);
          return;
        }
        params_.access.remove(
            job->shard, job->cluster, apiserver::uid_of(**found),
            alive_.guard([this, job](Expected<void>) { wait(job, kLongestRemoval); }));
      }));
}

/// Its shard has no such logical cluster, and it was not seen there since the Workspace is deleted.
void WorkspaceScheduler::remove_moved(const JobPtr& job) {
  find_own(job, [this, job](bool found, bool sure) {
    if (!found && sure) {
      release(job);
    } else {
      wait(job, kLongestRemoval);
    }
  });
}

/// Its shard does not answer, or says that it has moved (GR-601). Where it is found is a fact then.
void WorkspaceScheduler::find_moved(const JobPtr& job) {
  find_own(job, [this, job](bool, bool) { wait(job, kLongestRemoval); });
}

/// Shows how far the logical cluster is, and waits for its end.
void WorkspaceScheduler::publish_removal(const JobPtr& job, const Json& logical_cluster) {
  Json workspace = job->workspace;
  copy_lifecycle(workspace, logical_cluster);
  copy_condition(workspace, logical_cluster, "WorkspaceContentDeleted");
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
  apiserver::drop_finalizer(workspace, krm::kWorkspaceFinalizer);
  update(job->key, "", std::move(workspace), [job](Expected<Json> stored) {
    job->finished(stored.has_value() || stored.error().code() == Errc::kNotFound);
  });
}

}  // namespace kintsugi::controlplane
