#include "topology/internal/feed_shard.h"

#include <utility>

#include "base/log.h"
#include "krm/path_prefixes.h"
#include "topology/internal/source.h"

namespace kintsugi::topology {
namespace {

/// A collection in all logical clusters of a shard. @param path below "/apis/".
std::string everywhere(std::string_view path) {
  return std::string(krm::kEverywhereEscaped).append("/apis/").append(path);
}

std::string target_of(Resource resource, const std::string& identity) {
  switch (resource) {
    case Resource::kWorkspaces:
      return everywhere("tenancy.kcp.io/v1alpha1/workspaces:") + identity;
    case Resource::kLogicalClusters:
      return everywhere("core.kcp.io/v1alpha1/logicalclusters");
    case Resource::kExports:
      return everywhere("apis.kcp.io/v1alpha2/apiexports");
    case Resource::kBindings:
      return everywhere("apis.kcp.io/v1alpha2/apibindings");
  }
  return {};
}

constexpr std::string_view kTypeResources[] = {"workspacetypes",
                                               "workspaceauthenticationconfigurations"};

std::string type_target(std::size_t part, const std::string& identity) {
  return everywhere("tenancy.kcp.io/v1alpha1/") + std::string(kTypeResources[part]) + ":" +
         identity;
}

shards::ShardClientParams client_params(const FeedParams& params, const std::string& name) {
  shards::ShardClientParams result;
  result.name = name;
  result.headers = params.shard_headers;
  result.headers.set("accept", "application/json");
  result.upstream = [make = params.shard, name](const std::string& url) { return make(name, url); };
  return result;
}

}  // namespace

ShardFeed::ShardFeed(FeedCore& core, ShardId id, std::string name)
    : core_(core),
      id_(id),
      client_(core.loop(), client_params(core.params(), name), [this] { on_health(); }),
      sinks_{Sink(*this, Resource::kWorkspaces), Sink(*this, Resource::kLogicalClusters),
             Sink(*this, Resource::kExports), Sink(*this, Resource::kBindings)},
      type_sinks_{TypeSink(*this, 0), TypeSink(*this, 1)} {
  for (std::size_t i = 0; i < kResources; ++i) {
    shards::InformerParams params;
    params.target = target_of(static_cast<Resource>(i), {});
    params.seed = core.params().seed + (static_cast<std::uint64_t>(id) << 8U) + i;
    informers_[i] = std::make_unique<shards::Informer>(core.loop(), std::move(params),
                                                       core.params().shard_headers, sinks_[i]);
    informers_[i]->tell_answers([this, reader = client_.name() + "/" + std::to_string(i)](
                                    std::string_view target, int code, std::string_view body) {
      core_.refusals().heard(reader, client_.name(), target, code, body);
    });
  }
  for (std::size_t i = 0; core.params().authentication && i < kTypeParts; ++i) {
    shards::InformerParams params;
    params.target = type_target(i, {});
    params.seed = core.params().seed + (static_cast<std::uint64_t>(id) << 8U) + kResources + i;
    type_informers_[i] = std::make_unique<shards::Informer>(
        core.loop(), std::move(params), core.params().shard_headers, type_sinks_[i]);
  }
  if (core.params().cached_slices) {
    shards::InformerParams params;
    params.target = everywhere("cache.kcp.io/v1alpha1/clustercachedresourceendpointslices");
    params.seed =
        core.params().seed + (static_cast<std::uint64_t>(id) << 8U) + kResources + kTypeParts;
    slice_informer_ = std::make_unique<shards::Informer>(core.loop(), std::move(params),
                                                         core.params().shard_headers, slice_sink_);
  }
}

ShardFeed::~ShardFeed() = default;

void ShardFeed::set_workspace_identity(const std::string& hash) {
  if (hash != workspace_identity_) {
    workspace_identity_ = hash;
    const bool waits = workspaces_wait_;
    informers_[0]->set_target(target_of(Resource::kWorkspaces, hash));
    for (std::size_t i = 0; i < kTypeParts; ++i) {
      if (type_informers_[i] != nullptr) {
        type_informers_[i]->set_target(type_target(i, hash));
      }
    }
    if (waits) {
      start_workspaces();
    }
  }
}

void ShardFeed::set_urls(const ShardSpec& spec) {
  const Expected<bool> ok = client_.set_urls(spec.base_url, spec.replica_urls);
  if (!ok) {
    log_warn("shard cannot be reached",
             {{"shard", client_.name()}, {"errc", ok.error().to_string()}});
  } else if (!*ok) {
    return;  // another process of the shard goes on with what is read
  }
  for (std::size_t i = 0; i < kResources; ++i) {
    if (informers_[i]->machine().synced()) {
      report_synced(static_cast<Resource>(i), false);
    }
    if (ok && i == 0) {
      start_workspaces();
    } else if (ok) {
      informers_[i]->set_upstream(*client_.upstream());
      informers_[i]->start(*client_.upstream());
    } else {
      informers_[i]->stop();
    }
  }
  for (auto& informer : type_informers_) {
    if (!ok && informer != nullptr) {
      informer->stop();
    }
  }
  if (slice_informer_ != nullptr && ok) {
    slice_informer_->set_upstream(*client_.upstream());
    slice_informer_->start(*client_.upstream());
  } else if (slice_informer_ != nullptr) {
    slice_informer_->stop();
  }
}

void ShardFeed::set_plain_url(const std::string& url) {
  is_plain_ = true;
  if (const auto ok = client_.move_to(url); !ok) {
    log_warn("shard cannot be reached",
             {{"shard", client_.name()}, {"errc", ok.error().to_string()}});
  }
}

void ShardFeed::start_workspaces() {
  workspaces_wait_ = workspace_identity_.empty();
  if (!workspaces_wait_) {
    informers_[0]->set_upstream(*client_.upstream());
    informers_[0]->start(*client_.upstream());
    start_types();
  } else if (!core_.params().has_root &&
             core_.index().set_synced(id_, Resource::kWorkspaces, true)) {
    core_.touched();
    report_synced(Resource::kWorkspaces, true);
    for (std::size_t i = 0; core_.params().authentication && i < kTypeParts; ++i) {
      type_synced(i);  // there is nothing to wait for
    }
  }
}

void ShardFeed::start_types() {
  for (auto& informer : type_informers_) {
    if (informer != nullptr) {
      informer->set_upstream(*client_.upstream());
      informer->start(*client_.upstream());
    }
  }
}

void ShardFeed::stop() {
  for (auto& informer : informers_) {
    informer->stop();
  }
  for (auto& informer : type_informers_) {
    if (informer != nullptr) {
      informer->stop();
    }
  }
  if (slice_informer_ != nullptr) {
    slice_informer_->stop();
  }
}

void ShardFeed::on_health() {
  if (core_.index().set_health(id_, client_.up(), client_.cause())) {
    core_.touched();
    for (FeedListener* listener : core_.listeners()) {
      listener->on_change(ShardChanged{*core_.index().now().shard(id_), false});
    }
  }
  if (client_.up() && !is_plain_) {
    for (auto& informer : informers_) {
      informer->kick();
    }
    for (auto& informer : type_informers_) {
      if (informer != nullptr) {
        informer->kick();
      }
    }
    if (slice_informer_ != nullptr) {
      slice_informer_->kick();
    }
  }
}

void ShardFeed::report_synced(Resource resource, bool synced) {
  for (FeedListener* listener : core_.listeners()) {
    listener->on_change(SyncedChanged{id_, resource, synced});
  }
}

void ShardFeed::report(Resource resource, const shards::ObjectKey& key, const krm::Json* object) {
  const ObjectChanged change{id_, key.cluster, key.name, object};
  for (FeedListener* listener : core_.listeners()) {
    switch (resource) {
      case Resource::kWorkspaces:
        listener->on_change(WorkspaceChanged{change});
        break;
      case Resource::kLogicalClusters:
        listener->on_change(LogicalClusterChanged{change});
        break;
      case Resource::kExports:
        listener->on_change(ExportChanged{change});
        break;
      case Resource::kBindings:
        listener->on_change(BindingChanged{change});
        break;
    }
  }
}

void ShardFeed::report_consumers(const ConsumerChanges& changes) {
  for (const ConsumerChange& change : changes) {
    for (FeedListener* listener : core_.listeners()) {
      listener->on_change(ConsumersChanged{change});
    }
  }
}

void ShardFeed::Sink::on_upsert(const shards::ObjectKey& key, const krm::Json& object) {
  Index& index = owner_.core_.index();
  ConsumerChanges consumers;
  bool changed = false;
  if (resource_ == Resource::kWorkspaces) {
    changed = index.upsert_workspace(owner_.id_, workspace_from_json(key.cluster, object));
  } else if (resource_ == Resource::kLogicalClusters) {
    changed = index.upsert_cluster(owner_.id_, cluster_from_json(key.cluster, object));
  } else if (resource_ == Resource::kExports) {
    changed = index.upsert_export(owner_.id_, export_from_json(key.cluster, object));
  } else if (resource_ == Resource::kBindings) {
    changed = index.upsert_binding(owner_.id_, binding_from_json(key.cluster, object), consumers);
  }
  if (changed) {
    owner_.core_.touched();
  }
  owner_.report(resource_, key, &object);
  owner_.report_consumers(consumers);
}

void ShardFeed::Sink::on_delete(const shards::ObjectKey& key) {
  Index& index = owner_.core_.index();
  ConsumerChanges consumers;
  bool changed = false;
  if (resource_ == Resource::kWorkspaces) {
    changed = index.delete_workspace(owner_.id_, key.cluster, key.name);
  } else if (resource_ == Resource::kLogicalClusters) {
    changed = index.delete_cluster(owner_.id_, key.cluster);
  } else if (resource_ == Resource::kExports) {
    changed = index.delete_export(owner_.id_, key.cluster, key.name);
  } else if (resource_ == Resource::kBindings) {
    changed = index.delete_binding(owner_.id_, key.cluster, key.name, consumers);
  }
  if (changed) {
    owner_.core_.touched();
  }
  owner_.report(resource_, key, nullptr);
  owner_.report_consumers(consumers);
}

void ShardFeed::Sink::on_synced() {
  if (owner_.core_.index().set_synced(owner_.id_, resource_, true)) {
    owner_.core_.touched();
    owner_.report_synced(resource_, true);
  }
}

void ShardFeed::Sink::on_refused(int status) {
  if (status == 403 || status == 404) {
    owner_.core_.refused();
  }
}

void ShardFeed::report_type(std::size_t part, const shards::ObjectKey& key,
                            const krm::Json* object) {
  const ObjectChanged change{id_, key.cluster, key.name, object};
  for (FeedListener* listener : core_.listeners()) {
    if (part == 0) {
      listener->on_change(WorkspaceTypeChanged{change});
    } else {
      listener->on_change(WorkspaceAuthenticationChanged{change});
    }
  }
}

void ShardFeed::type_synced(std::size_t part) {
  const bool first = !types_synced_[0] || !types_synced_[1];
  types_synced_[part] = true;
  if (first && types_synced_[0] && types_synced_[1]) {
    for (FeedListener* listener : core_.listeners()) {
      listener->on_change(AuthenticationSynced{id_});
    }
  }
}

void ShardFeed::TypeSink::on_upsert(const shards::ObjectKey& key, const krm::Json& object) {
  owner_.report_type(part_, key, &object);
}
void ShardFeed::TypeSink::on_delete(const shards::ObjectKey& key) {
  owner_.report_type(part_, key, nullptr);
}
void ShardFeed::TypeSink::on_synced() { owner_.type_synced(part_); }
/// Older shards know the types and not their authentication: they have none.
void ShardFeed::TypeSink::on_refused(int status) {
  if (status == 404 && part_ == 1 && owner_.types_synced_[0]) {
    owner_.type_synced(part_);
  }
}

void ShardFeed::report_slice(const shards::ObjectKey& key, const krm::Json* object) {
  const ObjectChanged change{id_, key.cluster, key.name, object};
  for (FeedListener* listener : core_.listeners()) {
    listener->on_change(CachedSliceChanged{change});
  }
}

void ShardFeed::SliceSink::on_upsert(const shards::ObjectKey& key, const krm::Json& object) {
  owner_.report_slice(key, &object);
}
void ShardFeed::SliceSink::on_delete(const shards::ObjectKey& key) {
  owner_.report_slice(key, nullptr);
}
void ShardFeed::SliceSink::on_synced() {
  for (FeedListener* listener : owner_.core_.listeners()) {
    listener->on_change(CachedSlicesSynced{owner_.id_});
  }
}

Feed::ShardStatus ShardFeed::status() const {
  Feed::ShardStatus result;
  result.name = client_.name();
  result.base_url = client_.base_url();
  result.cause = client_.cause();
  result.up = client_.up();
  result.failed_at = client_.failed_at();
  result.answered_at = client_.answered_at();
  result.certificate_end = client_.certificate_end();
  result.probe_status = client_.probe_status();
  for (std::size_t i = 0; i < kResources; ++i) {
    const shards::InformerFsm& machine = informers_[i]->machine();
    const auto& counters = machine.counters();
    result.resources[i] = {machine.synced(),   machine.keys().size(), counters.events,
                           counters.lists,     counters.failures,     counters.last_status,
                           counters.last_cause};
  }
  const ShardInfo* info = core_.index().now().shard(id_);
  for (std::size_t i = 0; i < (is_plain_ ? kResources : 1); ++i) {
    result.resources[i].synced = info != nullptr && info->is_synced(static_cast<Resource>(i));
  }
  return result;
}

}  // namespace kintsugi::topology
