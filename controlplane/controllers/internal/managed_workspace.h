#pragma once

#include <string>
#include <string_view>

#include "controlplane/controllers/internal/workspace_scheduler.h"

/// For the scheduler's own files.
namespace kintsugi::controlplane {

inline constexpr std::string_view kStalled = "Stalled";
/// In the queue: everything that waits for shards.
inline constexpr std::string_view kLookKey = "look";

/// What is known of a Workspace from the first look at it: its uid and who made it.
[[nodiscard]] krm::Json fact_of(const krm::Json& workspace);

/// One Workspace in work.
struct WorkspaceScheduler::Job {
  std::string text;
  apiserver::ObjectKey key;
  krm::Json workspace;
  krm::Json fact;              ///< uid, createdBy, shard, cluster
  std::string shard, cluster;  ///< of the fact; "": not placed
  Finished finished;

  [[nodiscard]] bool is_mount() const;
  /// The logical cluster that the Workspace names itself.
  [[nodiscard]] std::string hint_cluster() const;
  /// The Workspace shows its placement, its creator and the finalizer.
  [[nodiscard]] bool is_shown() const;
  /// Its owner annotation has the name of who made it.
  [[nodiscard]] bool names_creator() const;
  [[nodiscard]] bool owns(const krm::Json& logical_cluster) const;
  [[nodiscard]] krm::Json creator() const;
};

}  // namespace kintsugi::controlplane
