#include "topology/internal/shard_source.h"

#include <utility>

#include "base/log.h"
#include "krm/path_prefixes.h"
#include "shards/own_requests.h"

namespace kintsugi::topology {
namespace {

constexpr Duration kProbeTimeout = seconds(5);
const std::string kRootPath =
    std::string(krm::kRootClusterPath) + "/apis/core.kcp.io/v1alpha1/shards";
const std::string kPeerPath =
    std::string(krm::kServicesPrefix) + "admin/apis/core.kcp.io/v1alpha1/shards";

shards::InformerParams informer_params(const std::string& target, std::uint64_t seed) {
  shards::InformerParams params;
  params.target = target;
  params.default_cluster = "root";
  params.seed = seed;
  return params;
}

/// Shards, or that a revision or a kind of request is not to be had.
bool is_shown(int status) {
  return status != 0 && status < 500 && status != 401 && status != 403 && status != 404;
}

}  // namespace

ShardSource::ShardSource(net::Loop& loop, Params params, shards::InformerSink& sink)
    : loop_(loop),
      params_(std::move(params)),
      informer_(loop, informer_params(params_.peers.empty() ? kRootPath : kPeerPath, params_.seed),
                params_.headers, sink),
      at_root_(params_.peers.empty()),
      limit_(loop),
      look_(loop) {
  if (!at_root_) {
    peers_ = std::make_unique<Peers>(
        loop, Peers::Params{.servers = params_.peers,
                            .pause = params_.pause,
                            .on_answer = [this](int status) { take_answer(status); }});
  }
}

void ShardSource::start() {
  if (peers_ == nullptr) {
    return;
  }
  limit_.start(params_.limit, [this] { use_root(); });
  started_ = true;
  informer_.start(*peers_);
}

void ShardSource::root_serves() {
  serving_ = true;
  if (peers_ == nullptr && !std::exchange(started_, true)) {
    informer_.start(*params_.root);
  } else if (overdue_) {
    use_root();
  }
}

void ShardSource::take_answer(int status) {
  if (at_root_) {
    return;
  }
  const bool shown = is_shown(status);
  if (shown) {
    limit_.cancel();
    overdue_ = false;
  } else if (shown_) {
    limit_.start(params_.limit, [this] { use_root(); });
  }
  shown_ = shown;
}

void ShardSource::use_root() {
  overdue_ = true;
  if (at_root_ || params_.root == nullptr || !serving_) {
    return;
  }
  overdue_ = false;
  at_root_ = true;
  log_warn("no peer shows the Shards, they are read at the root shard",
           {{"error", peers_->last_failure()}});
  informer_.move(*params_.root, kRootPath);
  look_.start(params_.pause, [this] { look_for_peer(); });
}

void ShardSource::look_for_peer() {
  net::FetchRequest request;
  request.target = kPeerPath + "?limit=1";
  request.headers = params_.headers;
  request.timeout = kProbeTimeout;
  probe_ = shards::own_fetch(loop_, *peers_, std::move(request),
                             [this](Expected<net::FetchResponse> answer) {
                               if (answer && is_shown(answer->status)) {
                                 use_peers();
                               } else {
                                 look_.start(params_.pause, [this] { look_for_peer(); });
                               }
                             });
}

void ShardSource::use_peers() {
  at_root_ = false;
  shown_ = false;
  log_info("Shards are read at the peers");
  limit_.start(params_.limit, [this] { use_root(); });
  informer_.move(*peers_, kPeerPath);
}

void ShardSource::set_peer_tls(const std::vector<std::shared_ptr<net::TlsContext>>& tls) {
  if (peers_ != nullptr) {
    peers_->set_tls_of_each(tls);
  }
}

}  // namespace kintsugi::topology
