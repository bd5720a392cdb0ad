#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "net/loop.h"

namespace kintsugi::server {

/// Answers of several who are asked at once, and what to do with them: when the last is there, or
/// time is up. Threads: the loop's.
template <class Answer>
struct Gathered : std::enable_shared_from_this<Gathered<Answer>> {
  Gathered(net::Loop& loop, std::size_t count, std::function<void(Gathered&)> then)
      : answers(count), missing(count), done(std::move(then)), timer(loop) {}
  void take(std::size_t i, Answer answer) {
    if (done && !answers[i]) {
      answers[i] = std::move(answer);
      if (--missing == 0) {
        finish();
      }
    }
  }
  void finish() {
    timer.cancel();
    if (const auto then = std::exchange(done, nullptr)) {
      then(*this);
    }
  }
  std::vector<std::optional<Answer>> answers;  ///< nullopt: none came in time
  std::size_t missing;
  std::function<void(Gathered&)> done;
  net::Timer timer;
};

/// @param ask   (one of them, done): done within the call, later, or never
/// @param then  once, with answers in the order of `asked`
template <class Answer, class One, class Ask>
void gather(net::Loop& loop, Duration patience, const std::vector<One>& asked, Ask ask,
            std::function<void(Gathered<Answer>&)> then) {
  const auto all = std::make_shared<Gathered<Answer>>(loop, asked.size(), std::move(then));
  if (asked.empty()) {
    all->finish();
    return;
  }
  all->timer.start(patience, [all] { all->finish(); });
  for (std::size_t i = 0; i < asked.size(); ++i) {
    ask(asked[i], [all, i](Answer answer) { all->take(i, std::move(answer)); });
  }
}

}  // namespace kintsugi::server
