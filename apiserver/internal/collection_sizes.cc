#include "apiserver/internal/collection_sizes.h"

#include <string>

namespace kintsugi::apiserver::internal {

bool CollectionSizes::knows(std::string_view prefix) const {
  const auto found = known_.find(prefix);
  return found != known_.end() && found->second.is_counted;
}

std::optional<std::int64_t> CollectionSizes::at(std::string_view prefix, store::Revision at) const {
  const auto found = known_.find(prefix);
  if (found == known_.end() || !found->second.is_counted || at < found->second.since) {
    return std::nullopt;
  }
  std::int64_t size = found->second.size;
  for (auto step = found->second.steps.rbegin();
       step != found->second.steps.rend() && step->revision > at; ++step) {
    size -= step->more;
  }
  return size;
}

CollectionSizes::Count CollectionSizes::begin(std::string_view prefix, store::Revision at) {
  const auto found = known_.find(prefix);
  if (found != known_.end()) {
    if (found->second.is_counted || !found->second.count.expired()) {
      return nullptr;
    }
    known_.erase(found);
  }
  if (known_.size() >= kMost) {
    known_.erase(known_.begin());
  }
  Count count = std::make_shared<const char>();
  known_.emplace(std::string(prefix), Known{at, at, 0, {}, false, count});
  return count;
}

void CollectionSizes::end(std::string_view prefix, const Count& count, std::int64_t size) {
  const auto found = known_.find(prefix);
  if (count == nullptr || found == known_.end() || found->second.count.lock() != count) {
    return;
  }
  if (size < worth_) {
    known_.erase(found);
    return;
  }
  found->second.size += size;
  found->second.is_counted = true;
}

void CollectionSizes::note(std::string_view prefix, const store::Event& event) {
  const bool came = event.type == store::EventType::kPut && event.previous_modified == 0;
  const bool went = event.type == store::EventType::kDelete;
  if (!came && !went) {
    return;
  }
  const auto found = known_.find(prefix);
  if (found == known_.end() || event.revision <= found->second.counted_at) {
    return;
  }
  Known& known = found->second;
  known.steps.push_back({event.revision, came ? 1 : -1});
  known.size += known.steps.back().more;
  if (known.steps.size() > kSteps) {
    known.since = known.steps.front().revision;
    known.steps.pop_front();
  }
}

}  // namespace kintsugi::apiserver::internal
