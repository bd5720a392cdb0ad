#pragma once

#include <string_view>

namespace kintsugi::workers {

/// What a reconciler is given: an object's place. The kind belongs to the queue. Lifetime: the
/// texts belong to whoever made the key. Source: RT-31.
struct QueueKey {
  std::string_view cluster;
  std::string_view ns;  ///< "" for objects outside namespaces
  std::string_view name;
  bool operator==(const QueueKey&) const = default;
};

}  // namespace kintsugi::workers
