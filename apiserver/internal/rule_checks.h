#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "cel/rules.h"
#include "krm/json.h"
#include "net/loop.h"

namespace kintsugi::apiserver::internal {

/// An object whose rules are evaluated, and what they said.
struct RuleCheck {
  cel::RuleSetPtr rules;  ///< null: nothing is to be evaluated
  krm::Json object;       ///< in the version of the rules
  std::optional<krm::Json> old;
  std::vector<Cause> causes;
  std::vector<std::string> warnings;

  [[nodiscard]] const krm::Json* before() const noexcept { return old ? &*old : nullptr; }
};

/// Rules of tenants' definitions that take long are evaluated on threads of their own, of which one
/// logical cluster has one at most, so that they hold no loop (SE-002, SE-102). Threads: its loop.
class RuleChecks {
 public:
  using Done = std::function<void(RuleCheck)>;
  explicit RuleChecks(net::Loop& loop) : loop_(loop) {}
  RuleChecks(const RuleChecks&) = delete;
  RuleChecks& operator=(const RuleChecks&) = delete;

  /// `done` comes in a later turn, or never when this dies before. False: too many wait.
  [[nodiscard]] bool run(const std::string& cluster, RuleCheck check, Done done);
  [[nodiscard]] std::size_t running() const noexcept { return running_.size(); }

 private:
  net::Loop& loop_;
  std::map<std::uint64_t, std::shared_ptr<void>> running_;
  std::uint64_t next_ = 0;
};

/// @returns 429 with a second to wait
[[nodiscard]] Error rules_are_busy();

}  // namespace kintsugi::apiserver::internal
