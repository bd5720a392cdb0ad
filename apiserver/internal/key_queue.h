#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/strings.h"

namespace kintsugi::apiserver::internal {

/// Lets writers of one object that read, change and write it come one after another, so that they
/// do not retry against each other (AM-205). Threads: one loop. Limit: requests wait here, so their
/// own limits hold.
class KeyQueue {
 public:
  /// A turn at a key; its destruction lets the next one in.
  class Turn {
   public:
    Turn(KeyQueue& queue, std::string key) : queue_(queue), key_(std::move(key)) {}
    ~Turn() { queue_.release(key_); }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    KeyQueue& queue_;
    std::string key_;
  };

  /// Calls `enter` when it is its turn, at once if nobody is there.
  void acquire(const std::string& key, std::function<void(std::shared_ptr<Turn>)> enter);

 private:
  void release(const std::string& key);
  StringMap<std::deque<std::function<void(std::shared_ptr<Turn>)>>> waiting_;
};

}  // namespace kintsugi::apiserver::internal
