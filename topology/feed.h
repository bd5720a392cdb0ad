#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "http/headers.h"
#include "krm/json.h"
#include "net/loop.h"
#include "net/upstream.h"
#include "shards/refusals.h"
#include "topology/identities.h"
#include "topology/index.h"
#include "topology/snapshot.h"

namespace kintsugi::topology {

/// A Shard was added or changed (labels, URLs, health), or removed. With the removal everything
/// learned from it is gone; its objects are not reported one by one.
struct ShardChanged {
  const ShardInfo& shard;
  bool removed = false;
};
/// One object of a shard; `object` is null when it is gone.
struct ObjectChanged {
  ShardId shard = 0;
  std::string_view cluster;
  std::string_view name;
  const krm::Json* object = nullptr;
};
struct WorkspaceChanged : ObjectChanged {};
struct LogicalClusterChanged : ObjectChanged {};
struct ExportChanged : ObjectChanged {};
struct BindingChanged : ObjectChanged {};
/// @{ With FeedParams::authentication: what says which issuers' tokens a workspace knows. The index
/// has nothing of it.
struct WorkspaceTypeChanged : ObjectChanged {};
struct WorkspaceAuthenticationChanged : ObjectChanged {};
/// Both were listed from a shard.
struct AuthenticationSynced {
  ShardId shard = 0;
};
/// @}
/// @{ With FeedParams::cached_slices: ClusterCachedResourceEndpointSlices, which the index has
/// nothing of, and a complete list of a shard's.
struct CachedSliceChanged : ObjectChanged {};
struct CachedSlicesSynced {
  ShardId shard = 0;
};
/// @}
/// The first APIBinding of an export came to a shard, or the last one left it. Not told for shards
/// that are removed.
struct ConsumersChanged {
  const ConsumerChange& change;
};
/// The first complete list of a resource was taken over, or a new base URL reset that.
struct SyncedChanged {
  ShardId shard = 0;
  Resource resource = Resource::kWorkspaces;
  bool synced = false;
};

/// Consumers of changes, besides the index, which is always changed first. Calls come on the
/// control loop in the order of the events; they may read Feed::index() and may not destroy the
/// feed.
class FeedListener {
 public:
  virtual void on_change(const ShardChanged&) {}
  virtual void on_change(const WorkspaceChanged&) {}
  virtual void on_change(const LogicalClusterChanged&) {}
  virtual void on_change(const ExportChanged&) {}
  virtual void on_change(const BindingChanged&) {}
  virtual void on_change(const ConsumersChanged&) {}
  virtual void on_change(const SyncedChanged&) {}
  virtual void on_change(const WorkspaceTypeChanged&) {}
  virtual void on_change(const WorkspaceAuthenticationChanged&) {}
  virtual void on_change(const AuthenticationSynced&) {}
  virtual void on_change(const CachedSliceChanged&) {}
  virtual void on_change(const CachedSlicesSynced&) {}

 protected:
  ~FeedListener() = default;
};

struct FeedParams {
  /// The root shard with the root kubeconfig's credentials; URL without /clusters/….
  net::UpstreamParams root;
  bool has_root = true;  ///< false: no identities, and nobody has Workspaces; `root` is not used
  bool authentication = false;  ///< WorkspaceTypes and their authentication are listed, too
  bool cached_slices = false;   ///< ClusterCachedResourceEndpointSlices are listed, too
  /// Servers whose admin virtual workspace shows the Shards: they are read there, and at the root
  /// shard only while none answers (shard_source.h). Empty: at the root shard.
  std::vector<net::UpstreamParams> peers;
  Duration peer_limit = seconds(5);
  Duration peer_pause = seconds(30);
  bool lists_shards = true;  ///< false (source `objects`): Shards come by Feed::put_shard
  /// A shard with the shards kubeconfig's credentials and the overrides of `shards.<name>`.
  std::function<Expected<net::UpstreamParams>(const std::string& shard,
                                              const std::string& base_url)>
      shard;
  http::HeaderList root_headers;  ///< User-Agent, Authorization
  http::HeaderList shard_headers;
  Duration identity_poll = milliseconds(500);
  Duration identity_pause = seconds(5);  ///< between re-reads that refusals ask for
  Duration identity_refresh = seconds(600);
  Duration publish_after = milliseconds(5);  ///< changes that come together are published together
  Duration ready_limit = seconds(30);        ///< readiness waits no longer for a shard (FP-141)
  std::uint64_t seed = 1;
  /// As whom a server is asked: a shard, "root" (with the root kubeconfig) or "peers". May be
  /// empty.
  std::function<std::string(const std::string& server)> who;
  /// What is learned of kcp's exports, for others; null: nobody asks.
  std::shared_ptr<Identities> identities;
  /// Called with each change of Feed::ready(). May be empty.
  std::function<void(bool)> on_ready;
};

/// Topology source `kcp`: learns shards, logical clusters, workspaces, exports and bindings, keeps
/// the index and publishes snapshots. Source: R-09, FP-151, R-10.
/// Start-up: identity hashes of four exports in root, of which only tenancy.kcp.io holds up the
/// rest; then Shards (those that peers show at once); then per Shard four wildcard informers.
/// Everything is retried, nothing blocks. Threads: the control loop's. Lifetime: after the
/// publisher; destroyed outside of its callbacks.
class Feed {
 public:
  Feed(net::Loop& loop, FeedParams params, SnapshotPublisher& publisher);
  ~Feed();
  Feed(const Feed&) = delete;
  Feed& operator=(const Feed&) = delete;

  void start();
  /// @{ Source `objects`: a Shard object was made or changed, or is gone; the first list of them is
  /// over.
  void put_shard(const krm::Json& shard);
  void drop_shard(std::string_view name);
  void shards_complete();
  /// @}
  /// Sources `static` and `clusterprofiles`: these plain servers are the shards now. They are
  /// probed and nothing else. One with the name and without the uid of a known one is another
  /// shard.
  void put_static(const std::vector<ShardSpec>& shards);
  /// Kept until remove_listener. A listener that comes late gets no replay: add it before start().
  void add_listener(FeedListener& listener);
  void remove_listener(FeedListener& listener);

  /// For connections made from now on, with what FeedParams::shard gives for new URLs; running
  /// streams go on. Either may be null: unchanged.
  void set_tls(const std::shared_ptr<net::TlsContext>& root,
               const std::shared_ptr<net::TlsContext>& shards);
  /// Of the peers, in their order.
  void set_peer_tls(const std::vector<std::shared_ptr<net::TlsContext>>& tls);
  /// Of one shard.
  void set_shard_tls(std::string_view shard, const std::shared_ptr<net::TlsContext>& tls);

  /// The facts now, ahead of what is published by at most `publish_after`.
  [[nodiscard]] const Snapshot& index() const noexcept;
  /// Identities and Shards are known, and each shard that came before this is synced (a root shard
  /// has one at least), or 30 s have passed.
  [[nodiscard]] bool ready() const noexcept;
  /// Hash of one of the four exports, "" while unknown.
  [[nodiscard]] std::string_view identity(std::string_view export_name) const noexcept;

  /// Where a shard is asked; null: it is unknown or has no usable URL. For the turn.
  [[nodiscard]] net::Upstream* upstream(std::string_view shard) const noexcept;

  struct ResourceStatus {
    bool synced = false;
    std::size_t objects = 0;
    std::uint64_t events = 0, lists = 0, failures = 0;
    int last_status = 0;
    Errc last_cause = Errc::kOk;
  };
  struct ShardStatus {
    std::string name, base_url, cause;
    bool up = false;
    TimePoint failed_at{}, answered_at{};  ///< see shards::ShardClient
    int probe_status = 0;                  ///< the same
    std::int64_t certificate_end = 0;      ///< the same
    ResourceStatus resources[kResources];
  };
  /// For /debug/shards and metrics.
  [[nodiscard]] std::vector<ShardStatus> status() const;
  /// What is refused to the proxy now (FP-157).
  [[nodiscard]] std::vector<shards::Refusals::Refusal> refusals() const;
  struct Stats {
    std::uint64_t changes = 0;
    std::uint64_t publications = 0;
    Duration last_lag{};  ///< oldest unpublished change to its publication
    Duration longest_lag{};
  };
  [[nodiscard]] Stats stats() const noexcept;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kintsugi::topology
