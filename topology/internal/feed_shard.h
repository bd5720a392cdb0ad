#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "shards/informer.h"
#include "shards/shard_client.h"
#include "topology/feed.h"

namespace kintsugi::topology {

/// What the feed of one shard needs from the whole.
class FeedCore {
 public:
  [[nodiscard]] virtual net::Loop& loop() = 0;
  [[nodiscard]] virtual const FeedParams& params() const = 0;
  /// For writing; the time of facts is set.
  [[nodiscard]] virtual Index& index() = 0;
  [[nodiscard]] virtual const std::vector<FeedListener*>& listeners() const = 0;
  [[nodiscard]] virtual shards::Refusals& refusals() = 0;
  /// A fact changed and wants to be published.
  virtual void touched() = 0;
  /// A wildcard request was answered 403 or 404.
  virtual void refused() = 0;

 protected:
  ~FeedCore() = default;
};

/// One shard's informers and health. Threads: the control loop's.
class ShardFeed {
 public:
  ShardFeed(FeedCore& core, ShardId id, std::string name);
  ~ShardFeed();

  /// Starts or moves the informers; an unusable URL stops them until there is a better one.
  /// Base URL and those of the other processes.
  void set_urls(const ShardSpec& spec);
  /// The same of a plain server, of which nothing is listed; also where the way there is another.
  void set_plain_url(const std::string& url);
  [[nodiscard]] const std::string& base_url() const noexcept { return client_.base_url(); }
  /// Part of the URL of Workspaces; restarts that informer when it differs.
  void set_workspace_identity(const std::string& hash);
  void set_tls(std::shared_ptr<net::TlsContext> tls) { client_.set_tls(std::move(tls)); }
  [[nodiscard]] net::Upstream* upstream() const noexcept { return client_.upstream(); }
  /// Nothing is reported any more.
  void stop();
  [[nodiscard]] Feed::ShardStatus status() const;

 private:
  /// Receives one resource.
  class Sink final : public shards::InformerSink {
   public:
    Sink(ShardFeed& owner, Resource resource) : owner_(owner), resource_(resource) {}
    void on_upsert(const shards::ObjectKey& key, const krm::Json& object) override;
    void on_delete(const shards::ObjectKey& key) override;
    void on_synced() override;
    void on_refused(int status) override;

   private:
    ShardFeed& owner_;
    Resource resource_;
  };
  /// Receives what the index has nothing of: 0 WorkspaceTypes, 1 their authentication.
  class TypeSink final : public shards::InformerSink {
   public:
    TypeSink(ShardFeed& owner, std::size_t part) : owner_(owner), part_(part) {}
    void on_upsert(const shards::ObjectKey& key, const krm::Json& object) override;
    void on_delete(const shards::ObjectKey& key) override;
    void on_synced() override;
    void on_refused(int status) override;

   private:
    ShardFeed& owner_;
    std::size_t part_;
  };
  /// Receives ClusterCachedResourceEndpointSlices.
  class SliceSink final : public shards::InformerSink {
   public:
    explicit SliceSink(ShardFeed& owner) : owner_(owner) {}
    void on_upsert(const shards::ObjectKey& key, const krm::Json& object) override;
    void on_delete(const shards::ObjectKey& key) override;
    void on_synced() override;

   private:
    ShardFeed& owner_;
  };

  static constexpr std::size_t kTypeParts = 2;
  void start_types();
  void report_slice(const shards::ObjectKey& key, const krm::Json* object);
  void report_type(std::size_t part, const shards::ObjectKey& key, const krm::Json* object);
  void type_synced(std::size_t part);

  void on_health();
  /// Without their identity there is no URL to ask; without a root shard there are none at all.
  void start_workspaces();
  void report(Resource resource, const shards::ObjectKey& key, const krm::Json* object);
  void report_consumers(const ConsumerChanges& changes);
  void report_synced(Resource resource, bool synced);

  FeedCore& core_;
  const ShardId id_;
  std::string workspace_identity_;
  bool workspaces_wait_ = false;  ///< for their identity
  bool is_plain_ = false;
  shards::ShardClient client_;
  std::array<Sink, kResources> sinks_;
  std::array<TypeSink, kTypeParts> type_sinks_;
  SliceSink slice_sink_{*this};
  std::array<bool, kTypeParts> types_synced_{};
  std::array<std::unique_ptr<shards::Informer>, kResources> informers_;  // die before the client
  /// With FeedParams::authentication.
  std::array<std::unique_ptr<shards::Informer>, kTypeParts> type_informers_;
  std::unique_ptr<shards::Informer> slice_informer_;  ///< with FeedParams::cached_slices
};

}  // namespace kintsugi::topology
