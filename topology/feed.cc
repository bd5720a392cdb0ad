#include "topology/feed.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/log.h"
#include "base/time.h"
#include "krm/path_prefixes.h"
#include "topology/internal/feed_identity.h"
#include "topology/internal/feed_shard.h"
#include "topology/internal/shard_source.h"
#include "topology/internal/source.h"

namespace kintsugi::topology {

using krm::Json;
using shards::ObjectKey;

namespace {

const std::string kRoot = "root";  // the server of the root kubeconfig

}  // namespace

class Feed::Impl final : public FeedCore, public shards::InformerSink {
 public:
  Impl(net::Loop& loop, FeedParams params, SnapshotPublisher& publisher)
      : loop_(loop),
        params_(std::move(params)),
        publisher_(publisher),
        refusals_(params_.who),
        root_(params_.has_root ? net::Upstream::make(loop, params_.root) : nullptr),
        publish_timer_(loop),
        ready_timer_(loop) {
    if (root_ != nullptr) {
      identities_ = std::make_unique<IdentityReader>(
          loop, *root_,
          IdentityReader::Params{params_.identity_poll, params_.identity_pause,
                                 params_.identity_refresh, params_.root_headers,
                                 [this](std::string_view target, int code, std::string_view body) {
                                   refusals_.heard(std::string(target), kRoot, target, code, body);
                                 }},
          [this](std::string_view name, const std::string& hash) { take_identity(name, hash); });
    }
    if (params_.lists_shards) {
      shard_list_ =
          std::make_unique<ShardSource>(loop_,
                                        ShardSource::Params{.root = root_.get(),
                                                            .peers = params_.peers,
                                                            .limit = params_.peer_limit,
                                                            .pause = params_.peer_pause,
                                                            .headers = params_.root_headers,
                                                            .seed = params_.seed},
                                        *this);
      shard_list_->tell_answers([this](std::string_view target, int code, std::string_view body) {
        const bool at_peers = target.starts_with(krm::kServicesPrefix);
        refusals_.heard("shards", at_peers ? "peers" : kRoot, target, code, body);
      });
    }
  }
  ~Impl() = default;

  void start() {
    if (identities_ != nullptr) {
      identities_->start();
    }
    if (shard_list_ != nullptr) {
      shard_list_->start();
    }
  }

  // FeedCore
  net::Loop& loop() override { return loop_; }
  const FeedParams& params() const override { return params_; }
  Index& index() override {
    index_.set_time(static_cast<std::uint32_t>(unix_seconds()));
    return index_;
  }
  const std::vector<FeedListener*>& listeners() const override { return listeners_; }
  shards::Refusals& refusals() override { return refusals_; }
  void touched() override;
  void refused() override {
    if (identities_ != nullptr) {
      identities_->refresh_soon();
    }
  }
  [[nodiscard]] std::string_view identity(std::string_view name) const noexcept {
    return identities_ != nullptr ? identities_->hash(name) : std::string_view();
  }

  void upsert(const ObjectKey& key, const Json& object) { on_upsert(key, object); }
  void drop(const ObjectKey& key) { on_delete(key); }
  void complete() { on_synced(); }
  void put_static(const std::vector<ShardSpec>& shards);
  void publish();
  void tell_ready();
  [[nodiscard]] bool ready() const noexcept;

  net::Loop& loop_;
  FeedParams params_;
  SnapshotPublisher& publisher_;
  Index index_;
  std::vector<FeedListener*> listeners_;
  shards::Refusals refusals_;
  std::unique_ptr<net::Upstream> root_;
  std::unique_ptr<IdentityReader> identities_;             ///< null without a root shard
  std::unique_ptr<ShardSource> shard_list_;                ///< null with source `objects`
  std::map<std::string, std::string, std::less<>> homes_;  ///< cluster of each Shard object
  std::map<std::string, std::unique_ptr<ShardFeed>, std::less<>> shards_;
  std::set<std::string> at_start_;
  TimePoint listed_at_{};
  net::Timer publish_timer_;
  net::Timer ready_timer_;
  bool told_ready_ = false;
  bool publish_pending_ = false;
  TimePoint touched_at_{};
  Stats stats_;

 private:
  void take_identity(std::string_view name, const std::string& hash);
  // Shards
  void on_upsert(const ObjectKey& key, const Json& object) override;
  void on_delete(const ObjectKey& key) override;
  void on_synced() override;
};

void Feed::Impl::take_identity(std::string_view name, const std::string& hash) {
  log_info("identity of an export", {{"export", name}});
  if (params_.identities != nullptr) {
    params_.identities->set(name, hash);
  }
  if (name != IdentityReader::kTenancy) {
    return;
  }
  for (auto& [shard, feed] : shards_) {
    feed->set_workspace_identity(hash);
  }
  if (shard_list_ != nullptr) {
    shard_list_->root_serves();
  }
}

void Feed::Impl::on_upsert(const ObjectKey& key, const Json& object) {
  homes_[std::string(key.name)] = key.cluster;
  const ShardSpec spec = shard_from_json(object);
  const Index::ShardChange change = index().upsert_shard(spec);
  if (!change.changed) {
    return;
  }
  const std::string name(key.name);
  if (!told_ready_) {
    at_start_.insert(name);
  }
  auto& feed = shards_[name];
  if (feed == nullptr) {
    feed = std::make_unique<ShardFeed>(*this, change.id, name);
    feed->set_workspace_identity(std::string(identity(IdentityReader::kTenancy)));
  }
  touched();
  for (FeedListener* listener : listeners_) {
    listener->on_change(ShardChanged{*index_.now().shard(change.id), false});
  }
  if (change.added || change.urls_changed) {
    feed->set_urls(index_.now().shard(change.id)->spec);
  }
}

void Feed::Impl::put_static(const std::vector<ShardSpec>& shards) {
  const SnapshotPtr before = index_.freeze();
  for (const auto& known : before->shards()) {
    const bool is_kept = std::any_of(shards.begin(), shards.end(), [&](const ShardSpec& spec) {
      return spec.name == known->spec.name && spec.uid == known->spec.uid;
    });
    if (!is_kept) {
      drop({"root", "", known->spec.name});
    }
  }
  apply_static(index(), shards);
  listed_at_ = loop_.now();
  touched();
  for (const ShardSpec& spec : shards) {
    const ShardInfo& info = *index_.now().shard(spec.name);
    const ShardInfo* const old = before->shard(info.id);
    auto& feed = shards_[spec.name];
    if (feed == nullptr) {
      feed = std::make_unique<ShardFeed>(*this, info.id, spec.name);
    }
    if (old != nullptr && old->spec == info.spec) {
      continue;
    }
    for (FeedListener* listener : listeners_) {
      listener->on_change(ShardChanged{info, false});
    }
    if (old == nullptr || old->spec.base_url != info.spec.base_url ||
        old->spec.access != info.spec.access) {
      feed->set_plain_url(info.spec.base_url);
    }
  }
}

void Feed::Impl::on_delete(const ObjectKey& key) {
  const auto at = shards_.find(key.name);
  const auto home = homes_.find(key.name);
  if (home != homes_.end() && home->second != key.cluster) {
    return;  // the same Shard, which another server shows in another cluster
  }
  if (home != homes_.end()) {
    homes_.erase(home);
  }
  if (at == shards_.end()) {
    return;
  }
  at->second->stop();
  refusals_.forget(std::string(key.name));
  loop_.defer([dead = std::shared_ptr<ShardFeed>(std::move(at->second))] { (void)dead; });
  shards_.erase(at);
  const SnapshotPtr before = index_.freeze();  // keeps the row for the listeners
  index().delete_shard(key.name);
  touched();
  for (FeedListener* listener : listeners_) {
    listener->on_change(ShardChanged{*before->shard(key.name), true});
  }
}

void Feed::Impl::on_synced() {
  if (index().set_shards_listed()) {
    listed_at_ = loop_.now();
    ready_timer_.start(params_.ready_limit, [this] { tell_ready(); });
    touched();
  }
}

void Feed::Impl::touched() {
  ++stats_.changes;
  if (publish_pending_) {
    return;
  }
  publish_pending_ = true;
  touched_at_ = loop_.now();
  publish_timer_.start(params_.publish_after, [this] { publish(); });
}

void Feed::Impl::publish() {
  publish_pending_ = false;
  ConsumerChanges consumers;
  index_.settle_bindings(consumers);
  for (const ConsumerChange& change : consumers) {
    for (FeedListener* listener : listeners_) {
      listener->on_change(ConsumersChanged{change});
    }
  }
  ++stats_.publications;
  stats_.last_lag = loop_.now() - touched_at_;
  stats_.longest_lag = std::max(stats_.longest_lag, stats_.last_lag);
  publisher_.publish(index_.freeze());
  tell_ready();
}

void Feed::Impl::tell_ready() {
  const bool now = ready();
  if (now != told_ready_) {
    told_ready_ = now;
    if (params_.on_ready) {
      params_.on_ready(now);
    }
  }
}

bool Feed::Impl::ready() const noexcept {
  if (!index_.now().shards_listed()) {
    return false;
  }
  if (loop_.now() - listed_at_ >= params_.ready_limit) {
    return true;
  }
  if (identities_ != nullptr && !index_.now().cluster("root")) {
    return false;  // a root shard that has just begun has not registered itself yet
  }
  return std::all_of(at_start_.begin(), at_start_.end(), [&](const std::string& name) {
    const ShardInfo* shard = index_.now().shard(name);
    return shard == nullptr || (shard->is_synced(Resource::kWorkspaces) &&
                                shard->is_synced(Resource::kLogicalClusters));
  });
}

Feed::Feed(net::Loop& loop, FeedParams params, SnapshotPublisher& publisher)
    : impl_(std::make_unique<Impl>(loop, std::move(params), publisher)) {}

Feed::~Feed() = default;

void Feed::start() { impl_->start(); }

void Feed::put_shard(const krm::Json& shard) {
  impl_->upsert({"root", "", shard.text({"metadata", "name"})}, shard);
}

void Feed::drop_shard(std::string_view name) { impl_->drop({"root", "", name}); }

void Feed::put_static(const std::vector<ShardSpec>& shards) { impl_->put_static(shards); }

void Feed::shards_complete() { impl_->complete(); }

void Feed::add_listener(FeedListener& listener) { impl_->listeners_.push_back(&listener); }

void Feed::remove_listener(FeedListener& listener) {
  auto& all = impl_->listeners_;
  all.erase(std::remove(all.begin(), all.end(), &listener), all.end());
}

void Feed::set_tls(const std::shared_ptr<net::TlsContext>& root,
                   const std::shared_ptr<net::TlsContext>& shards) {
  if (root != nullptr && impl_->root_ != nullptr) {
    impl_->root_->set_tls(root);
  }
  if (shards != nullptr) {
    for (const auto& [name, feed] : impl_->shards_) {
      feed->set_tls(shards);
    }
  }
}

void Feed::set_peer_tls(const std::vector<std::shared_ptr<net::TlsContext>>& tls) {
  if (impl_->shard_list_ != nullptr) {
    impl_->shard_list_->set_peer_tls(tls);
  }
}

void Feed::set_shard_tls(std::string_view shard, const std::shared_ptr<net::TlsContext>& tls) {
  if (const auto found = impl_->shards_.find(shard); found != impl_->shards_.end()) {
    found->second->set_tls(tls);
  }
}

const Snapshot& Feed::index() const noexcept { return impl_->index_.now(); }

bool Feed::ready() const noexcept { return impl_->ready(); }

std::string_view Feed::identity(std::string_view export_name) const noexcept {
  return impl_->identity(export_name);
}

net::Upstream* Feed::upstream(std::string_view shard) const noexcept {
  const auto found = impl_->shards_.find(shard);
  return found == impl_->shards_.end() ? nullptr : found->second->upstream();
}

std::vector<Feed::ShardStatus> Feed::status() const {
  std::vector<ShardStatus> all;
  for (const auto& [name, feed] : impl_->shards_) {
    all.push_back(feed->status());
  }
  return all;
}

std::vector<shards::Refusals::Refusal> Feed::refusals() const { return impl_->refusals_.now(); }

Feed::Stats Feed::stats() const noexcept { return impl_->stats_; }

}  // namespace kintsugi::topology
