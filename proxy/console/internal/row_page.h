#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "krm/json.h"
#include "krm/request_info.h"

namespace kintsugi::proxy {

/// Rows of one view. Each has a text `id` that no other one of it has.
using ViewRows = std::vector<krm::Json>;

/// What is asked of a view (OP-704).
struct RowQuery {
  static constexpr std::size_t kMostRows = 500, kMostText = 256;
  std::size_t limit = 100, offset = 0;
  std::string sort;  ///< a field, "": as they come
  bool descending = false;
  std::string filter;  ///< lower case; "": all
  /// @error kBadRequest in words for people.
  [[nodiscard]] static Expected<RowQuery> of(const krm::Query& query);
};

/// {"items", "total", "next"}: those that have the filter in one of their texts, sorted, from
/// `offset` on. `next` is left out at the end.
[[nodiscard]] krm::Json page_of(ViewRows rows, const RowQuery& query);

}  // namespace kintsugi::proxy
