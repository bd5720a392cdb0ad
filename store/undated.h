#pragma once

#include "store/store.h"

namespace kintsugi::store {

/// `created` of an operation that deletes, and of its event for subscribers: it has happened by
/// now, at a revision that nobody knows (GR-115). Who is told of it cannot go on elsewhere from
/// `revision` as if he had all before that. History does not say it: it is compacted there.
inline constexpr Revision kUndated = ~Revision{0};

template <typename Change>  // Op, Event
[[nodiscard]] bool is_undated(const Change& change) noexcept {
  return change.type == EventType::kDelete && change.created == kUndated;
}

}  // namespace kintsugi::store
