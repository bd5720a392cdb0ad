#pragma once

#include <functional>
#include <list>
#include <memory>
#include <string>

#include "auth/service_account_tokens.h"
#include "base/strings.h"
#include "net/loop.h"
#include "net/upstream.h"
#include "proxy/shard_reviews.h"

namespace kintsugi::proxy {

/// Whether a ServiceAccount and what its token is bound to still exist, asked at the owner shard of
/// the token's logical cluster. That they do is believed for 10 s; that they do not is not
/// remembered. Equal questions that wait share one answer. Threads: one loop.
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

  /// For auth::ServiceAccountAuthenticator::Params::check; must outlive what it is given to.
  /// @error kUnauthorized gone, or another one of that name; kUnavailable nobody can be asked now.
  void check(const auth::ServiceAccountClaims& claims, std::function<void(Expected<void>)> done);

 private:
  struct Entry;
  void finish(const std::string& key, Expected<void> result);

  net::Loop& loop_;
  FindReviewTarget find_;
  std::function<bool(std::string_view)> is_gone_;
  Limits limits_;
  StringMap<std::unique_ptr<Entry>> entries_;
};

}  // namespace kintsugi::proxy
