#include "server/internal/backend_judge.h"

#include <utility>

#include "base/log.h"

namespace kintsugi::server {
namespace {

const std::string kMapping;  // the key of its check

}  // namespace

std::vector<proxy::BackendTarget> mapping_targets(const BackendPairs& pairs,
                                                  const std::string& file) {
  std::vector<proxy::BackendTarget> targets;
  std::set<std::string> seen;
  if (pairs.routes == nullptr) {
    return targets;
  }
  for (const proxy::MappingEntry& entry : pairs.routes->entries()) {
    const auto tls = pairs.tls.own.find(entry.name());
    if (entry.is_clusters() || entry.cert_file.empty() || tls == pairs.tls.own.end()) {
      continue;
    }
    auto server = upstream_to(entry.backend, tls->second);
    if (!server || !seen.insert(server->url.authority() + server->url.path + '\n' +
                                entry.cert_file + '\n' + entry.identity.user_headers.front())
                        .second) {
      continue;
    }
    targets.push_back({file + ":" + std::to_string(entry.line) + ": the backend of " + entry.path,
                       std::move(*server), entry.identity});
  }
  return targets;
}

std::optional<proxy::BackendTarget> shard_target(const BackendPairs& pairs,
                                                 const topology::ShardSpec& shard) {
  if (shard.impersonate || !shard.base_url.starts_with("https://")) {
    return std::nullopt;
  }
  auto server = upstream_to(shard.base_url, pairs.tls.of(shard.name));
  if (!server) {
    return std::nullopt;
  }
  return proxy::BackendTarget{"shard " + shard.name, std::move(*server), {}};
}

std::vector<proxy::BackendTarget> shard_targets(const BackendPairs& pairs,
                                                const topology::ShardSpec& shard) {
  std::vector<proxy::BackendTarget> targets;
  if (auto target = shard_target(pairs, shard)) {
    targets.push_back(std::move(*target));
    topology::ShardSpec services = shard;
    services.base_url = shard.virtual_workspace_url;
    auto apart = shard_target(pairs, services);
    if (apart && apart->server.url.authority() != targets.front().server.url.authority()) {
      apart->what = "virtual workspaces of " + apart->what;
      apart->server.url.path.clear();
      targets.push_back(std::move(*apart));
    }
    for (const std::string& url : shard.replica_urls) {
      topology::ShardSpec replica = shard;
      replica.base_url = url;
      if (auto other = shard_target(pairs, replica)) {
        other->what += " at " + url;
        targets.push_back(std::move(*other));
      }
    }
  }
  return targets;
}

BackendJudge::BackendJudge(net::Loop& loop, std::shared_ptr<proxy::BackendTrust> trust,
                           std::function<void(std::string)> fault,
                           std::function<void(const std::string&)> blocked)
    : loop_(loop),
      trust_(std::move(trust)),
      fault_(std::move(fault)),
      blocked_(std::move(blocked)) {}

BackendJudge::~BackendJudge() { stop(); }

void BackendJudge::stop() noexcept {
  asked_.reset();
  checks_.clear();
  if (feed_ != nullptr) {
    feed_->remove_listener(*this);
    feed_ = nullptr;
  }
}

void BackendJudge::start(topology::Feed& feed, BackendPairs pairs,
                         const std::string& mapping_file) {
  feed_ = &feed;
  pairs_ = std::move(pairs);
  first_.insert(kMapping);
  checks_[kMapping] = std::make_unique<proxy::BackendCheck>(
      loop_, mapping_targets(pairs_, mapping_file),
      proxy::BackendCheck::Hooks{[this](const Expected<void>& verdict) { told(kMapping, verdict); },
                                 [this] { first_tried(kMapping); }});
  feed.add_listener(*this);
}

void BackendJudge::on_change(const topology::ShardChanged& change) {
  const std::string name = change.shard.spec.name;
  if (change.removed) {
    urls_.erase(name);
    checks_.erase(name);
    trust_->set_blocked(name, false);
    first_tried(name);
    return;
  }
  watch(change.shard.spec);
}

void BackendJudge::watch(const topology::ShardSpec& shard) {
  std::string& urls = urls_[shard.name];
  std::string now = shard.base_url + ' ' + shard.virtual_workspace_url;
  for (const std::string& url : shard.replica_urls) {
    now.append(" ").append(url);
  }
  if (now == urls) {
    return;
  }
  urls = std::move(now);
  std::vector<proxy::BackendTarget> targets = shard_targets(pairs_, shard);
  if (targets.empty()) {
    checks_.erase(shard.name);
    return;
  }
  if (!trust_->is_open()) {
    first_.insert(shard.name);
  }
  checks_[shard.name] = std::make_unique<proxy::BackendCheck>(
      loop_, std::move(targets),
      proxy::BackendCheck::Hooks{
          [this, name = shard.name](const Expected<void>& verdict) { told(name, verdict); },
          [this, name = shard.name] { first_tried(name); }});
}

void BackendJudge::shards_listed() {
  listed_ = true;
  open_if_tried();
}

void BackendJudge::open_if_tried() {
  if (listed_ && first_.empty()) {
    trust_->open();
  }
}

void BackendJudge::first_tried(const std::string& name) {
  first_.erase(name);
  open_if_tried();
}

void BackendJudge::told(const std::string& name, const Expected<void>& verdict) {
  if (verdict) {
    trust_->set_blocked(name, false);
    first_tried(name);
    return;
  }
  const std::string text(verdict.error().message());
  if (!trust_->is_open()) {
    if (fault_) {
      std::exchange(fault_, nullptr)(text);
    }
    return;
  }
  trust_->set_blocked(name, true);
  blocked_(name);
  log_error("a server is not used", {{"error", text}});
}

void BackendJudge::judge(BackendPairs pairs, const std::string& mapping_file,
                         std::function<void(Expected<void>)> done) {
  std::vector<proxy::BackendTarget> targets = mapping_targets(pairs, mapping_file);
  const auto add = [&](const topology::ShardSpec& shard) {
    for (proxy::BackendTarget& target : shard_targets(pairs, shard)) {
      targets.push_back(std::move(target));
    }
  };
  if (!pairs.shards.empty()) {
    for (const StaticAccess& shard : pairs.shards) {
      add(shard.spec);
    }
  } else if (feed_ != nullptr) {
    for (const auto& shard : feed_->index().shards()) {
      add(shard->spec);
    }
  }
  auto once = std::make_shared<std::function<void(Expected<void>)>>(std::move(done));
  const auto tell = [once](Expected<void> verdict) {
    if (auto call = std::exchange(*once, nullptr)) {
      call(std::move(verdict));
    }
  };
  asked_ = std::make_unique<proxy::BackendCheck>(
      loop_, std::move(targets),
      proxy::BackendCheck::Hooks{[tell](Expected<void> verdict) { tell(std::move(verdict)); },
                                 [tell] { tell({}); }});
}

void BackendJudge::use(BackendPairs pairs) {
  pairs_ = std::move(pairs);
  urls_.clear();
  checks_.clear();
  if (feed_ != nullptr) {
    for (const auto& shard : feed_->index().shards()) {
      watch(shard->spec);
    }
  }
}

}  // namespace kintsugi::server
