#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>

#include "aggregation/asking/asking.h"
#include "aggregation/rights/internal/grant_watch.h"
#include "aggregation/rights/internal/review_book.h"
#include "net/loop.h"
#include "net/upstream.h"

namespace kintsugi::aggregation {

/// Sends what a ReviewBook asks to the servers, with the proxy's own credential, and follows roles
/// and bindings where streams depend on them. Threads: its loop.
class Reviewer {
 public:
  /// @param shared must outlive it
  explicit Reviewer(Asking& shared);
  Reviewer(const Reviewer&) = delete;
  Reviewer& operator=(const Reviewer&) = delete;

  /// Connections that reviews and grants are asked by; null: those of reads that were reviewed.
  void use_pool(topology::ShardPool* pool) noexcept { pool_ = pool; }

  /// As ReviewBook; nobody is told before it returns.
  [[nodiscard]] ReviewBook::Known follow(const ReviewServer& server, const std::string& body,
                                         ReviewBook::Follower& follower);
  void unfollow(ReviewBook::Ticket ticket) noexcept;
  /// @{ As long as somebody holds them, changes of grants on the server are noticed.
  void hold_grants(const ReviewServer& server);
  void release_grants(const ReviewServer& server) noexcept;  /// @}
  /// Shards may have changed: one with another URL may be another server, with other rights.
  void follow_shards();

  [[nodiscard]] std::size_t decisions() const noexcept { return book_.entries(); }
  [[nodiscard]] std::size_t grant_watches() const noexcept { return grants_.size(); }

 private:
  struct Grants {
    std::size_t holders = 0;
    TimePoint idle_since{};
    std::unique_ptr<GrantWatch> watch;
  };
  [[nodiscard]] shards::ShardClient* client_of(const ReviewServer& server) const;
  void soon();
  void pump();
  void send(const ReviewBook::Question& question);
  void take(const std::string& key, const ReviewServer& server,
            Expected<net::FetchResponse> response);
  void sweep();

  Asking& shared_;
  topology::ShardPool* pool_ = nullptr;
  ReviewBook book_;
  std::map<std::string, std::unique_ptr<net::Call>> calls_;  // by key
  std::map<ReviewServer, Grants> grants_;
  std::set<ReviewServer> refused_;  // a log line was written
  std::map<topology::ShardId, std::string> urls_;
  net::Timer due_, now_, sweep_;
  bool pumps_ = false, sweeps_ = false;
};

}  // namespace kintsugi::aggregation
