#include "krm/schema.h"

#include <algorithm>

namespace kintsugi::krm {

const SchemaProperty* Schema::property(std::string_view name) const noexcept {
  const auto it = std::lower_bound(
      properties.begin(), properties.end(), name,
      [](const SchemaProperty& candidate, std::string_view key) { return candidate.name < key; });
  return it != properties.end() && it->name == name ? &*it : nullptr;
}

}  // namespace kintsugi::krm
