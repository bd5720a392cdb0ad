#include "apiserver/internal/key_queue.h"

#include <deque>
#include <utility>
#include <vector>

#include "base/strings.h"

namespace kintsugi::apiserver::internal {

struct KeyQueue::State {
  StringMap<std::deque<Enter>> waiting;
  std::vector<std::string> released;
  bool draining = false;
};

KeyQueue::KeyQueue() : state_(std::make_shared<State>()) {}

void KeyQueue::acquire(const std::string& key, Enter enter) {
  const auto [found, fresh] = state_->waiting.try_emplace(key);
  if (!fresh) {
    found->second.push_back(std::move(enter));
    return;
  }
  enter(std::make_shared<Turn>(state_, key));
}

KeyQueue::Turn::~Turn() {
  const std::shared_ptr<State> queue = queue_.lock();
  if (queue == nullptr) {
    return;
  }
  queue->released.push_back(std::move(key_));
  if (queue->draining) {
    return;  // a row of turns that end at once must not pile up on the stack
  }
  queue->draining = true;
  while (!queue->released.empty()) {
    std::string key = std::move(queue->released.back());
    queue->released.pop_back();
    const auto found = queue->waiting.find(key);
    if (found->second.empty()) {
      queue->waiting.erase(found);
      continue;
    }
    const Enter next = std::move(found->second.front());
    found->second.pop_front();
    next(std::make_shared<Turn>(queue, std::move(key)));
  }
  queue->draining = false;
}

}  // namespace kintsugi::apiserver::internal
