#include "controlplane/kinds/internal/member_order.h"

#include <algorithm>

namespace kintsugi::controlplane {

using krm::Json;

std::string in_order(const Json& object, std::initializer_list<std::string_view> order,
                     const std::function<std::string(std::string_view key, const Json&)>& write) {
  std::string out = "{";
  const auto put = [&](std::string_view key, const Json& value) {
    out += out.size() > 1 ? "," : "";
    krm::append_json_string(out, key);
    out += ":" + write(key, value);
  };
  for (const std::string_view key : order) {
    if (const Json* value = object.find(key)) {
      put(key, *value);
    }
  }
  for (const krm::JsonMember& member : object.members()) {
    if (std::find(order.begin(), order.end(), member.key) == order.end()) {
      put(member.key, member.value);
    }
  }
  return out + "}";
}

std::string in_order(const Json& object, std::initializer_list<std::string_view> order) {
  return in_order(object, order, [](std::string_view, const Json& value) { return value.dump(); });
}

std::string list_of(const Json& list, const std::function<std::string(const Json&)>& write) {
  std::string out = "[";
  for (const Json& item : list.items()) {
    out += (out.size() > 1 ? "," : "") + write(item);
  }
  return out + "]";
}

}  // namespace kintsugi::controlplane
