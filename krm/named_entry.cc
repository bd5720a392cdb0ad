#include "krm/named_entry.h"

namespace kintsugi::krm {

const Json* find_named(const Json& document, std::string_view list, std::string_view name) {
  const Json* entries = document.find(list);
  if (entries == nullptr) {
    return nullptr;
  }
  for (const Json& entry : entries->items()) {
    if (entry.text({"name"}) == name) {
      return &entry;
    }
  }
  return nullptr;
}

}  // namespace kintsugi::krm
