#pragma once

#include <functional>
#include <memory>
#include <string>

namespace kintsugi::apiserver::internal {

/// Lets writers of one object that read, change and write it come one after another, so that they
/// do not retry against each other (AM-205). Threads: one loop. Limit: requests wait here, so their
/// own limits hold. Lifetime: turns may outlive the queue; then nobody is let in any more.
class KeyQueue {
 public:
  struct State;
  /// A turn at a key; its destruction lets the next one in.
  class Turn {
   public:
    Turn(std::weak_ptr<State> queue, std::string key)
        : queue_(std::move(queue)), key_(std::move(key)) {}
    ~Turn();
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    std::weak_ptr<State> queue_;
    std::string key_;
  };
  using Enter = std::function<void(std::shared_ptr<Turn>)>;

  KeyQueue();
  /// Calls `enter` when it is its turn, at once if nobody is there.
  void acquire(const std::string& key, Enter enter);

 private:
  std::shared_ptr<State> state_;
};

}  // namespace kintsugi::apiserver::internal
