#include "apiserver/internal/key_queue.h"

#include <utility>

namespace kintsugi::apiserver::internal {

void KeyQueue::acquire(const std::string& key, std::function<void(std::shared_ptr<Turn>)> enter) {
  const auto [found, fresh] = waiting_.try_emplace(key);
  if (!fresh) {
    found->second.push_back(std::move(enter));
    return;
  }
  enter(std::make_shared<Turn>(*this, key));
}

void KeyQueue::release(const std::string& key) {
  const auto found = waiting_.find(key);
  if (found == waiting_.end()) {
    return;
  }
  if (found->second.empty()) {
    waiting_.erase(found);
    return;
  }
  const std::function<void(std::shared_ptr<Turn>)> next = std::move(found->second.front());
  found->second.pop_front();
  next(std::make_shared<Turn>(*this, key));
}

}  // namespace kintsugi::apiserver::internal
