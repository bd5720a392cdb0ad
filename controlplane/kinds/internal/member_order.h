#pragma once

#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>

#include "krm/json.h"

/// JSON text with members in the order in which kcp's structs have them: where a text is compared,
/// or shown, that kcp made by writing such a struct.
namespace kintsugi::controlplane {

/// The object with the members of `order` first; others follow by name.
/// @param write  a member's value; `in_order` and `list_of` for what is inside.
[[nodiscard]] std::string in_order(
    const krm::Json& object, std::initializer_list<std::string_view> order,
    const std::function<std::string(std::string_view key, const krm::Json&)>& write);
/// The same of objects that have no order of their own inside.
[[nodiscard]] std::string in_order(const krm::Json& object,
                                   std::initializer_list<std::string_view> order);
[[nodiscard]] std::string list_of(const krm::Json& list,
                                  const std::function<std::string(const krm::Json&)>& write);

}  // namespace kintsugi::controlplane
