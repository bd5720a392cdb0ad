#pragma once

#include <functional>
#include <list>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "auth/authenticator.h"
#include "auth/authorizer.h"
#include "base/strings.h"
#include "net/loop.h"
#include "net/upstream.h"

namespace kintsugi::proxy {

/// Where reviews of a logical cluster are asked: the owner shard with the proxy's own (shards
/// kubeconfig) credentials.
struct ReviewTarget {
  net::Upstream* upstream = nullptr;
  std::string base_target;  ///< "/clusters/<name>"
};
/// @error kUnavailable not known yet, or the shard is down.
using FindReviewTarget = std::function<Expected<ReviewTarget>(std::string_view cluster)>;

struct ReviewLimits {
  Duration allow_ttl = seconds(10), deny_ttl = seconds(5);
  std::size_t max_entries = 65'536;
  Duration timeout = seconds(5);
};

/// Authorizes what the proxy serves itself by SubjectAccessReviews at the owner shard (REQUIRED
/// T-14). Answers are cached; equal questions that wait share one request. An answer that cannot be
/// had is kUnavailable with Retry-After, never allowed. Threads: one loop.
class ShardReviews final : public auth::Authorizer {
 public:
  ShardReviews(net::Loop& loop, FindReviewTarget find, ReviewLimits limits = {});
  ~ShardReviews() override;
  void authorize(const auth::Attributes& attributes, Done done) override;
  /// Skips workspace access checks at the shard (bind checks of slices, T-13).
  /// @error kUnavailable as above; kInternal the shard answers, but not with a review.
  void authorize_deep(const auth::Attributes& attributes, Done done);

  struct Stats {
    std::uint64_t allowed = 0, denied = 0, failed = 0, cached = 0;
  };
  [[nodiscard]] const Stats& stats() const noexcept { return stats_; }

 private:
  struct Entry;
  void ask(const auth::Attributes& attributes, bool deep, Done done);
  void finish(const std::string& key, Expected<auth::Decision> decision);
  void evict();

  net::Loop& loop_;
  FindReviewTarget find_;
  ReviewLimits limits_;
  StringMap<std::unique_ptr<Entry>> entries_;
  std::list<std::string> order_;  ///< oldest first, for eviction
  std::vector<std::unique_ptr<net::Call>> graveyard_;
  Stats stats_;
};

/// The identity of requests that the proxy serves itself: the headers that the proxy has stamped;
/// without them a bearer token is shown to the owner shard by TokenReview. Without any credentials:
/// nobody, that is system:anonymous, whose rights are asked about like anybody's (T-14).
class StampedAuthenticator final : public auth::Authenticator {
 public:
  StampedAuthenticator(net::Loop& loop, FindReviewTarget find);
  ~StampedAuthenticator() override;
  void authenticate(const http::RequestHead& head, const auth::BearerPtr& token,
                    const http::PeerInfo& peer, std::string_view cluster, Done done) override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kintsugi::proxy
