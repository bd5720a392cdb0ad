#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "auth/service_account_tokens.h"
#include "base/alive.h"
#include "base/strings.h"
#include "net/loop.h"
#include "net/upstream.h"

namespace kintsugi::controlplane {

/// Whether the account of a ServiceAccount token still exists, and what the token is bound to, at a
/// shard (KK-331): in logical clusters of this shard as they are stored, in others as the shard
/// that has them says. That is asked by TokenReview, so that no shard reads accounts or Secrets of
/// another (KK-315, SE-148), and not with the token: with one that is made for the question, for an
/// audience that no server takes, so that nobody who is asked can use it. That an account exists is
/// believed for 10 s, that none does for 1 s. Equal questions that wait share one answer. Threads:
/// one loop.
class ShardAccounts {
 public:
  using Done = std::function<void(Expected<void>)>;
  using Answered = std::function<void(Expected<net::FetchResponse>)>;
  struct Params {
    auth::AccountCheck here;  ///< looks it up in this shard
    std::function<bool(std::string_view cluster)> is_here;
    std::function<std::vector<std::string>()> others;  ///< shards, by name
    std::function<bool()> knows_all;                   ///< there are no more than those
    /// ServiceAccountTokens::issue with the keys that all shards share.
    std::function<Expected<std::string>(const auth::ServiceAccountClaims& claims)> issue;
    std::function<void(const std::string& shard, net::FetchRequest request, Answered done)> send;
    Duration fresh = seconds(10), stale = seconds(1), timeout = seconds(5);
    std::size_t most_entries = 16'384;
  };
  ShardAccounts(net::Loop& loop, Params params);
  ~ShardAccounts();
  ShardAccounts(const ShardAccounts&) = delete;
  ShardAccounts& operator=(const ShardAccounts&) = delete;
  /// Before what gets the answers goes: who still waits hears nothing any more.
  void stop() noexcept;

  /// An auth::AccountCheck. @error kUnauthorized gone, or another one of that name; kUnavailable
  /// nobody knows it and not every shard can be asked.
  void check(const auth::ServiceAccountClaims& claims, Done done);

 private:
  struct Entry;
  struct Question;
  using QuestionPtr = std::shared_ptr<Question>;

  void ask(const QuestionPtr& question, const std::vector<std::string>& shards);
  void heard(const QuestionPtr& question, const std::string& shard,
             const Expected<net::FetchResponse>& answer);
  void give_up(const QuestionPtr& question);
  void finish(const QuestionPtr& question, const Expected<void>& verdict);

  net::Loop& loop_;
  Params params_;
  StringMap<std::unique_ptr<Entry>> entries_;  // by SHA-256 of what a token says of its account
  StringMap<std::string> homes_;               // logical cluster -> shard that knew an account
  Alive alive_;
};

}  // namespace kintsugi::controlplane
