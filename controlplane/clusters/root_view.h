#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "apiserver/server.h"
#include "base/error.h"
#include "krm/json.h"
#include "net/loop.h"
#include "net/upstream.h"
#include "shards/informer.h"

/// What every shard knows of the logical cluster `root`, wherever that lives.
namespace kintsugi::controlplane {

struct ShardRecord {
  std::string name, base_url, external_url, virtual_workspace_url;
  krm::Json labels;
  bool unschedulable = false;
  bool operator==(const ShardRecord&) const = default;
};

/// Shards, workspace types and identities of system APIs. One instance per loop; fed by one of the
/// feeds below. Threads: its loop.
class RootView {
 public:
  enum class Part : std::uint8_t { kShards, kTypes, kExports };

  /// null object: gone.
  void put_shard(std::string_view name, const krm::Json* shard);
  void put_type(std::string_view name, const krm::Json* type);
  void put_export(std::string_view name, const krm::Json* api_export);
  /// What was known when this shard ran before (copies in its store, replication.h): as good as an
  /// object that was put, until the part has been listed.
  void remember(Part part, std::string_view name, const krm::Json& object);
  /// Every object of the part has been put: what is only remembered goes. With kShards the view is
  /// synced.
  void listed(Part part);

  [[nodiscard]] const std::map<std::string, ShardRecord, std::less<>>& shards() const noexcept {
    return shards_;
  }
  [[nodiscard]] const ShardRecord* shard(std::string_view name) const;
  [[nodiscard]] const krm::Json* type(std::string_view name) const;
  /// True when `hash` is the identity of the export of root that owns the resource.
  [[nodiscard]] bool is_identity(std::string_view group, std::string_view resource,
                                 std::string_view hash) const;
  /// All shards have been read once.
  [[nodiscard]] bool synced() const noexcept { return synced_; }
  /// Runs after each change of a Shard.
  void listen(std::function<void()> listener) { listeners_.push_back(std::move(listener)); }

 private:
  using Names = std::set<std::string, std::less<>>;
  void put(Part part, std::string_view name, const krm::Json* object);
  void confirm(Part part, std::string_view name);

  std::map<std::string, ShardRecord, std::less<>> shards_;
  std::map<std::string, krm::Json, std::less<>> types_;
  std::map<std::string, std::string, std::less<>> identities_;  // by name of the export
  std::array<Names, 3> remembered_;                             // by part, not put yet
  std::vector<std::function<void()>> listeners_;
  bool synced_ = false;
};

/// Feeds from the server of the root shard itself.
class LocalRootFeed {
 public:
  LocalRootFeed(apiserver::ApiServer& server, RootView& view);
  void stop() noexcept { subscriptions_.clear(); }

 private:
  std::vector<std::shared_ptr<void>> subscriptions_;
};

/// Address and credentials of the root shard, read again and again: it may start later or move.
using RootAddress = std::function<Expected<net::UpstreamParams>()>;

/// Feeds from another shard, by list and watch. Goes on with what it has while root is away, also
/// with what the view remembers.
class RemoteRootFeed {
 public:
  RemoteRootFeed(net::Loop& loop, RootView& view, RootAddress address);
  ~RemoteRootFeed();
  RemoteRootFeed(const RemoteRootFeed&) = delete;
  RemoteRootFeed& operator=(const RemoteRootFeed&) = delete;
  /// Where the root shard is; null while that is not known. Changes only between turns.
  [[nodiscard]] net::Upstream* upstream() const noexcept { return upstream_.get(); }
  /// Runs whenever the root shard has become known or has moved.
  void on_upstream(std::function<void()> listener) { moved_ = std::move(listener); }
  void stop();

 private:
  struct Sink;
  void look();
  void use(net::UpstreamParams params);

  net::Loop& loop_;
  RootView& view_;
  RootAddress address_;
  std::function<void()> moved_;
  std::unique_ptr<net::Upstream> upstream_;
  std::vector<std::unique_ptr<Sink>> sinks_;
  std::vector<std::unique_ptr<shards::Informer>> informers_;
  net::Timer timer_;
};

}  // namespace kintsugi::controlplane
