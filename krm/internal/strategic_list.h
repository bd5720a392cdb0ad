#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "krm/json.h"

/// Lists under a strategic merge patch: which elements are the same, in which order they end up.
namespace kintsugi::krm::strategic {

inline constexpr std::string_view kDirective = "$patch";

/// "expected a []interface {}, but received a string".
[[nodiscard]] Error bad_argument(std::string_view expected, const Json& received);

/// How one list is merged.
struct ListRule {
  std::string merge_key;       ///< "": elements are scalars
  std::string_view item_kind;  ///< Go's kind of an element, for an error text
  bool deletes = false;        ///< the patch names what goes
  /// Merges a patch element into the element with the same key.
  std::function<Expected<void>(Json& into, Json& patch)> merge_item;
};

/// @param leftover gets what the reference leaves in the original list's memory, by which a later
///                 $setElementOrder sorts; may be null.
[[nodiscard]] Expected<Json::Array> merge_list(const ListRule& rule, Json::Array original,
                                               Json::Array& patch, Json::Array* leftover = nullptr);

/// The order that $setElementOrder asks for, of a list that is merged already.
/// @param original, patch the list before and what was merged into it.
[[nodiscard]] Expected<Json::Array> order_list(std::string_view merge_key, Json::Array merged,
                                               const Json::Array& order,
                                               const Json::Array& original,
                                               const Json::Array& patch);

/// Elements of the patch must stand in $setElementOrder, in its order.
[[nodiscard]] Expected<void> check_order(std::string_view merge_key, const Json::Array& patch,
                                         const Json& order);

}  // namespace kintsugi::krm::strategic
