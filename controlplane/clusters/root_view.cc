#include "controlplane/clusters/root_view.h"

#include <utility>

#include "base/log.h"
#include "controlplane/internal/names.h"
#include "krm/annotations.h"
#include "krm/path_prefixes.h"

namespace kintsugi::controlplane {
namespace {

using krm::Json;

constexpr Duration kLookWhileUnknown = milliseconds(100);
constexpr Duration kLookAgain = seconds(2);

struct Source {
  std::string_view group, resource;
  const char* path;  ///< in the root cluster
  RootView::Part part;
  void (RootView::*put)(std::string_view, const Json*);
};
constexpr Source kSources[] = {
    // by RootView::Part
    {kCoreGroup, kShards, "/apis/core.kcp.io/v1alpha1/shards", RootView::Part::kShards,
     &RootView::put_shard},
    {kTenancyGroup, kWorkspaceTypes, "/apis/tenancy.kcp.io/v1alpha1/workspacetypes",
     RootView::Part::kTypes, &RootView::put_type},
    {kApisGroup, kApiExports, "/apis/apis.kcp.io/v1alpha2/apiexports", RootView::Part::kExports,
     &RootView::put_export},
};

}  // namespace

void RootView::put(Part part, std::string_view name, const Json* object) {
  const Source& source = kSources[static_cast<std::size_t>(part)];
  (this->*source.put)(name, object);
}

void RootView::confirm(Part part, std::string_view name) {
  Names& names = remembered_[static_cast<std::size_t>(part)];
  if (const auto found = names.find(name); found != names.end()) {
    names.erase(found);
  }
}

void RootView::remember(Part part, std::string_view name, const Json& object) {
  put(part, name, &object);
  remembered_[static_cast<std::size_t>(part)].emplace(name);
}

void RootView::listed(Part part) {
  for (const std::string& name : std::exchange(remembered_[static_cast<std::size_t>(part)], {})) {
    put(part, name, nullptr);
  }
  synced_ = synced_ || part == Part::kShards;
}

void RootView::put_shard(std::string_view name, const Json* shard) {
  confirm(Part::kShards, name);
  const auto found = shards_.find(name);
  if (shard == nullptr) {
    if (found == shards_.end()) {
      return;
    }
    shards_.erase(found);
  } else {
    ShardRecord record;
    record.name = name;
    record.base_url = shard->text({"spec", "baseURL"});
    record.external_url = shard->text({"spec", "externalURL"});
    record.virtual_workspace_url = shard->text({"spec", "virtualWorkspaceURL"});
    if (const Json* labels = shard->at({"metadata", "labels"})) {
      record.labels = *labels;
    }
    record.unschedulable =
        annotation(*shard, krm::kUnschedulableAnnotation) == "true" ||
        shard->text({"metadata", "labels", krm::kUnschedulableAnnotation}) == "true" ||
        !shard->text({"metadata", "deletionTimestamp"}).empty();
    if (found != shards_.end() && found->second == record) {
      return;
    }
    shards_.insert_or_assign(std::string(name), std::move(record));
  }
  for (const auto& listener : listeners_) {
    listener();
  }
}

void RootView::put_type(std::string_view name, const Json* type) {
  confirm(Part::kTypes, name);
  if (type != nullptr) {
    types_.insert_or_assign(std::string(name), *type);
  } else if (const auto found = types_.find(name); found != types_.end()) {
    types_.erase(found);
  }
}

void RootView::put_export(std::string_view name, const Json* api_export) {
  confirm(Part::kExports, name);
  const std::string_view hash =
      api_export == nullptr ? std::string_view() : api_export->text({"status", "identityHash"});
  if (!hash.empty()) {
    identities_.insert_or_assign(std::string(name), std::string(hash));
  } else if (const auto found = identities_.find(name); found != identities_.end()) {
    identities_.erase(found);
  }
}

const ShardRecord* RootView::shard(std::string_view name) const {
  const auto found = shards_.find(name);
  return found == shards_.end() ? nullptr : &found->second;
}

const Json* RootView::type(std::string_view name) const {
  const auto found = types_.find(name);
  return found == types_.end() ? nullptr : &found->second;
}

bool RootView::is_identity(std::string_view group, std::string_view resource,
                           std::string_view hash) const {
  // Exports are called like the group, or like the resource where a group has several.
  for (const std::string& name :
       {std::string(group), std::string(resource) + "." + std::string(group)}) {
    const auto found = identities_.find(name);
    if (found != identities_.end()) {
      return found->second == hash;
    }
  }
  return false;
}

LocalRootFeed::LocalRootFeed(apiserver::ApiServer& server, RootView& view) {
  for (const Source& source : kSources) {
    const auto put = source.put;
    subscriptions_.push_back(server.on_change(
        source.group, source.resource, [&view, put](const apiserver::ApiServer::Change& change) {
          if (change.cluster == kRootCluster) {
            (view.*put)(change.name, change.object.get());
          }
        }));
    server.reader().list(kRootCluster, source.group, source.resource, "",
                         [&view, put](const Json& object) {
                           (view.*put)(object.text({"metadata", "name"}), &object);
                           return true;
                         });
    view.listed(source.part);
  }
}

struct RemoteRootFeed::Sink final : shards::InformerSink {
  Sink(RootView& the_view, const Source& the_source) : view(the_view), source(the_source) {}
  void on_upsert(const shards::ObjectKey& key, const Json& object) override {
    (view.*source.put)(key.name, &object);
  }
  void on_delete(const shards::ObjectKey& key) override { (view.*source.put)(key.name, nullptr); }
  void on_synced() override { view.listed(source.part); }
  RootView& view;
  const Source& source;
};

RemoteRootFeed::RemoteRootFeed(net::Loop& loop, RootView& view, RootAddress address)
    : loop_(loop), view_(view), address_(std::move(address)), timer_(loop) {
  for (const Source& source : kSources) {
    sinks_.push_back(std::make_unique<Sink>(view_, source));
    shards::InformerParams params;
    params.target = std::string(krm::kRootClusterPath) + source.path;
    params.default_cluster = kRootCluster;
    params.rest_max = seconds(2);
    http::HeaderList headers;
    headers.add("user-agent", "kintsugi-shard");
    informers_.push_back(std::make_unique<shards::Informer>(loop_, std::move(params),
                                                            std::move(headers), *sinks_.back()));
  }
  timer_.start(Duration(0), [this] { look(); });
}

RemoteRootFeed::~RemoteRootFeed() { stop(); }

void RemoteRootFeed::stop() {
  timer_.cancel();
  for (const auto& informer : informers_) {
    informer->stop();
  }
  informers_.clear();
}

void RemoteRootFeed::look() {
  Expected<net::UpstreamParams> params = address_();
  if (params && (upstream_ == nullptr || !(upstream_->params().url == params->url))) {
    use(std::move(*params));
  }
  timer_.start(upstream_ == nullptr ? kLookWhileUnknown : kLookAgain, [this] { look(); });
}

void RemoteRootFeed::use(net::UpstreamParams params) {
  log_info("root shard found", {{"url", params.url.authority()}});
  std::shared_ptr<net::Upstream> before = std::move(upstream_);
  upstream_ = net::Upstream::make(loop_, std::move(params));
  for (const auto& informer : informers_) {
    if (before == nullptr) {
      informer->start(*upstream_);
    } else {
      informer->set_upstream(*upstream_);
    }
  }
  if (moved_) {
    moved_();
  }
  loop_.defer([before] { (void)before; });
}

}  // namespace kintsugi::controlplane
