#include "aggregation/rights/reviewer.h"

#include <utility>

#include "auth/access_review.h"
#include "base/log.h"
#include "shards/own_requests.h"

namespace kintsugi::aggregation {
namespace {

constexpr Duration kTimeout = seconds(5);
constexpr Duration kLinger = seconds(30);  ///< of the grants that nobody holds any more

ReviewBook::Limits limits_of(const MergeParams& params) {
  ReviewBook::Limits limits;
  limits.fresh = params.rights_age;
  limits.recheck = params.rights_recheck;
  limits.grace = params.rights_grace;
  limits.entries = params.rights_entries;
  return limits;
}

}  // namespace

Reviewer::Reviewer(Asking& shared)
    : shared_(shared),
      book_(limits_of(shared.params)),
      due_(shared.loop),
      now_(shared.loop),
      sweep_(shared.loop) {}

ReviewBook::Known Reviewer::follow(const ReviewServer& server, const std::string& body,
                                   ReviewBook::Follower& follower) {
  ReviewBook::Known known = book_.follow(server, body, follower, shared_.loop.now());
  if (known.right != Right::kUnknown) {
    ++shared_.stats.reviews_cached;
  }
  soon();
  return known;
}

void Reviewer::unfollow(ReviewBook::Ticket ticket) noexcept { book_.unfollow(ticket); }

shards::ShardClient* Reviewer::client_of(const ReviewServer& server) const {
  topology::ShardPool* pool = pool_ != nullptr ? pool_ : shared_.own_pool;
  return pool == nullptr ? nullptr : pool->find(server.shard);
}

void Reviewer::hold_grants(const ReviewServer& server) {
  Grants& grants = grants_[server];
  ++grants.holders;
  if (grants.watch == nullptr) {
    grants.watch = std::make_unique<GrantWatch>(
        shared_.loop, [this, server] { return client_of(server); }, server.prefix,
        [this, server] {
          book_.changed(server, shared_.loop.now());
          soon();
        });
  }
}

void Reviewer::release_grants(const ReviewServer& server) noexcept {
  const auto found = grants_.find(server);
  if (found == grants_.end() || --found->second.holders > 0) {
    return;
  }
  found->second.idle_since = shared_.loop.now();
  sweep();
}

void Reviewer::sweep() {
  if (std::exchange(sweeps_, true)) {
    return;
  }
  sweep_.start(kLinger, [this] {
    sweeps_ = false;
    bool idle = false;
    const TimePoint old = shared_.loop.now() - kLinger;
    std::erase_if(grants_, [&](const auto& one) {
      const Grants& grants = one.second;
      idle = idle || (grants.holders == 0 && grants.idle_since > old);
      return grants.holders == 0 && grants.idle_since <= old;
    });
    if (idle) {
      sweep();
    }
  });
}

void Reviewer::follow_shards() {
  bool moved = false;
  std::map<topology::ShardId, std::string> urls;
  for (const auto& shard : shared_.view->current().shards()) {
    urls[shard->id] = shard->spec.base_url;
    const auto before = urls_.find(shard->id);
    moved = moved || (before != urls_.end() && before->second != shard->spec.base_url);
  }
  urls_ = std::move(urls);
  if (moved) {
    book_.all_changed(shared_.loop.now());
    soon();
  }
}

void Reviewer::soon() {
  if (!std::exchange(pumps_, true)) {
    now_.start(Duration{}, [this] {
      pumps_ = false;
      pump();
    });
  }
}

void Reviewer::pump() {
  book_.tick(shared_.loop.now());
  while (const auto question = book_.next()) {
    send(*question);
  }
  if (const TimePoint due = book_.due(); due == TimePoint::max()) {
    due_.cancel();
  } else {
    due_.start(std::max(due - shared_.loop.now(), Duration{}), [this] { pump(); });
  }
}

void Reviewer::send(const ReviewBook::Question& question) {
  shards::ShardClient* client = client_of(question.server);
  if (client == nullptr || client->upstream() == nullptr || !client->admit()) {
    ++shared_.stats.reviews_failed;
    book_.answer(question.key, std::nullopt, "", shared_.loop.now());
    return;
  }
  net::FetchRequest request = auth::review_request(
      question.server.prefix + std::string(auth::kAccessReviewPath), question.body, kTimeout);
  client->dress(request.headers);
  calls_[question.key] = shards::own_fetch(
      shared_.loop, *client->upstream(), std::move(request),
      [this, key = question.key, server = question.server](Expected<net::FetchResponse> response) {
        take(key, server, std::move(response));
      });
}

void Reviewer::take(const std::string& key, const ReviewServer& server,
                    Expected<net::FetchResponse> response) {
  calls_.erase(key);
  shards::ShardClient* client = client_of(server);
  const bool refused = response && (response->status == 401 || response->status == 403);
  if (client != nullptr && response) {
    client->on_success();
  } else if (client != nullptr) {
    client->on_failure(response.error().code());
  }
  if (client != nullptr && refused) {
    ++shared_.stats.shard_failures[{client->name(), "identity"}];
    if (refused_.insert(server).second) {
      log_warn("a shard does not review for the proxy's own credential",
               {{"shard", client->name()}, {"status", std::to_string(response->status)}});
    }
  }
  const auto decision = auth::read_decision(std::move(response));
  if (decision) {
    refused_.erase(server);
    ++(decision->allowed ? shared_.stats.reviews_allowed : shared_.stats.reviews_denied);
    book_.answer(key, decision->allowed, decision->reason, shared_.loop.now());
  } else {
    ++shared_.stats.reviews_failed;
    book_.answer(key, std::nullopt, "", shared_.loop.now());
  }
  soon();
}

}  // namespace kintsugi::aggregation
