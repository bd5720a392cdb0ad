#include "controlplane/clusters/peer_shards.h"

#include <algorithm>
#include <utility>

namespace kintsugi::controlplane {

PeerShards::PeerShards(net::Loop& loop, const RootView& root, std::shared_ptr<net::TlsContext> tls)
    : loop_(loop), root_(root), tls_(std::move(tls)) {}

PeerShards::~PeerShards() { calls_.clear(); }

void PeerShards::later(std::function<void()> function) {
  loop_.post([alive = alive_.weak(), function = std::move(function)] {
    if (alive) {
      function();
    }
  });
}

/// Connections to addresses that no Shard has any more go away.
void PeerShards::forget_unused() {
  if (upstreams_.size() <= root_.shards().size()) {
    return;
  }
  for (auto entry = upstreams_.begin(); entry != upstreams_.end();) {
    const auto uses = [&](const auto& shard) { return shard.second.base_url == entry->first; };
    if (std::any_of(root_.shards().begin(), root_.shards().end(), uses)) {
      ++entry;
      continue;
    }
    std::shared_ptr<net::Upstream> unused = std::move(entry->second);
    loop_.defer([unused] { (void)unused; });
    entry = upstreams_.erase(entry);
  }
}

std::vector<std::string> PeerShards::others(const std::string& own) const {
  std::vector<std::string> names;
  for (const auto& [name, shard] : root_.shards()) {
    if (name != own) {
      names.push_back(name);
    }
  }
  return names;
}

void PeerShards::send(const std::string& shard, net::FetchRequest request, Answered done) {
  const ShardRecord* record = root_.shard(shard);
  if (record == nullptr) {
    later([done = std::move(done), shard] {
      done(fail(Errc::kUnavailable, "shard " + shard + " is not known"));
    });
    return;
  }
  forget_unused();
  std::unique_ptr<net::Upstream>& upstream = upstreams_[record->base_url];
  if (upstream == nullptr) {
    Expected<net::Url> url = net::Url::parse(record->base_url);
    if (!url) {
      later([done = std::move(done), text = std::string(url.error().message())] {
        done(fail(Errc::kConfig, text));
      });
      return;
    }
    net::UpstreamParams params;
    params.url = std::move(*url);
    params.tls = tls_;
    params.max_connections = 4;
    upstream = net::Upstream::make(loop_, std::move(params));
  }
  const std::uint64_t id = ++next_call_;
  calls_[id] = net::fetch(loop_, *upstream, std::move(request),
                          [this, id, done = std::move(done)](Expected<net::FetchResponse> answer) {
                            // The call goes after its own callback.
                            const auto found = calls_.find(id);
                            std::shared_ptr<net::Call> call = std::move(found->second);
                            calls_.erase(found);
                            loop_.defer([call] { (void)call; });
                            done(std::move(answer));
                          });
}

}  // namespace kintsugi::controlplane
