#include "server/internal/proxy_replicas.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/log.h"

namespace kintsugi::server {
namespace {

constexpr Duration kSecond = seconds(1);

}  // namespace

ProxyReplicas::ProxyReplicas(Params params)
    : params_(std::move(params)),
      keeper_(params_.loop, params_.store, params_.own, params_.settled),
      open_(params_.loops.size()),
      going_(params_.loops.size()),
      timer_(params_.loop) {
  look();
}

void ProxyReplicas::look() {
  missing_ = params_.loops.size();
  for (std::size_t i = 0; i < params_.loops.size(); ++i) {
    const auto take = [this, owner = alive_.weak(), i](std::size_t open) {
      if (owner) {
        open_[i] = open;
        missing_ -= 1;
        if (missing_ == 0) {
          counted();
        }
      }
    };
    params_.loops[i]->send_watches_away(going_[i], [&loop = params_.loop, take](std::size_t open) {
      loop.post([take, open] { take(open); });
    });
  }
}

void ProxyReplicas::counted() {
  const std::size_t own = std::accumulate(open_.begin(), open_.end(), std::size_t{0});
  keeper_.tell(params_.ready(), own);
  std::vector<std::size_t> others;
  for (const Replica& replica : keeper_.others()) {
    if (replica.ready) {
      others.push_back(replica.watches);
    }
  }
  const bool was_ending = balance_.is_ending();
  std::size_t left = params_.balances ? balance_.step(own, others) : 0;
  log(was_ending, own);
  // The loop with the most first: connections are spread over loops, too.
  std::fill(going_.begin(), going_.end(), std::size_t{0});
  std::vector<std::size_t> open = open_;
  for (; left > 0; --left) {
    const auto most = std::max_element(open.begin(), open.end());
    if (*most == 0) {
      break;
    }
    *most -= 1;
    going_[static_cast<std::size_t>(most - open.begin())] += 1;
  }
  timer_.start(kSecond, [this] { look(); });
}

void ProxyReplicas::log(bool was_ending, std::size_t own) const {
  if (balance_.is_ending() != was_ending) {
    log_info(was_ending ? "watches are spread" : "gives watches to other proxies",
             {{"watches", static_cast<std::int64_t>(own)},
              {"proxies", static_cast<std::int64_t>(keeper_.others().size() + 1)}});
  }
}

}  // namespace kintsugi::server
