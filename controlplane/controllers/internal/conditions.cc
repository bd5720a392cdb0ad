#include "controlplane/controllers/internal/conditions.h"

#include <utility>

#include "base/time.h"

namespace kintsugi::controlplane {

bool set_kcp_condition(krm::Json& object, std::string_view type, std::string_view status,
                       std::string_view severity, std::string_view reason,
                       std::string_view message) {
  krm::Json condition = krm::Json::object({{"type", type}, {"status", status}});
  const auto put = [&condition](std::string_view key, std::string_view value) {
    if (!value.empty()) {
      condition[key] = value;
    }
  };
  put("severity", severity);
  put("reason", reason);
  put("message", message);
  krm::Json::Array& items = object.make({"status", "conditions"}).edit_items();
  for (krm::Json& item : items) {
    if (item.text({"type"}) != type) {
      continue;
    }
    krm::Json before = item;
    before.erase("lastTransitionTime");
    if (before == condition) {
      return false;
    }
    condition["lastTransitionTime"] = rfc3339(unix_seconds());
    item = std::move(condition);
    return true;
  }
  condition["lastTransitionTime"] = rfc3339(unix_seconds());
  items.push_back(std::move(condition));
  return true;
}

}  // namespace kintsugi::controlplane
