#pragma once

#include <functional>
#include <memory>

#include "store/store.h"

namespace kintsugi::store {

/// The subscribers of one store and the revision that they have been told; shared by the backends.
/// Threads: add() any; publish() one at a time. A token may outlive the list. Destroying a token
/// waits for a running call of its listener, except from inside that listener.
class SubscriberList {
 public:
  SubscriberList();

  /// @returns the published revision and a token; the next batch published goes to `listener` too.
  [[nodiscard]] Store::Subscription add(std::function<void(const EventBatch&)> listener);
  /// Makes `revision` the published one and hands `batch` (may be null) to every subscriber.
  void publish(Revision revision, const EventBatch& batch);

 private:
  struct State;
  struct Subscriber;
  struct Token;
  std::shared_ptr<State> state_;
};

}  // namespace kintsugi::store
