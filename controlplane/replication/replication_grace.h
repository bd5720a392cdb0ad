#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <utility>

#include "apiserver/resource.h"
#include "base/time.h"
#include "controlplane/clusters/cluster_index.h"
#include "controlplane/controllers/workspace_types.h"
#include "net/loop.h"

namespace kintsugi::controlplane {

/// Copies of other shards' objects come some milliseconds after the objects (replication.h). Who
/// makes an export there and binds it here at once must not hear that it is not there: admission
/// that was refused asks again for a moment before it says so. While the copies of a shard have
/// never been complete it says 503 instead, to be asked again in a second (KK-005). Threads: one
/// loop.
class ReplicationGrace {
 public:
  static constexpr Duration kPause = milliseconds(20);
  static constexpr int kTries = 13;                   ///< a quarter of a second in all
  static constexpr std::size_t kMostWaiting = 1'000;  ///< further ones are refused at once

  /// @param is_complete  ReplicationReport::is_complete()
  ReplicationGrace(net::Loop& loop, std::function<bool()> is_complete)
      : loop_(loop), is_complete_(std::move(is_complete)) {}
  ~ReplicationGrace() { stop(); }
  ReplicationGrace(const ReplicationGrace&) = delete;
  ReplicationGrace& operator=(const ReplicationGrace&) = delete;
  /// Forgets who waits; they get no answer.
  void stop();

  /// @param admit      Hooks::admit or Hooks::approve of a kind.
  /// @param may_be_late  whether what the object refers to may be on another shard; asked before
  ///                   the first try, on creates and updates. The grace must outlive the result.
  using Admit = decltype(apiserver::Hooks::admit);
  using MayBeLate = std::function<bool(const apiserver::WriteContext&, const krm::Json& object)>;
  [[nodiscard]] Admit around(Admit admit, MayBeLate may_be_late);
  [[nodiscard]] bool is_complete() const { return is_complete_(); }

 private:
  struct Try;
  void run(const std::shared_ptr<Try>& attempt);

  net::Loop& loop_;
  std::function<bool()> is_complete_;
  std::map<net::Loop::TimerId, std::shared_ptr<Try>> waiting_;
};

/// The kind with the grace where its objects refer to what may be new on another shard: APIBindings
/// to exports and the right to bind them, Workspaces to the right to use a type, WorkspaceTypes to
/// the right to bind what they bind. All others as they are. Everything must outlive the result.
[[nodiscard]] apiserver::ResourcePtr with_grace(apiserver::ResourcePtr kind,
                                                ReplicationGrace& grace, ClusterIndex& index,
                                                const WorkspaceTypeLookup& types);

}  // namespace kintsugi::controlplane
