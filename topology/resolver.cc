#include "topology/resolver.h"

#include <optional>
#include <utility>

#include "base/reading_counts.h"
#include "krm/request_info.h"
#include "topology/index.h"

namespace kintsugi::topology {
namespace {

using Kind = Resolution::Kind;

/// Keeps the steps of an explanation; does nothing for a plain lookup.
class Trace {
 public:
  Trace(const Snapshot& snapshot, std::vector<ExplainStep>* steps)
      : snapshot_(snapshot), steps_(steps) {}
  struct What {
    std::string_view segment;
    ShardId shard = 0;
    std::string_view cluster;
    std::string_view source_kind, source_name, source_cluster;
    std::uint32_t changed = 0;
    std::string_view note;
  };
  void step(const What& what) const {
    if (steps_ == nullptr) {
      return;
    }
    const ShardInfo* shard = snapshot_.shard(what.shard);
    const std::string name = shard == nullptr ? std::string() : shard->spec.name;
    std::string source;
    if (!what.source_kind.empty()) {
      source.append(what.source_kind).append("/").append(what.source_name);
      source.append(" in ").append(what.source_cluster).append(" on ").append(name);
    }
    steps_->push_back({std::string(what.segment), name, std::string(what.cluster),
                       std::move(source), what.changed, std::string(what.note)});
  }
  void note(std::string_view segment, std::string_view text) const {
    if (steps_ != nullptr) {
      What what;
      what.segment = segment;
      what.note = text;
      step(what);
    }
  }

 private:
  const Snapshot& snapshot_;
  std::vector<ExplainStep>* steps_;
};

Resolution not_found(NotFoundReason reason) {
  Resolution result;
  result.reason = reason;
  return result;
}

Resolution not_known() {
  Resolution result;
  result.kind = Kind::kNotKnown;
  return result;
}

/// Where a shard is called root, nobody else has the logical cluster of that name (SE-006).
bool is_at_root(const Snapshot& snapshot, const ClusterFact& fact) {
  const ShardInfo* owner = snapshot.shard(fact.owner);
  return (owner != nullptr && owner->spec.name == kRootName) ||
         snapshot.shard(kRootName) == nullptr;
}

/// A logical cluster by name, with the rule for names that nobody has reported.
struct ByName {
  std::optional<ClusterFact> fact;
  Resolution otherwise;
};

/// @param fact  of that name, as the snapshot has it
ByName known_or_not(const Snapshot& snapshot, std::string_view name,
                    std::optional<ClusterFact> fact, const Trace& trace) {
  ByName result{std::move(fact), {}};
  if (result.fact && name == kRootName && !is_at_root(snapshot, *result.fact)) {
    trace.note(name, "reported, but not by the shard of this name");
    const ShardInfo& root = *snapshot.shard(kRootName);
    result.fact.reset();
    result.otherwise = root.is_synced(Resource::kLogicalClusters)
                           ? not_found(NotFoundReason::kUnconfirmed)
                           : not_known();
  } else if (result.fact) {
    Trace::What what;
    what.segment = name;
    what.shard = result.fact->owner;
    what.cluster = result.fact->name;
    what.source_kind = "logicalclusters.core.kcp.io";
    what.source_name = "cluster";
    what.source_cluster = result.fact->name;
    what.changed = result.fact->changed;
    what.note = "the owner shard";
    trace.step(what);
  } else if (snapshot.all_synced(Resource::kLogicalClusters)) {
    trace.note(name, "no shard has a logical cluster of this name");
    result.otherwise = not_found(NotFoundReason::kUnknown);
  } else {
    trace.note(name, "unknown so far, and not every shard has listed its logical clusters");
    result.otherwise = not_known();
  }
  return result;
}

ByName cluster_by_name(const Snapshot& snapshot, std::string_view name, const Trace& trace) {
  return known_or_not(snapshot, name, snapshot.cluster(name), trace);
}

/// The first segment: a logical cluster, or the path of one without parent.
ByName first_cluster(const Snapshot& snapshot, std::string_view segment, const Trace& trace) {
  std::optional<ClusterFact> named = snapshot.cluster(segment);
  if (!named) {
    const auto claimants = snapshot.claimants(segment);
    if (claimants.size() == 1) {
      trace.note(segment, "the kcp.io/path of a logical cluster without parent");
      return cluster_by_name(snapshot, claimants.front(), trace);
    }
    if (claimants.size() > 1) {
      trace.note(segment, "several logical clusters claim this path");
      return {std::nullopt, not_found(NotFoundReason::kPathConflict)};
    }
  }
  return known_or_not(snapshot, segment, std::move(named), trace);
}

Resolution finish(const Snapshot& snapshot, const ClusterFact& fact, bool unavailable,
                  const Trace& trace) {
  Resolution result;
  result.cluster = fact.name;
  result.type = fact.type;
  result.inactive = fact.inactive;
  result.shard = snapshot.shard(fact.owner);
  if (unavailable) {
    trace.note({}, "a workspace on the path is Unavailable");
    result.kind = Kind::kUnavailable;
  } else if (result.shard == nullptr || !result.shard->usable) {
    trace.note({}, "the shard has no usable base URL");
    result.kind = Kind::kNotKnown;
  } else {
    result.kind = Kind::kResolved;
  }
  return result;
}

Resolution walk(const Snapshot& snapshot, std::string_view path, const Trace& trace) {
  if (path == "*") {
    trace.note(path, "the wildcard is no logical cluster");
    return not_found(NotFoundReason::kWildcard);
  }
  if (!krm::is_workspace_path(path)) {
    trace.note(path, "not a workspace path");
    return not_found(NotFoundReason::kInvalid);
  }
  std::string rewritten;
  if (path.substr(0, 5) == "user:") {
    rewritten = rewrite_home(path);
    trace.note(path, "home workspace of a user");
    path = rewritten;
  }
  std::size_t end = path.find(':');
  ByName at = first_cluster(snapshot, path.substr(0, end), trace);
  if (!rewritten.empty() && at.fact && at.fact->parent != 0) {
    trace.note(path.substr(0, end), "a workspace's logical cluster, and no home");
    return not_found(NotFoundReason::kUnconfirmed);
  }
  bool unavailable = false;
  while (at.fact && end != std::string_view::npos) {
    const std::size_t begin = end + 1;
    end = path.find(':', begin);
    const std::string_view segment =
        path.substr(begin, end == std::string_view::npos ? end : end - begin);
    const auto edge = snapshot.workspace(at.fact->owner, at.fact->name, segment);
    Trace::What what;
    what.segment = segment;
    what.shard = at.fact->owner;
    what.source_kind = "workspaces.tenancy.kcp.io";
    what.source_name = segment;
    what.source_cluster = at.fact->name;
    if (!edge) {
      const ShardInfo* shard = snapshot.shard(at.fact->owner);
      const bool synced = shard != nullptr && shard->is_synced(Resource::kWorkspaces);
      what.source_kind = {};
      what.note = synced ? "no such workspace there" : "the shard's workspaces are not listed yet";
      trace.step(what);
      return synced ? not_found(NotFoundReason::kUnknown) : not_known();
    }
    what.changed = edge->changed;
    unavailable = unavailable || edge->unavailable;
    if (edge->child.empty()) {
      what.note = edge->mount_url.empty() ? "a workspace without logical cluster" : "a mount";
      trace.step(what);
      if (edge->mount_url.empty()) {
        return not_found(NotFoundReason::kUnknown);
      }
      if (end != std::string_view::npos) {
        trace.note(path.substr(end + 1), "segments after a mount");
        return not_found(NotFoundReason::kMountSuffix);
      }
      Resolution result;
      result.kind = unavailable ? Kind::kUnavailable : Kind::kMount;
      result.mount_url = edge->mount_url;
      return result;
    }
    what.cluster = edge->child;
    what.note = edge->unavailable ? "a workspace that is Unavailable" : "a workspace";
    trace.step(what);
    at = cluster_by_name(snapshot, edge->child, trace);
    if (at.fact && !edge->leads_to(*at.fact)) {
      trace.note(segment, "the logical cluster does not name this workspace as its owner");
      return not_found(NotFoundReason::kUnconfirmed);
    }
  }
  return at.fact ? finish(snapshot, *at.fact, unavailable, trace) : at.otherwise;
}

}  // namespace

std::string_view reason_name(NotFoundReason reason) noexcept {
  switch (reason) {
    case NotFoundReason::kNone:
      return "";
    case NotFoundReason::kInvalid:
      return "invalid";
    case NotFoundReason::kWildcard:
      return "wildcard";
    case NotFoundReason::kUnknown:
      return "unknown";
    case NotFoundReason::kMountSuffix:
      return "mount-suffix";
    case NotFoundReason::kMountHost:
      return "mount-host";
    case NotFoundReason::kPathConflict:
      return "path-conflict";
    case NotFoundReason::kUnconfirmed:
      return "unconfirmed";
  }
  return "";
}

std::string_view kind_name(Resolution::Kind kind) noexcept {
  switch (kind) {
    case Kind::kResolved:
      return "resolved";
    case Kind::kMount:
      return "mount";
    case Kind::kNotFound:
      return "not-found";
    case Kind::kNotKnown:
      return "not-known";
    case Kind::kUnavailable:
      return "unavailable";
  }
  return "";
}

Resolution resolve(const Snapshot& snapshot, std::string_view path) {
  ++reading_counts.lookups;
  return walk(snapshot, path, Trace(snapshot, nullptr));
}

Resolution explain(const Snapshot& snapshot, std::string_view path,
                   std::vector<ExplainStep>& steps) {
  return walk(snapshot, path, Trace(snapshot, &steps));
}

std::string canonical_path(const Snapshot& snapshot, std::string_view cluster) {
  constexpr std::size_t kDeepest = 256;
  std::string path;
  for (std::size_t depth = 0; depth < kDeepest; ++depth) {
    if (cluster == kRootName) {
      return std::string(kRootName) + path;
    }
    const Snapshot::ParentName parent = snapshot.parent_of(cluster);
    if (parent.cluster.empty()) {
      return {};
    }
    path.insert(0, ":" + std::string(parent.name));
    cluster = parent.cluster;
  }
  return {};
}

std::string rewrite_home(std::string_view path) {
  constexpr std::string_view kUser = "user:";
  if (path.substr(0, kUser.size()) != kUser) {
    return std::string(path);
  }
  const std::string_view rest = path.substr(kUser.size());
  const std::size_t end = rest.find(':');
  std::string result = krm::home_cluster_name(rest.substr(0, end));
  if (end != std::string_view::npos) {
    result.append(rest.substr(end));
  }
  return result;
}

}  // namespace kintsugi::topology
