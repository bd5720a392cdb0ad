#pragma once

#include <functional>
#include <initializer_list>
#include <memory>

#include "net/loop.h"

namespace kintsugi::net {

/// Turns signals into calls on a loop, one a turn, for as long as it lives; after that they do what
/// they do by default. They interrupt nothing that can be restarted, on whatever thread they come.
/// Several of the same number that come at once, or during a call, are one call: a hundred SIGHUPs
/// do not stand between a process and its SIGTERM. Threads: the loop's; other threads may run
/// already.
class Signals {
 public:
  /// @param handler may destroy this object.
  Signals(Loop& loop, std::initializer_list<int> numbers, std::function<void(int)> handler);
  ~Signals();
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace kintsugi::net
