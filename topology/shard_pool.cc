#include "topology/shard_pool.h"

#include <utility>

#include "base/log.h"

namespace kintsugi::topology {
namespace {

constexpr std::size_t kMostHosts = 256;

}  // namespace

ShardPool::ShardPool(net::Loop& loop, std::shared_ptr<topology::SnapshotView> view,
                     MakeUpstream make_upstream, AsCaller as_caller)
    : loop_(loop),
      make_upstream_(std::move(make_upstream)),
      as_caller_(std::move(as_caller)),
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
      client = make_client(info->spec.name);
    }
    const bool anew = std::exchange(entry.access, info->spec.access) != info->spec.access;
    if (info->usable) {
      point(*client, info->spec.base_url, info->spec.replica_urls, anew);
    }
    const std::string& services = info->spec.virtual_workspace_url;
    entry.apart = services != info->spec.base_url;
    if (entry.apart) {
      if (!entry.services) {
        entry.services = make_client(info->spec.name);
      }
      point(*entry.services, services);
    }
    if (info->up != entry.up) {
      entry.up = info->up;
      client->on_verdict(info->up, info->cause);
    }
  }
}

void ShardPool::point(shards::ShardClient& client, const std::string& url,
                      const std::vector<std::string>& others, bool anew) {
  if (client.base_url() == url && client.other_urls() == others && !anew) {
    return;
  }
  if (anew) {
    static_cast<void>(client.move_to(url));
  }
  Expected<bool> moved = client.set_urls(url, others);
  if (!moved) {
    log_warn("shard cannot be reached",
             {{"shard", client.name()}, {"error", moved.error().to_string()}});
  }
  if (moved_ && (anew || !moved || *moved)) {
    moved_(client);
  }
}

std::unique_ptr<shards::ShardClient> ShardPool::make_client(const std::string& shard) {
  shards::ShardClientParams params;
  params.name = shard;
  params.upstream = [this, shard](const std::string& url) { return make_upstream_(shard, url); };
  params.probe = false;
  shards::for_nobody(params.headers);
  if (as_caller_) {
    params.as_caller = [this, shard](http::HeaderList& headers) { as_caller_(shard, headers); };
  }
  return std::make_unique<shards::ShardClient>(loop_, std::move(params));
}

shards::ShardClient* ShardPool::find(topology::ShardId id) noexcept {
  const auto found = clients_.find(id);
  if (found == clients_.end() || found->second.client->upstream() == nullptr) {
    return nullptr;
  }
  return found->second.client.get();
}

shards::ShardClient* ShardPool::find_virtual(topology::ShardId id) noexcept {
  const auto found = clients_.find(id);
  if (found == clients_.end() || !found->second.apart) {
    return find(id);
  }
  shards::ShardClient* client = found->second.services.get();
  return client->upstream() != nullptr ? client : nullptr;
}

shards::ShardClient* ShardPool::find_host(const std::string& origin) {
  auto found = hosts_.find(origin);
  if (found == hosts_.end()) {
    if (hosts_.size() >= kMostHosts) {
      return nullptr;
    }
    found = hosts_.emplace(origin, make_client(origin)).first;
    point(*found->second, origin);
  }
  return found->second->upstream() != nullptr ? found->second.get() : nullptr;
}

shards::ShardClient* ShardPool::find_backend(const std::string& name, const std::string& url) {
  auto found = backends_.find(name);
  if (found == backends_.end()) {
    found = backends_.emplace(name, make_client(name)).first;
  }
  point(*found->second, url);
  return found->second->upstream() != nullptr ? found->second.get() : nullptr;
}

void ShardPool::set_tls(
    const std::function<std::shared_ptr<net::TlsContext>(const std::string&)>& of) {
  for (const auto& [id, entry] : clients_) {
    const std::shared_ptr<net::TlsContext> tls = of(entry.client->name());
    if (tls == nullptr) {
      continue;
    }
    entry.client->set_tls(tls);
    if (entry.services) {
      entry.services->set_tls(tls);
    }
  }
  for (const auto* others : {&hosts_, &backends_}) {
    for (const auto& [name, client] : *others) {
      if (const std::shared_ptr<net::TlsContext> tls = of(name)) {
        client->set_tls(tls);
      }
    }
  }
}

void ShardPool::for_each(
    const std::function<void(topology::ShardId, shards::ShardClient&)>& visit) {
  for (const auto& [id, entry] : clients_) {
    visit(id, *entry.client);
  }
}

}  // namespace kintsugi::topology
