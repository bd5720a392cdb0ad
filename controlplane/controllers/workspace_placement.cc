// Where a Workspace gets its logical cluster, and which one is its own.
#include <algorithm>
#include <utility>

#include "base/log.h"
#include "controlplane/clusters/trust.h"
#include "controlplane/controllers/internal/conditions.h"
#include "controlplane/controllers/internal/managed_workspace.h"
#include "controlplane/internal/names.h"
#include "krm/annotations.h"
#include "krm/finalizers.h"
#include "krm/request_info.h"

namespace kintsugi::controlplane {
namespace {

using krm::Json;

constexpr Duration kLongestWait = seconds(2);
constexpr Duration kLookForShards = seconds(5);
constexpr Duration kAskLimit = seconds(1);  // for whether a name is free

}  // namespace

Json fact_of(const Json& workspace) {
  Json fact = Json::object({{"uid", Json(apiserver::uid_of(workspace))}});
  const Expected<Json> owner = Json::parse(annotation(workspace, krm::kOwnerAnnotation));
  if (owner && owner->is_object()) {
    Json creator = clean_owner(*owner);
    if (creator != *owner) {
      note_untrusted(UntrustedValue::kWorkspaceOwner, cluster_of(workspace),
                     workspace.text({"metadata", "name"}), "groups or extras of the system");
    }
    if (creator.size() > 0) {
      fact["createdBy"] = std::move(creator);
    }
  }
  return fact;
}

bool WorkspaceScheduler::Job::is_mount() const {
  return cluster.empty() && workspace.at({"spec", "mount"}) != nullptr;
}

std::string WorkspaceScheduler::Job::hint_cluster() const {
  const std::string_view named = workspace.text({"spec", "cluster"});
  return named.empty() ? annotation(workspace, krm::kPlacedClusterAnnotation) : std::string(named);
}

bool WorkspaceScheduler::Job::is_shown() const {
  return annotation(workspace, krm::kShardAnnotation) == shard &&
         annotation(workspace, krm::kPlacedShardAnnotation) == shard &&
         annotation(workspace, krm::kPlacedClusterAnnotation) == cluster &&
         apiserver::has_finalizer(workspace, krm::kWorkspaceFinalizer) && names_creator();
}

bool WorkspaceScheduler::Job::names_creator() const {
  const Expected<Json> said = Json::parse(annotation(workspace, krm::kOwnerAnnotation));
  return (said ? said->text({"username"}) : std::string_view()) == creator().text({"username"});
}

bool WorkspaceScheduler::Job::owns(const Json& logical_cluster) const {
  return is_owned_by(logical_cluster, key.cluster, key.name, apiserver::uid_of(workspace));
}

Json WorkspaceScheduler::Job::creator() const {
  const Json* user = fact.find("createdBy");
  return user == nullptr ? Json::object() : *user;
}

WorkspaceScheduler::JobPtr WorkspaceScheduler::read(const std::string& text, Finished finished) {
  auto job = std::make_shared<Job>();
  job->text = text;
  job->key = apiserver::ObjectKey::unpack(text);
  job->finished = std::move(finished);
  std::optional<Json> workspace = get(job->key);
  if (!workspace) {
    unplaced_.erase(text);
    first_.erase(text);
    job->finished(true);
    return nullptr;
  }
  job->workspace = std::move(*workspace);
  const std::string uid = apiserver::uid_of(job->workspace);
  std::optional<Json> fact = facts_.get(job->key);
  if (fact && fact->text({"uid"}) == uid) {
    first_.erase(text);
  } else if (const auto first = first_.find(text);
             first != first_.end() && first->second.text({"uid"}) == uid) {
    fact = first->second;
  } else {
    fact = fact_of(job->workspace);  // made before this shard kept facts, or restored
  }
  job->fact = std::move(*fact);
  job->shard = job->fact.text({"shard"});
  job->cluster = job->fact.text({"cluster"});
  return job;
}

void WorkspaceScheduler::keep_fact(const JobPtr& job, ServerFacts::Done done) {
  if (const std::optional<Json> known = facts_.get(job->key)) {
    Json same = *known;
    same.erase("metadata");
    same.erase("apiVersion");
    same.erase("kind");
    Json mine = job->fact;
    mine.erase("metadata");
    mine.erase("apiVersion");
    mine.erase("kind");
    if (same == mine) {
      if (done) {
        done(true);
      }
      return;
    }
  }
  facts_.put(job->key, job->fact, std::move(done));
}

void WorkspaceScheduler::place(const JobPtr& job) {
  if (!params_.root.synced()) {
    unplaced_.insert(job->text);
    wait(job, kLongestWait);
    return;
  }
  Expected<std::vector<std::string>> shards = placement_candidates(
      params_.root, job->workspace.at({"spec", "location", "selector"}), counts_);
  if (!shards) {
    unschedulable(job,
                  "spec.location.selector is invalid: " + std::string(shards.error().message()));
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
      choose_name(job, shard);
    } else {
      try_shard(job, shards, next + 1);
    }
  });
}

/// Asks every shard whether it has the name; one that does not answer in time does not count.
void WorkspaceScheduler::choose_name(const JobPtr& job, const std::string& shard) {
  struct Ask {
    std::size_t pending = 1;
    bool taken = false, over = false;
    std::function<void(bool taken)> done;
    void answer() {
      if (--pending == 0) {
        finish();
      }
    }
    void finish() {
      if (!std::exchange(over, true)) {
        done(taken);
      }
    }
  };
  const std::string cluster = random_cluster_name();
  auto ask = std::make_shared<Ask>();
  ask->done = alive_.guard([this, job, shard, cluster](bool taken) {
    if (taken) {
      note_untrusted(UntrustedValue::kClusterOwner, cluster, job->key.name, "the name is taken");
      wait(job, kLongestWait);
    } else {
      note_placement(job, shard, cluster);
    }
  });
  for (const auto& [name, record] : params_.root.shards()) {
    ++ask->pending;
    params_.access.get(name, cluster, [ask](Expected<std::optional<Json>> found) {
      ask->taken = ask->taken || (found && *found);
      ask->answer();
    });
  }
  context_.loop.after(kAskLimit, [ask] { ask->finish(); });
  ask->answer();
}

void WorkspaceScheduler::note_placement(const JobPtr& job, const std::string& shard,
                                        const std::string& cluster) {
  job->fact["shard"] = shard;
  job->fact["cluster"] = cluster;
  job->shard = shard;
  job->cluster = cluster;
  keep_fact(job, [this, job](bool stored) {
    if (stored) {
      show_placement(job);
    } else {
      job->finished(false);
    }
  });
}

/// The Workspace says what the fact says, whatever it said before.
void WorkspaceScheduler::show_placement(const JobPtr& job) {
  Json workspace = job->workspace;
  for (const auto& [key, value] : {std::pair(krm::kShardAnnotation, job->shard),
                                   std::pair(krm::kPlacedShardAnnotation, job->shard),
                                   std::pair(krm::kPlacedClusterAnnotation, job->cluster)}) {
    const std::string said = annotation(workspace, key);
    if (!said.empty() && said != value) {
      note_untrusted(UntrustedValue::kPlacement, job->key.cluster, job->key.name, said);
    }
    workspace.make({"metadata", "annotations", key}) = value;
  }
  if (!job->names_creator()) {
    note_untrusted(UntrustedValue::kWorkspaceOwner, job->key.cluster, job->key.name,
                   annotation(workspace, krm::kOwnerAnnotation));
    workspace.make({"metadata", "annotations", krm::kOwnerAnnotation}) = job->creator().dump();
  }
  if (!apiserver::has_finalizer(workspace, krm::kWorkspaceFinalizer)) {
    workspace.make({"metadata", "finalizers"}).push_back(Json(krm::kWorkspaceFinalizer));
  }
  if (const ShardRecord* record = params_.root.shard(job->shard)) {
    const std::string_view region = record->labels.text({"region"});
    if (!region.empty() && workspace.text({"metadata", "labels", "region"}).empty()) {
      workspace.make({"metadata", "labels", "region"}) = region;
    }
  }
  if (workspace == job->workspace) {
    check_cluster(job);
    return;
  }
  update(job->key, "", std::move(workspace), [this, job](Expected<Json> stored) {
    if (stored) {
      progress(job);
      unplaced_.erase(job->text);
    }
    job->finished(stored.has_value());  // the change queues the workspace again
  });
}

/// Another place and another name the next time, later and later.
void WorkspaceScheduler::forget_placement(const JobPtr& job) {
  job->fact.erase("shard");
  job->fact.erase("cluster");
  Json workspace = job->workspace;
  if (Json* annotations = workspace.at({"metadata", "annotations"})) {
    annotations->erase(krm::kShardAnnotation);
    annotations->erase(krm::kPlacedShardAnnotation);
    annotations->erase(krm::kPlacedClusterAnnotation);
  }
  keep_fact(job, [this, job, workspace = std::move(workspace)](bool) mutable {
    update(job->key, "", std::move(workspace),
           [this, job](Expected<Json>) { wait(job, kLongestWait); });
  });
}

/// The shards where a logical cluster may be that the Workspace names without a fact.
struct WorkspaceScheduler::Search {
  JobPtr job;
  std::string cluster;
  std::vector<std::string> shards;
  std::size_t next = 0;
  bool sure = true;  // every shard so far has answered
  std::function<void(bool found, bool sure)> done;
};

/// Looks for the logical cluster that the Workspace names and that names it back; if there is one
/// it becomes the fact.
void WorkspaceScheduler::find_own(const JobPtr& job, std::function<void(bool, bool)> done) {
  auto search = std::make_shared<Search>();
  search->job = job;
  search->cluster = job->hint_cluster();
  search->sure = params_.root.synced();
  search->done = std::move(done);
  const std::string first = annotation(job->workspace, krm::kPlacedShardAnnotation);
  if (krm::is_cluster_name(search->cluster) && search->cluster != kRootCluster) {
    for (const auto& [name, record] : params_.root.shards()) {
      search->shards.insert(name == first ? search->shards.begin() : search->shards.end(), name);
    }
  }
  look_at(search);
}

void WorkspaceScheduler::look_at(const std::shared_ptr<Search>& search) {
  if (search->next == search->shards.size()) {
    search->done(false, search->sure);
    return;
  }
  const std::string shard = search->shards[search->next++];
  params_.access.get(shard, search->cluster,
                     alive_.guard([this, search, shard](Expected<std::optional<Json>> found) {
                       search->sure = search->sure && found;
                       if (!found || !*found || !search->job->owns(**found)) {
                         look_at(search);
                         return;
                       }
                       Job& job = *search->job;
                       job.fact["shard"] = job.shard = shard;
                       job.fact["cluster"] = job.cluster = search->cluster;
                       keep_fact(search->job,
                                 [search](bool stored) { search->done(stored, false); });
                     }));
}

/// A Workspace that came with a name: made by a shard that kept no facts yet, restored, or forged.
void WorkspaceScheduler::adopt(const JobPtr& job) {
  find_own(job, [this, job](bool found, bool sure) {
    if (found) {
      show_placement(job);
      return;
    }
    if (!sure) {
      wait(job, kLongestWait);
      return;
    }
    const std::string named(job->workspace.text({"spec", "cluster"}));
    if (named.empty()) {
      note_untrusted(UntrustedValue::kPlacement, job->key.cluster, job->key.name,
                     job->hint_cluster());
      drop_claims(job);
      return;
    }
    note_untrusted(UntrustedValue::kNamedCluster, job->key.cluster, job->key.name, named);
    stall(job, "logical cluster \"" + named + "\" does not belong to this workspace");
  });
}

/// Takes off what the Workspace says of its placement; then it gets a name of our own.
void WorkspaceScheduler::drop_claims(const JobPtr& job) {
  Json workspace = job->workspace;
  if (Json* annotations = workspace.at({"metadata", "annotations"})) {
    annotations->erase(krm::kShardAnnotation);
    annotations->erase(krm::kPlacedShardAnnotation);
    annotations->erase(krm::kPlacedClusterAnnotation);
  }
  update(job->key, "", std::move(workspace),
         [job](Expected<Json> stored) { job->finished(stored.has_value()); });
}

/// Nothing more is done until somebody changes the Workspace or its logical cluster (SE-101).
void WorkspaceScheduler::stall(const JobPtr& job, const std::string& message) {
  unplaced_.erase(job->text);
  Json workspace = job->workspace;
  set_kcp_condition(workspace, "WorkspaceScheduled", "False", "Error", "ClusterNotOwned", message);
  set_kcp_condition(workspace, kStalled, "True", "Error", "ClusterNotOwned", message);
  settle_status(job->key, job->workspace, std::move(workspace), job->finished);
}

void WorkspaceScheduler::unschedulable(const JobPtr& job, std::string_view message) {
  unplaced_.insert(job->text);
  queue_.add_once_after(kLookKey, kLookForShards);
  keep_fact(job, nullptr);
  Json workspace = job->workspace;
  if (!set_kcp_condition(workspace, "WorkspaceScheduled", "False", "Error", "Unschedulable",
                         message)) {
    job->finished(true);
    return;
  }
  update(job->key, "status", std::move(workspace),
         [job](Expected<Json> stored) { job->finished(stored.has_value()); });
}

}  // namespace kintsugi::controlplane
