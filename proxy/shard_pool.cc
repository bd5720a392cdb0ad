#include "proxy/shard_pool.h"

#include "base/log.h"

namespace kintsugi::proxy {

ShardPool::ShardPool(net::Loop& loop, std::shared_ptr<topology::SnapshotView> view,
                     MakeUpstream make_upstream)
    : loop_(loop),
      make_upstream_(std::move(make_upstream)),
      alive_(std::make_shared<ShardPool*>(this)) {
  view->on_change(
      [alive = alive_](const topology::Snapshot& /*before*/, const topology::Snapshot& now) {
        if (ShardPool* self = *alive) {
          self->follow(now);
        }
      });
  follow(view->current());
}

void ShardPool::follow(const topology::Snapshot& now) {
  std::erase_if(clients_, [&](const auto& entry) { return now.shard(entry.first) == nullptr; });
  for (const auto& info : now.shards()) {
    Entry& entry = clients_[info->id];
    auto& client = entry.client;
    if (!client) {
      shards::ShardClientParams params;
      params.name = info->spec.name;
      params.upstream = [this, name = info->spec.name](const std::string& url) {
        return make_upstream_(name, url);
      };
      params.probe = false;
      client = std::make_unique<shards::ShardClient>(loop_, std::move(params));
    }
    if (client->base_url() != info->spec.base_url && info->usable) {
      if (auto result = client->set_base_url(info->spec.base_url); !result) {
        log_warn("shard cannot be reached",
                 {{"shard", info->spec.name}, {"error", result.error().to_string()}});
      }
    }
    if (info->up != entry.up) {
      entry.up = info->up;
      client->on_verdict(info->up, info->cause);
    }
  }
}

shards::ShardClient* ShardPool::find(topology::ShardId id) noexcept {
  const auto found = clients_.find(id);
  if (found == clients_.end() || found->second.client->upstream() == nullptr) {
    return nullptr;
  }
  return found->second.client.get();
}

void ShardPool::set_tls(const std::shared_ptr<net::TlsContext>& tls) {
  for (const auto& [id, entry] : clients_) {
    entry.client->set_tls(tls);
  }
}

void ShardPool::for_each(
    const std::function<void(topology::ShardId, shards::ShardClient&)>& visit) {
  for (const auto& [id, entry] : clients_) {
    visit(id, *entry.client);
  }
}

}  // namespace kintsugi::proxy
