#include "controlplane/replication/internal/replication_source.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <utility>
#include <vector>

#include "apiserver/keys.h"
#include "base/log.h"
#include "controlplane/internal/names.h"
#include "krm/path_prefixes.h"

namespace kintsugi::controlplane {
namespace {

using krm::Json;

/// Where objects of a kind are followed.
enum class Scope : std::uint8_t {
  kEverywhere,
  kRoot,    ///< of the root shard's cluster root alone
  kRights,  ///< in clusters that hold an export or a type
};
struct Kind {
  const char* plural;
  const char* path;  ///< below the cluster
  Scope scope = Scope::kEverywhere;
  bool later = false;  ///< a shard of an older version may lack it, and refuses to list it
};
/// Rights are the last ones.
constexpr Kind kKinds[] = {
    {"apiexports", "/apis/apis.kcp.io/v1alpha2/apiexports", Scope::kEverywhere, false},
    {"apiresourceschemas", "/apis/apis.kcp.io/v1alpha1/apiresourceschemas", Scope::kEverywhere,
     false},
    {"workspacetypes", "/apis/tenancy.kcp.io/v1alpha1/workspacetypes", Scope::kEverywhere, false},
    {"workspaceauthenticationconfigurations",
     "/apis/tenancy.kcp.io/v1alpha1/workspaceauthenticationconfigurations", Scope::kEverywhere,
     true},
    {"apiconversions", "/apis/apis.kcp.io/v1alpha1/apiconversions", Scope::kEverywhere, true},
    {"clustercachedresources", "/apis/cache.kcp.io/v1alpha1/clustercachedresources",
     Scope::kEverywhere, true},
    {"clustercachedresourceendpointslices",
     "/apis/cache.kcp.io/v1alpha1/clustercachedresourceendpointslices", Scope::kEverywhere, true},
    {"shards", "/apis/core.kcp.io/v1alpha1/shards", Scope::kRoot, false},
    {"mutatingadmissionpolicies", "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies",
     Scope::kEverywhere, true},
    {"mutatingadmissionpolicybindings",
     "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings", Scope::kEverywhere,
     true},
    {"mutatingwebhookconfigurations",
     "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations", Scope::kEverywhere,
     true},
    {"validatingadmissionpolicies",
     "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies", Scope::kEverywhere, true},
    {"validatingadmissionpolicybindings",
     "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings", Scope::kEverywhere,
     true},
    {"validatingwebhookconfigurations",
     "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations", Scope::kEverywhere,
     true},
    {"clusterroles", "/apis/rbac.authorization.k8s.io/v1/clusterroles", Scope::kRights, false},
    {"clusterrolebindings", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
     Scope::kRights, false},
};
constexpr std::size_t kWide = static_cast<std::size_t>(
    std::find_if(std::begin(kKinds), std::end(kKinds),
                 [](const Kind& kind) { return kind.scope == Scope::kRights; }) -
    std::begin(kKinds));

constexpr Duration kLongestRest = seconds(1);         // of the few lists of all clusters
constexpr Duration kLongestRightsRest = seconds(10);  // of the many of one; woken on recovery
constexpr std::size_t kStartsAtOnce = 64;
constexpr Duration kStartPause = milliseconds(10);

/// Rights on its objects are decided where these are used.
bool makes_interest(std::size_t kind) {
  const std::string_view plural = kKinds[kind].plural;
  return plural == kApiExports || plural == kWorkspaceTypes;
}

std::string resource_of(std::size_t kind) {
  return apiserver::stored_resource(kinds::kReplicaGroup, kKinds[kind].plural);
}

}  // namespace

const std::set<std::string, std::less<>>& replicated_resources() {
  static const std::set<std::string, std::less<>> names = [] {
    std::set<std::string, std::less<>> all;
    for (std::size_t kind = 0; kind < std::size(kKinds); ++kind) {
      all.insert(resource_of(kind));
    }
    return all;
  }();
  return names;
}

struct ReplicationSource::Feed final : shards::InformerSink {
  Feed(ReplicationSource& the_source, std::size_t the_kind, std::string_view the_cluster)
      : source(the_source), kind(the_kind), cluster(the_cluster) {}
  void on_upsert(const shards::ObjectKey& key, const Json& object) override {
    source.upsert(*this, key, object);
  }
  void on_delete(const shards::ObjectKey& key) override { source.remove(*this, key); }
  void on_synced() override { source.listed(*this); }
  void on_refused(int status) override {
    if (!refused && kind < kWide) {
      log_warn("another shard refuses to be replicated",
               {{"shard", source.shard_}, {"resource", kKinds[kind].plural}, {"status", status}});
    }
    refused = true;
    if (kKinds[kind].later && (status == 403 || status == 404) && !std::exchange(lacking, true)) {
      source.settle(kind);
    }
  }

  ReplicationSource& source;
  const std::size_t kind;
  const std::string cluster;  // "*": all
  bool synced = false, refused = false;
  bool lacking = false;  ///< the shard is of a version that does not have it
  std::unique_ptr<shards::Informer> informer;
};

ReplicationSource::ReplicationSource(net::Loop& loop, ReplicaRows& rows, std::string shard)
    : loop_(loop),
      rows_(rows),
      shard_(std::move(shard)),
      wide_(kWide),
      unconfirmed_(std::size(kKinds)),
      seed_(std::hash<std::string>{}(shard_)),
      timer_(loop) {
  for (std::size_t kind = 0; kind < std::size(kKinds); ++kind) {
    rows_.each(apiserver::resource_prefix(resource_of(kind)),
               [&](std::string_view key, std::string_view from) {
                 if (from == shard_) {
                   unconfirmed_[kind].emplace(key);
                 }
               });
  }
}

ReplicationSource::~ReplicationSource() { alive_.end(); }

ReplicationSource::FeedPtr ReplicationSource::make_feed(std::size_t kind,
                                                        std::string_view cluster) {
  auto feed = std::make_unique<Feed>(*this, kind, cluster);
  shards::InformerParams params;
  params.target = krm::cluster_root(cluster) + kKinds[kind].path;
  params.default_cluster = cluster == "*" ? std::string_view() : cluster;
  params.rest_max = kind < kWide ? kLongestRest : kLongestRightsRest;
  params.seed = ++seed_;
  http::HeaderList headers;
  headers.add("user-agent", "kintsugi-shard-replication");
  feed->informer =
      std::make_unique<shards::Informer>(loop_, std::move(params), std::move(headers), *feed);
  return feed;
}

void ReplicationSource::connect(net::UpstreamParams params) {
  params.on_recovered = [this, alive = alive_.weak()] {
    if (alive) {
      recovered();
    }
  };
  std::shared_ptr<net::Upstream> before = std::move(upstream_);
  upstream_ = net::Upstream::make(loop_, std::move(params));
  if (before == nullptr) {
    for (std::size_t kind = 0; kind < kWide; ++kind) {
      const bool of_root = kKinds[kind].scope == Scope::kRoot;
      if (of_root && shard_ != kRootCluster) {
        continue;
      }
      wide_[kind] = make_feed(kind, of_root ? kRootCluster : "*");
      wide_[kind]->informer->start(*upstream_);
    }
    return;
  }
  for (const FeedPtr& feed : wide_) {
    if (feed != nullptr) {
      feed->informer->set_upstream(*upstream_);
    }
  }
  for (const auto& [cluster, feeds] : rights_) {
    for (const FeedPtr& feed : feeds) {
      feed->informer->set_upstream(*upstream_);
    }
  }
  loop_.defer([before] { (void)before; });
}

void ReplicationSource::forget() {
  for (std::size_t kind = 0; kind < std::size(kKinds); ++kind) {
    rows_.remove_all(apiserver::resource_prefix(resource_of(kind)), shard_);
  }
}

void ReplicationSource::recovered() {
  log_info("another shard answers again", {{"shard", shard_}});
  for (const FeedPtr& feed : wide_) {
    if (feed != nullptr) {
      feed->informer->kick();
    }
  }
  for (const auto& [cluster, feeds] : rights_) {
    for (const FeedPtr& feed : feeds) {
      feed->informer->kick();
    }
  }
}

void ReplicationSource::upsert(const Feed& feed, const shards::ObjectKey& key, const Json& object) {
  const std::optional<std::string> row =
      apiserver::object_key(resource_of(feed.kind), key.cluster, "", key.name);
  if (!row || key.cluster.empty()) {
    return;
  }
  unconfirmed_[feed.kind].erase(*row);
  note_interest(feed.kind, key.cluster, key.name, true);
  rows_.put(*row, shard_, object);
}

void ReplicationSource::remove(const Feed& feed, const shards::ObjectKey& key) {
  const std::optional<std::string> row =
      apiserver::object_key(resource_of(feed.kind), key.cluster, "", key.name);
  if (row) {
    note_interest(feed.kind, key.cluster, key.name, false);
    rows_.remove(*row, shard_);
  }
}

void ReplicationSource::note_interest(std::size_t kind, std::string_view cluster,
                                      std::string_view name, bool there) {
  if (!makes_interest(kind)) {
    return;
  }
  const std::string entry = std::to_string(kind) + "/" + std::string(name);
  const auto found = interest_.find(cluster);
  if (there) {
    std::set<std::string, std::less<>>& names =
        found == interest_.end() ? interest_[std::string(cluster)] : found->second;
    names.insert(entry);
  } else if (found != interest_.end()) {
    found->second.erase(entry);
    if (found->second.empty()) {
      interest_.erase(found);
    }
  }
  if (interest_.contains(cluster) != rights_.contains(cluster)) {
    changed_.emplace(cluster);
    follow_rights_later(Duration(0));
  }
}

/// A complete list: what it did not name is gone.
void ReplicationSource::listed(Feed& feed) {
  const std::string resource = resource_of(feed.kind);
  drop_unconfirmed(feed.kind, apiserver::collection_prefix(resource, feed.cluster, ""));
  feed.lacking = false;
  if (!std::exchange(feed.synced, true)) {
    settle(feed.kind);
  }
}

/// All that the shard has of a kind is known.
void ReplicationSource::settle(std::size_t of) {
  note_complete();
  if (of >= kWide || !state().synced) {
    return;
  }
  // Rights of clusters that have neither exports nor types any more.
  for (std::size_t kind = kWide; kind < std::size(kKinds); ++kind) {
    std::set<std::string> gone;
    for (const std::string& key : unconfirmed_[kind]) {
      const std::optional<apiserver::KeyParts> parts = apiserver::parse_key(key);
      if (parts && !interest_.contains(parts->cluster)) {
        gone.emplace(parts->cluster);
      }
    }
    for (const std::string& cluster : gone) {
      drop_unconfirmed(kind, apiserver::collection_prefix(resource_of(kind), cluster, ""));
    }
  }
  const State now = state();
  log_info("another shard is replicated",
           {{"shard", shard_},
            {"objects", static_cast<std::uint64_t>(now.objects)},
            {"clusters", static_cast<std::uint64_t>(interest_.size())}});
}

void ReplicationSource::note_complete() {
  complete_ = complete_ || (state().synced && changed_.empty() &&
                            std::all_of(rights_.begin(), rights_.end(), [](const auto& cluster) {
                              return std::all_of(cluster.second.begin(), cluster.second.end(),
                                                 [](const FeedPtr& feed) { return feed->synced; });
                            }));
}

void ReplicationSource::drop_unconfirmed(std::size_t kind, std::string_view prefix) {
  std::set<std::string, std::less<>>& keys = unconfirmed_[kind];
  auto key = keys.lower_bound(prefix);
  while (key != keys.end() && key->starts_with(prefix)) {
    rows_.remove(*key, shard_);
    key = keys.erase(key);
  }
}

void ReplicationSource::follow_rights_later(Duration delay) {
  if (!std::exchange(timer_runs_, true)) {
    timer_.start(delay, [this] {
      timer_runs_ = false;
      follow_rights();
    });
  }
}

/// Starts and ends the lists of clusters, some at a time.
void ReplicationSource::follow_rights() {
  for (std::size_t i = 0; i < kStartsAtOnce && !changed_.empty(); ++i) {
    const std::string cluster = std::move(changed_.extract(changed_.begin()).value());
    const auto followed = rights_.find(cluster);
    if (!interest_.contains(cluster)) {
      if (followed == rights_.end()) {
        continue;
      }
      rights_.erase(followed);
      for (std::size_t kind = kWide; kind < std::size(kKinds); ++kind) {
        rows_.remove_all(apiserver::collection_prefix(resource_of(kind), cluster, ""), shard_);
      }
    } else if (followed == rights_.end() && rights_.size() < kMostClusters) {
      std::vector<FeedPtr>& feeds = rights_[cluster];
      for (std::size_t kind = kWide; kind < std::size(kKinds); ++kind) {
        feeds.push_back(make_feed(kind, cluster));
        feeds.back()->informer->start(*upstream_);
      }
    } else if (followed == rights_.end() && !std::exchange(full_, true)) {
      log_warn("rights in further logical clusters of a shard are not replicated",
               {{"shard", shard_}, {"limit", static_cast<std::uint64_t>(kMostClusters)}});
    }
  }
  if (!changed_.empty()) {
    follow_rights_later(kStartPause);
  }
  note_complete();
}

ReplicationSource::State ReplicationSource::state() const {
  State out;
  out.synced = out.watching = upstream_ != nullptr;
  const auto count = [&out](const Feed& feed) {
    const shards::InformerFsm& machine = feed.informer->machine();
    out.events += machine.counters().events;
    out.lists += machine.counters().lists;
    out.failures += machine.counters().failures;
    return machine.keys().size();
  };
  for (const FeedPtr& feed : wide_) {
    if (feed != nullptr) {
      out.objects += count(*feed);
      if (feed->lacking) {
        continue;
      }
      out.synced = out.synced && feed->synced;
      out.watching = out.watching &&
                     feed->informer->machine().state() == shards::InformerFsm::State::kWatching;
    }
  }
  for (const auto& [cluster, feeds] : rights_) {
    for (const FeedPtr& feed : feeds) {
      (void)count(*feed);
    }
  }
  out.clusters = rights_.size();
  out.complete = complete_;
  return out;
}

}  // namespace kintsugi::controlplane
