#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "topology/snapshot.h"

namespace kintsugi::topology {

/// Why a cluster was not found: log and metric carry it, the client never does (R-23, FP-132).
enum class NotFoundReason : std::uint8_t {
  kNone,
  kInvalid,   ///< not a workspace path
  kWildcard,  ///< `*`; callers that serve it do not ask
  kUnknown,
  kMountSuffix,   ///< segments after a mount (R-08)
  kMountHost,     ///< set by the caller that checks mount URLs (R-16)
  kPathConflict,  ///< several logical clusters claim the path (R-07)
  kUnconfirmed,   ///< the cluster that a Workspace names has another owner (KK-064)
};
/// "invalid", "wildcard", "unknown", "mount-suffix", "mount-host", "path-conflict", "unconfirmed",
/// "".
[[nodiscard]] std::string_view reason_name(NotFoundReason reason) noexcept;

/// Where a cluster segment leads. Views and pointers live as long as the snapshot.
struct Resolution {
  enum class Kind : std::uint8_t {
    kResolved,     ///< shard and cluster are set
    kMount,        ///< mount_url is set
    kNotFound,     ///< E1, reason is set
    kNotKnown,     ///< E2: cannot be decided yet (R-06), or the shard has no usable base URL
    kUnavailable,  ///< E3: a Workspace on the path is Unavailable, the rest resolves
  };
  Kind kind = Kind::kNotFound;
  NotFoundReason reason = NotFoundReason::kNone;
  const ShardInfo* shard = nullptr;
  std::string_view cluster;
  std::string_view mount_url;
  std::string_view type;  ///< of the cluster, see ClusterFact
  bool inactive = false;
  [[nodiscard]] bool resolved() const noexcept { return kind == Kind::kResolved; }
};
/// "resolved", "mount", "not-found", "not-known", "unavailable".
[[nodiscard]] std::string_view kind_name(Resolution::Kind kind) noexcept;

/// One decision of a lookup, for the admin endpoint.
struct ExplainStep {
  std::string segment;
  std::string shard;          ///< name, "" when none
  std::string cluster;        ///< logical cluster after this step
  std::string source;         ///< the object that decided, "" when there is none
  std::uint32_t changed = 0;  ///< when that fact last changed [unix seconds], 0: unknown
  std::string note;           ///< what was decided, in words
};

/// Resolves a decoded cluster segment (a name, a workspace path, `user:<name>[:rest]`).
/// Source: R-06. Cost: about 0.2 us per segment; allocates only for `user:`.
/// Threads: any.
[[nodiscard]] Resolution resolve(const Snapshot& snapshot, std::string_view path);
/// The same, telling every step.
[[nodiscard]] Resolution explain(const Snapshot& snapshot, std::string_view path,
                                 std::vector<ExplainStep>& steps);

/// The path from root to a logical cluster, over Workspaces that it confirms ("root:org:team"); "":
/// none is known, as of homes, whose path has a user's name. Cost: a pass over all Workspaces for
/// each segment. Threads: any.
[[nodiscard]] std::string canonical_path(const Snapshot& snapshot, std::string_view cluster);

/// `user:<name>[:rest]` -> `<home cluster>[:rest]`; everything else unchanged.
[[nodiscard]] std::string rewrite_home(std::string_view path);

}  // namespace kintsugi::topology
