#include "apiserver/internal/rule_checks.h"

#include <utility>

#include "net/work_pool.h"

namespace kintsugi::apiserver::internal {
namespace {

net::WorkPool& threads() {
  static net::WorkPool& pool =
      net::WorkPool::make({.thread_name = "kin-rules", .threads = 2, .of_one = 1, .waiting = 256});
  return pool;
}

}  // namespace

bool RuleChecks::run(const std::string& cluster, RuleCheck check, Done done) {
  auto shared = std::make_shared<RuleCheck>(std::move(check));
  const std::uint64_t id = next_++;
  std::shared_ptr<void> kept = threads().run(
      loop_, cluster,
      [shared] {
        cel::validate_rules(*shared->rules, shared->object, shared->before(), shared->causes,
                            &shared->warnings);
      },
      [this, id, shared, done = std::move(done)] {
        const std::shared_ptr<void> over = std::move(running_[id]);
        running_.erase(id);
        done(std::move(*shared));
      });
  if (kept == nullptr) {
    return false;
  }
  running_.emplace(id, std::move(kept));
  return true;
}

Error rules_are_busy() {
  Error error(Errc::kTooManyRequests,
              "Too many requests: rules of other objects are being evaluated, please try again.");
  error.edit().retry_after_seconds = 1;
  return error;
}

}  // namespace kintsugi::apiserver::internal
