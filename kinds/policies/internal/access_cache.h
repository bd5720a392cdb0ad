#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "auth/authorizer.h"
#include "auth/user.h"
#include "cel/access.h"

namespace kintsugi::kinds {

/// Answers of the authorizer for one request's expressions. An answer that takes its time is
/// awaited outside of the evaluation (settled), which is then made again. Threads: one loop.
/// Lifetime: shared by the answers that are on their way.
class AccessCache final : public cel::AccessOracle,
                          public std::enable_shared_from_this<AccessCache> {
 public:
  /// @param authorizer outlives this.
  AccessCache(auth::Authorizer& authorizer, auth::UserInfo user, std::string cluster)
      : authorizer_(authorizer), user_(std::move(user)), cluster_(std::move(cluster)) {}

  [[nodiscard]] std::optional<cel::AccessAnswer> ask(const cel::AccessQuestion& question) override;
  /// Questions whose answers are not there yet.
  [[nodiscard]] bool is_waiting() const noexcept { return waiting_ > 0; }
  /// Calls `next`, once, when the last of them is there.
  void settled(std::function<void()> next) { next_ = std::move(next); }
  /// Has an evaluation made `again` once they are, unless that was done kMostRounds times.
  /// @returns whether `again` will be called
  [[nodiscard]] bool evaluates_again(int rounds, std::function<void()> again) {
    if (!is_waiting() || rounds >= kMostRounds) {
      return false;
    }
    settled(std::move(again));
    return true;
  }

 private:
  static constexpr int kMostRounds = 64;

  void answered(const cel::AccessQuestion& question, Expected<auth::Decision> decision);

  auth::Authorizer& authorizer_;
  auth::UserInfo user_;
  std::string cluster_;
  std::map<cel::AccessQuestion, std::optional<cel::AccessAnswer>> answers_;
  std::size_t waiting_ = 0;
  std::function<void()> next_;
};

}  // namespace kintsugi::kinds
