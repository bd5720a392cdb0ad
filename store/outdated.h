#pragma once

#include <string_view>

#include "store/store.h"

namespace kintsugi::store {

/// What a store is besides that keeps values in forms that go out of date, for example encrypted
/// with a key that was replaced.
class KeepsForms {
 public:
  KeepsForms() = default;
  KeepsForms(const KeepsForms&) = delete;
  KeepsForms& operator=(const KeepsForms&) = delete;
  virtual ~KeepsForms() = default;
  /// Whether the same text would be stored as other bytes now. False where that cannot be read, or
  /// the key has another version by now.
  [[nodiscard]] virtual bool is_outdated(std::string_view key, Revision modified) const = 0;
};

/// The same of any store: a write that changes nothing else is worth while. Reads the key once
/// more: for writes without an effect. Threads: any.
[[nodiscard]] inline bool is_stored_outdated(const Store& store, std::string_view key,
                                             Revision modified) {
  const auto* const forms = dynamic_cast<const KeepsForms*>(&store);
  return forms != nullptr && forms->is_outdated(key, modified);
}

}  // namespace kintsugi::store
