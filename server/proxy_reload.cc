// what the proxy reads again while it runs.
#include <algorithm>
#include <utility>

#include "base/log.h"
#include "net/service_notices.h"
#include "server/files.h"
#include "server/internal/certificate_files.h"
#include "server/proxy_control.h"

namespace kintsugi::server {

void ProxyControl::follow_files() {
  std::vector<std::string> paths;
  for (FollowedFile& file : followed_files(config_path_, config_)) {
    paths.push_back(std::move(file.path));
  }
  watch_->set_files(paths);
}

struct ProxyControl::Candidate {
  LoadedProxyConfig config;
  ProxyFiles files;
  TopologyFiles topology;
};

/// Everything is loaded and checked before anything is taken.
Expected<std::shared_ptr<ProxyControl::Candidate>> ProxyControl::load_candidate() {
  auto loaded_config = reload_();
  if (!loaded_config) {
    return fail(std::move(loaded_config.error()));
  }
  auto candidate = std::make_shared<Candidate>();
  candidate->config = std::move(*loaded_config);
  const proxy::ProxyConfig& next = candidate->config.config;
  const std::string& source = next.topology.source;
  if (source != config_.topology.source &&
      (next.has_plain_servers() || config_.has_plain_servers())) {
    return fail(Errc::kConfig, config_path_ + ": topology.source: needs a restart to change");
  }
  auto files = load_proxy_files(next);
  if (!files) {
    return fail(std::move(files.error()));
  }
  candidate->files = std::move(*files);
  if (feed_ != nullptr) {
    auto loaded = load_topology_files(next);
    if (!loaded) {
      return fail(std::move(loaded.error()));
    }
    candidate->topology = std::move(*loaded);
  }
  return candidate;
}

Expected<void> ProxyControl::take(Candidate& candidate) {
  ProxyFiles* const files = &candidate.files;
  TopologyFiles& topology = candidate.topology;
  keep_fleet(*files);
  if (auto taken = etcd_ != nullptr ? etcd_->reload_tls() : Expected<void>(); !taken) {
    return taken;
  }
  if (auto taken = verifier_->reload(files->client_ca); !taken) {
    return taken;
  }
  if (keeps_nothing_) {
    candidate.config.config.topology.groups = config_.topology.groups;
  }
  std::vector<std::string> stuck = apply_config(config_, std::move(candidate.config.config));
  config_text_ = std::move(candidate.config.text);
  if (admin_ != nullptr) {
    admin_->set_config_text(config_text_);
  }
  if (feed_ != nullptr) {
    if (topology.root_server != root_server_) {
      stuck.emplace_back("the server of topology.root_kubeconfig");
    }
    std::vector<std::string> peers;
    std::vector<std::shared_ptr<net::TlsContext>> peer_tls;
    for (PeerAccess& peer : topology.peers) {
      peers.push_back(std::move(peer.server));
      peer_tls.push_back(std::move(peer.tls));
    }
    if (peers != peer_servers_) {
      stuck.emplace_back("the servers of topology.peer_kubeconfigs");
    } else {
      feed_->set_peer_tls(peer_tls);
    }
    if (fleet_ != nullptr) {
      reload_fleet(topology, stuck);
    }
    admin_tls_ = topology.shards;
    root_tls_ = topology.root;
    feed_->set_tls(topology.root, topology.shards.common);
    for (const auto& [shard, tls] : topology.shards.own) {
      feed_->set_shard_tls(shard, tls);
    }
  }
  topology_files_.reset();  // there may be others, too
  backend_tls_ = files->backend;
  routes_ = files->routes;
  certificates_ = certificate_ends(config_, routes_.get());
  net::use_ticket_keys(*files->serving, ticket_keys_);
  for (const auto& one : admin_listeners_) {
    if (one->port() != 0) {  // not the Unix socket
      one->set_tls(files->serving);
    }
  }
  for (const auto& one : loops_) {
    one->set_serving_tls(files->serving);
    one->set_shard_tls(files->backend, topology.shards, topology.reviewed);
    one->set_plain_servers(files->backend, tokens_of(files->shards));
    one->set_routes(files->routes, config_.clusters);
    one->set_token_files(config_.authentication, files->tokens);
    one->set_limits(config_.limits);
  }
  shared_->limits->requests().set(config_.request_limits);
  shared_->limits->bounds().set(config_.payer_bounds().rules());
  shared_->limits->connections()->set(config_.open_limits.of_connections());
  take_audit_policy(std::move(files->audit_policy));
  if (slots_ != nullptr) {
    slots_->seal_with(std::move(files->seal_keys));
    slots_->set_keys(std::move(files->token_keys));
  }
  static_shards_ = std::move(files->shards);
  if (feed_ != nullptr && config_.topology.source == "static") {
    for (const StaticAccess& shard : static_shards_) {
      feed_->set_shard_tls(shard.spec.name, backend_tls_.of(shard.spec.name));
    }
    if (slots_ != nullptr) {
      slots_->fix(config_.topology.generation, static_uids());
    }
    feed_->put_static(static_specs());
  }
  if (judge_ != nullptr) {
    judge_->use(backend_pairs());
  }
  watch_->set_poll(config_.reload.poll);
  for (const std::string& key : stuck) {
    log_warn("needs a restart to change", {{"file", config_path_}, {"key", key}});
  }
  return {};
}

void ProxyControl::reload(const std::vector<std::string>& changed) {
  if (plugins_ == nullptr) {
    reload_now(changed);
    return;
  }
  plugins_->prepare(kubeconfigs_of(config_), [this, changed] { reload_now(changed); });
}

void ProxyControl::reload_now(const std::vector<std::string>& changed) {
  if (stopping_) {
    return;
  }
  // Old names: a new configuration may drop one that has changed.
  const std::vector<FollowedFile> followed = followed_files(config_path_, config_);
  auto candidate = load_candidate();
  if (!candidate || judge_ == nullptr) {
    reloaded(changed, followed,
             candidate ? take(**candidate) : Expected<void>(fail(candidate.error().clone())));
    return;
  }
  reloading_.insert(reloading_.end(), changed.begin(), changed.end());
  // What callers would be at the servers is known before the pairs are used.
  judge_->judge(
      {(*candidate)->files.backend, (*candidate)->files.shards, (*candidate)->files.routes},
      (*candidate)->config.config.mapping_file,
      [this, candidate = *candidate, followed](const Expected<void>& verdict) {
        if (!stopping_) {
          reloaded(std::exchange(reloading_, {}), followed,
                   verdict ? take(*candidate) : Expected<void>(fail(verdict.error().clone())));
        }
      });
}

void ProxyControl::reloaded(const std::vector<std::string>& changed,
                            const std::vector<FollowedFile>& followed,
                            const Expected<void>& result) {
  if (ready_.load(std::memory_order_relaxed)) {
    net::service_notices().ready(result ? "ready" : "ready; the last reload failed");
  }
  const auto count = [&](const std::string& key) {
    auto row = std::find_if(reloads_.begin(), reloads_.end(),
                            [&](const proxy::ReloadCount& one) { return one.key == key; });
    if (row == reloads_.end()) {
      row = reloads_.insert(row, {key, 0, 0});
    }
    ++(result ? row->taken : row->refused);
  };
  std::string names;
  for (const std::string& path : changed) {
    names.append(names.empty() ? "" : ", ").append(path);
    const auto file = std::find_if(followed.begin(), followed.end(),
                                   [&](const FollowedFile& one) { return one.path == path; });
    if (file != followed.end()) {
      count(file->key);
    }
  }
  if (changed.empty()) {
    count("all");  // asked for by SIGHUP
  }
  if (!result) {
    log_error("reload failed, what was loaded before stays",
              {{"changed", names}, {"error", result.error().to_string()}});
    return;
  }
  log_info("files reloaded", {{"changed", names}});
  follow_files();
}

}  // namespace kintsugi::server
