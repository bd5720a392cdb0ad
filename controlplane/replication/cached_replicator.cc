#include "controlplane/replication/cached_replicator.h"

#include <optional>
#include <utility>
#include <vector>

#include "apiserver/keys.h"
#include "base/log.h"
#include "controlplane/internal/names.h"
#include "krm/annotations.h"
#include "krm/path_prefixes.h"
#include "shards/informer.h"

namespace kintsugi::controlplane {
namespace {

using krm::Json;

std::string copies_resource(const CachedResource& resource) {
  return apiserver::stored_resource(copies_group(resource), resource.plural);
}

/// Where the shard itself shows the objects to others.
std::string offer_target(std::string_view cluster, std::string_view name,
                         const CachedResource& resource) {
  const std::string versioned = resource.group.empty()
                                    ? "/api/" + resource.version
                                    : "/apis/" + resource.group + "/" + resource.version;
  return std::string(krm::kServicesPrefix) + "replication/" + std::string(cluster) + "/" +
         std::string(kOfferSegment) + std::string(name) + krm::cluster_root("*") + versioned + "/" +
         resource.plural;
}

}  // namespace

struct CachedReplicator::Feed final : shards::InformerSink {
  Feed(CachedReplicator& the_owner, std::string the_shard, CachedResource the_resource)
      : owner(the_owner),
        shard(std::move(the_shard)),
        resource(std::move(the_resource)),
        row_resource(copies_resource(resource)) {}

  void on_upsert(const shards::ObjectKey& key, const Json& object) override {
    if (const auto row = apiserver::object_key(row_resource, key.cluster, "", key.name)) {
      unconfirmed.erase(*row);
      owner.rows_.put(*row, "", object);
    }
  }
  void on_delete(const shards::ObjectKey& key) override {
    if (const auto row = apiserver::object_key(row_resource, key.cluster, "", key.name)) {
      owner.rows_.remove(*row, "");
    }
  }
  void on_synced() override {
    for (const std::string& row : std::exchange(unconfirmed, {})) {
      owner.rows_.remove(row, "");
    }
  }
  void on_refused(int status) override {
    if (!std::exchange(refused, true)) {
      log_warn("what another shard offers cannot be read",
               {{"shard", shard}, {"resource", resource.plural}, {"status", status}});
    }
  }

  CachedReplicator& owner;
  const std::string shard;
  const CachedResource resource;
  const std::string row_resource;
  bool refused = false, started = false;
  std::set<std::string, std::less<>> unconfirmed;  // rows that the shard has not shown yet
  std::unique_ptr<shards::Informer> informer;
};

CachedReplicator::CachedReplicator(net::Loop& loop, Params params)
    : loop_(loop), params_(std::move(params)), rows_(loop, params_.store) {}

CachedReplicator::~CachedReplicator() { alive_.end(); }

void CachedReplicator::start(apiserver::ApiServer& server) {
  subscription_ = server.on_change(kinds::kReplicaGroup, kCachedResources,
                                   [this](const apiserver::ApiServer::Change& change) {
                                     note(change.cluster, change.name, change.object.get());
                                   });
  server.reader().list("*", kinds::kReplicaGroup, kCachedResources, "", [this](const Json& copy) {
    note(cluster_of(copy), copy.text({"metadata", "name"}), &copy);
    return true;
  });
  drop_orphans();
  params_.root.listen(alive_.guard([this] { loop_.post(alive_.guard([this] { look(); })); }));
}

void CachedReplicator::note(std::string_view cluster, std::string_view name, const Json* copy) {
  const std::string row = std::string(cluster) + "/" + std::string(name);
  const auto known = feeds_.find(row);
  const CachedResource resource = copy == nullptr ? CachedResource() : read_cached_resource(*copy);
  const bool is_offered =
      copy != nullptr && !resource.uid.empty() && !is_never_cached(resource.group, resource.plural);
  const std::string shard =
      copy == nullptr ? std::string() : annotation(*copy, krm::kReplicatedFromAnnotation);
  if (known != feeds_.end()) {
    if (is_offered && known->second->resource == resource && known->second->shard == shard) {
      return;
    }
    if (!is_offered || known->second->resource != resource) {
      drop(known->second->row_resource);
    }
    // Never inside of its own callback: this comes from the store.
    feeds_.erase(known);
  }
  if (!is_offered) {
    return;
  }
  auto feed = std::make_unique<Feed>(*this, shard, resource);
  shards::InformerParams params;
  params.target = offer_target(cluster, name, resource);
  params.default_cluster = cluster;
  params.rest_max = seconds(10);
  params.seed = std::hash<std::string>{}(row);
  http::HeaderList headers;
  headers.add("user-agent", "kintsugi-shard-replication");
  feed->informer =
      std::make_unique<shards::Informer>(loop_, std::move(params), std::move(headers), *feed);
  rows_.each(apiserver::resource_prefix(feed->row_resource),
             [&](std::string_view key, std::string_view) { feed->unconfirmed.emplace(key); });
  serve(*feeds_.emplace(row, std::move(feed)).first->second);
}

void CachedReplicator::drop(std::string_view stored_resource) {
  rows_.remove_all(apiserver::resource_prefix(stored_resource), "");
}

/// Copies whose offer went while this one was not running.
void CachedReplicator::drop_orphans() {
  std::set<std::string, std::less<>> offered, orphans;
  for (const auto& [row, feed] : feeds_) {
    offered.insert(feed->row_resource);
  }
  store::RangeQuery query;
  bool more = true;
  while (more) {
    more = false;
    const Expected<store::Revision> read =
        params_.store.range(query, [&](const store::EntryView& entry) {
          const std::optional<apiserver::KeyParts> parts = apiserver::parse_key(entry.key);
          const std::string resource(parts ? parts->resource : entry.key);
          if (parts && !offered_by(resource).empty() && !offered.contains(resource)) {
            orphans.insert(resource);
          }
          query.start = resource + '\x01';  // behind all keys of the resource
          more = true;
          return false;
        });
    if (!read) {
      log_error("cannot look for copies of what nobody offers",
                {{"errc", errc_name(read.error().code())}});
      return;
    }
  }
  for (const std::string& resource : orphans) {
    drop(resource);
  }
}

void CachedReplicator::serve(Feed& feed) {
  const ShardRecord* record = params_.root.shard(feed.shard);
  if (record == nullptr) {
    return;  // look() comes with it
  }
  Shard& shard = shards_[feed.shard];
  if (shard.upstream == nullptr || shard.url != record->base_url) {
    Expected<net::UpstreamParams> params = params_.connect(record->base_url);
    if (!params) {
      log_warn("another shard cannot be reached for what it offers",
               {{"shard", feed.shard}, {"error", params.error().to_string()}});
      return;
    }
    const std::shared_ptr<net::Upstream> before =
        std::exchange(shard.upstream, net::Upstream::make(loop_, std::move(*params)));
    shard.url = record->base_url;
    for (const auto& [row, other] : feeds_) {
      if (other->started && other->shard == feed.shard) {
        other->informer->set_upstream(*shard.upstream);
      }
    }
    loop_.defer([before] { (void)before; });
  }
  if (!std::exchange(feed.started, true)) {
    feed.informer->start(*shard.upstream);
  }
}

void CachedReplicator::look() {
  for (const auto& [row, feed] : feeds_) {
    const ShardRecord* record = params_.root.shard(feed->shard);
    if (record != nullptr && (!feed->started || shards_[feed->shard].url != record->base_url)) {
      serve(*feed);
    }
  }
}

}  // namespace kintsugi::controlplane
