#pragma once

#include <chrono>
#include <functional>
#include <utility>

#include "apiserver/admission.h"
#include "apiserver/resource.h"
#include "auth/authorizer.h"
#include "base/alive.h"
#include "net/loop.h"

namespace kintsugi::kinds {

/// What policies and webhooks look at one write with; all outlive it, but for who waits (`alive`).
/// Threads: the loop's.
struct AdmissionSurroundings {
  net::Loop& loop;
  Alive::Guard alive;  ///< of the admission
  const apiserver::Registry& registry;
  const apiserver::ObjectReader& reader;
  auth::Authorizer& authorizer;

  /// In a turn of its own, unless the admission is gone by then.
  void later(std::function<void()> next) const {
    loop.post([alive = alive, next = std::move(next)] {
      if (alive) {
        next();
      }
    });
  }
};

/// How long expressions are evaluated before others have a turn (SE-102): asked after each.
class EvaluationTurn {
 public:
  [[nodiscard]] bool operator()() const { return std::chrono::steady_clock::now() >= end_; }

 private:
  std::chrono::steady_clock::time_point end_ =
      std::chrono::steady_clock::now() + std::chrono::milliseconds(2);
};

}  // namespace kintsugi::kinds
