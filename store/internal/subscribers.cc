#include "store/internal/subscribers.h"

#include <algorithm>
#include <mutex>
#include <utility>
#include <vector>

namespace kintsugi::store {

struct SubscriberList::Subscriber {
  std::recursive_mutex running;  // held during a call; recursive: a listener may end itself
  std::function<void(const EventBatch&)> listener;
  bool ended = false;
};

struct SubscriberList::State {
  std::mutex mutex;
  Revision published = 0;
  std::vector<std::shared_ptr<Subscriber>> subscribers;
};

struct SubscriberList::Token {
  Token(std::shared_ptr<State> s, std::shared_ptr<Subscriber> who)
      : state(std::move(s)), subscriber(std::move(who)) {}
  Token(const Token&) = delete;
  Token& operator=(const Token&) = delete;
  ~Token() {
    {
      const std::lock_guard lock(state->mutex);
      std::erase(state->subscribers, subscriber);
    }
    const std::lock_guard lock(subscriber->running);
    subscriber->ended = true;
  }
  std::shared_ptr<State> state;
  std::shared_ptr<Subscriber> subscriber;
};

SubscriberList::SubscriberList() : state_(std::make_shared<State>()) {}

Store::Subscription SubscriberList::add(std::function<void(const EventBatch&)> listener) {
  auto subscriber = std::make_shared<Subscriber>();
  subscriber->listener = std::move(listener);
  auto token = std::make_shared<Token>(state_, subscriber);
  const std::lock_guard lock(state_->mutex);
  state_->subscribers.push_back(std::move(subscriber));
  return {state_->published, std::move(token)};
}

void SubscriberList::publish(Revision revision, const EventBatch& batch) {
  std::vector<std::shared_ptr<Subscriber>> receivers;
  {
    const std::lock_guard lock(state_->mutex);
    state_->published = revision;
    receivers = state_->subscribers;
  }
  if (batch == nullptr || batch->empty()) {
    return;
  }
  for (const auto& receiver : receivers) {
    const std::lock_guard lock(receiver->running);
    if (!receiver->ended) {
      receiver->listener(batch);
    }
  }
}

}  // namespace kintsugi::store
