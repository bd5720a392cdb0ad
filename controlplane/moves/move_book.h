#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apiserver/server.h"
#include "base/strings.h"
#include "krm/request_info.h"
#include "store/store.h"

/// Logical clusters that leave this shard or came to it (KK-210 to KK-214, GR-601).
namespace kintsugi::controlplane {

/// Rows about moves lie under these resource names in one cluster that nobody can address, named by
/// the logical cluster that moves.
inline constexpr std::string_view kMovesCluster = "system:moves";
/// On the origin, from the stop of writes on: {migration, to, ends, moved, left}. While it is there
/// no write of the cluster is committed: each one expects that it is not. Who owns the cluster is
/// decided in this row: it goes, or it says "moved".
inline constexpr std::string_view kFences = "fences.facts";
/// On the destination: {migration, from, phase: arriving, ready, arrived or abandoned, at [unix s],
/// resume {resource: revision}}; {phase: ready, begun: true}: rows come in parts, behind its own
/// revision, which it says later as `begins`. The revision of a row that says "arrived" is that of
/// the whole cluster's arrival; one that is settled was written once more, and has it as {revision,
/// settled: true}.
inline constexpr std::string_view kArrivals = "arrivals.facts";
/// On the destination: pages of the copy that is not complete, by their numbers.
inline constexpr std::string_view kIncoming = "incoming.facts";

/// What everybody is answered who comes while a logical cluster is on its way (KK-214): nothing of
/// the request was done.
[[nodiscard]] Error being_migrated();

[[nodiscard]] std::string move_key(std::string_view resource, std::string_view cluster);

struct Fence {
  std::string migration, to;
  bool ends = false;    ///< by itself; else it is of an older release, and the destination decides
  bool moved = false;   ///< the destination owns it
  bool left = false;    ///< the destination has it, and here it is forgotten
  std::int64_t at = 0;  ///< since when [unix s]
};
struct Arrival {
  std::string migration, from, phase;
  std::int64_t at = 0;           ///< [unix s]
  store::Revision revision = 0;  ///< of the arrival
  store::Revision begins = 0;    ///< all its rows are behind this one; 0: the one before `revision`
  bool settled = false;          ///< whoever drives the move knows of it
  /// By resource: the revision of the shard before from which on a watch can go on here (GR-603).
  std::map<std::string, store::Revision, std::less<>> resume{};
};
[[nodiscard]] Fence read_fence(const krm::Json& row);
[[nodiscard]] Arrival read_arrival(const krm::Json& row);

/// What of it every request has to know. One instance per loop, fed by ApiServer::on_change.
/// Threads: its loop.
class MoveBook {
 public:
  /// @param store  of the shard; outlives it
  explicit MoveBook(const store::Store& store) : store_(store) {}
  /// Reads what is stored and follows every change. The server must outlive this or stop().
  /// @param closed  called with a cluster that is another shard's from now on.
  void start(apiserver::ApiServer& server, std::function<void(std::string_view cluster)> closed);
  void stop() noexcept { subscriptions_.clear(); }

  [[nodiscard]] const Fence* fence(std::string_view cluster) const;
  [[nodiscard]] const Arrival* arrival(std::string_view cluster) const;
  /// It left less than a minute ago: not everybody knows yet where it is.
  [[nodiscard]] bool has_just_left(std::string_view cluster) const;
  /// The clusters that have left.
  [[nodiscard]] std::vector<std::string> departed() const;
  /// The resolver that keeps everybody but XLCA and shards out of what is fenced (KK-214): writes
  /// from the fence on, all from when it is another shard's. Watches that come with revisions of
  /// the shard where a cluster was before go on behind its arrival, and see each of its objects
  /// once more; others who come with such revisions list again.
  /// @error kUnavailable, kExpired
  [[nodiscard]] apiserver::ClusterResolver wrap(apiserver::ClusterResolver clusters) const;

 private:
  [[nodiscard]] Expected<void> check_fence(const Fence& closed, std::string_view cluster,
                                           const krm::RequestInfo& info,
                                           const auth::UserInfo& user) const;
  /// @returns the revision in the place of the one that a watch has asked for; 0: that.
  [[nodiscard]] Expected<store::Revision> check(std::string_view cluster,
                                                const http::RequestHead& head,
                                                std::string_view rest,
                                                const auth::UserInfo& user) const;
  void note_fence(std::string_view cluster, const krm::Json* row);
  void note_arrival(std::string_view cluster, const krm::Json* row, store::Revision revision);

  const store::Store& store_;
  StringMap<Fence> fences_;
  StringMap<Arrival> arrivals_;
  std::function<void(std::string_view)> closed_;
  std::vector<std::shared_ptr<void>> subscriptions_;
};

}  // namespace kintsugi::controlplane
