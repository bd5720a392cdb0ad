#pragma once

#include <functional>
#include <memory>
#include <string>

#include "auth/authenticators.h"
#include "base/strings.h"
#include "net/loop.h"
#include "net/upstream.h"
#include "proxy/reviews/shard_reviews.h"

namespace kintsugi::proxy {

/// Whether a ServiceAccount and what its token is bound to still exist, asked by TokenReview at the
/// owner shard of the token's logical cluster (R-18, SE-148): the proxy itself reads neither
/// accounts nor Secrets. That they do is believed for 10 s; that they do not is not remembered.
/// Equal questions that wait share one answer. Threads: one loop.
class AccountCheck {
 public:
  struct Limits {
    Duration fresh = seconds(10), timeout = seconds(5);
    std::size_t max_entries = 65'536;
  };
  /// @param is_gone  a logical cluster that no shard has, for sure.
  AccountCheck(net::Loop& loop, FindReviewTarget find,
               std::function<bool(std::string_view cluster)> is_gone);
  AccountCheck(net::Loop& loop, FindReviewTarget find,
               std::function<bool(std::string_view cluster)> is_gone, Limits limits);
  ~AccountCheck();

  using Result = auth::TokenAuthenticator::Result;
  /// @param account  what the token says, its signature is good
  /// @error kUnauthorized gone, or another one of that name; kUnavailable nobody can be asked now.
  void check(std::string_view token, const Result& account,
             std::function<void(Expected<void>)> done);

 private:
  struct Entry;
  void finish(const std::string& key, Expected<void> result);

  net::Loop& loop_;
  FindReviewTarget find_;
  std::function<bool(std::string_view)> is_gone_;
  Limits limits_;
  StringMap<std::unique_ptr<Entry>> entries_;
};

/// ServiceAccount tokens whose accounts exist.
class CheckedAccounts final : public auth::TokenAuthenticator {
 public:
  /// @param tokens  checks signatures @param check  must outlive this
  CheckedAccounts(std::shared_ptr<auth::TokenAuthenticator> tokens, AccountCheck& check)
      : tokens_(std::move(tokens)), check_(check) {}
  void authenticate_token(const auth::BearerPtr& token, const std::vector<std::string>& audiences,
                          std::string_view cluster, Done done) override;

 private:
  std::shared_ptr<auth::TokenAuthenticator> tokens_;
  AccountCheck& check_;
};

}  // namespace kintsugi::proxy
