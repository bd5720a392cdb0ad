#include "proxy/console/internal/row_page.h"

#include <algorithm>
#include <cctype>
#include <compare>
#include <utility>

#include "base/strings.h"

namespace kintsugi::proxy {
namespace {

using krm::Json;

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

bool has_text(const Json& value, const std::string& wanted) {
  if (value.is_string()) {
    return lower(value.as_string()).find(wanted) != std::string::npos;
  }
  return std::any_of(value.items().begin(), value.items().end(),
                     [&](const Json& one) { return has_text(one, wanted); }) ||
         std::any_of(value.members().begin(), value.members().end(),
                     [&](const auto& one) { return has_text(one.value, wanted); });
}

/// Numbers and booleans before texts, what has the field not at all behind them.
bool before(const Json* a, const Json* b) {
  const auto rank = [](const Json* value) {
    return value == nullptr || value->is_null() ? 2 : value->is_string() ? 1 : 0;
  };
  if (rank(a) != rank(b)) {
    return rank(a) < rank(b);
  }
  if (rank(a) == 1) {
    return a->as_string() < b->as_string();
  }
  const auto number = [](const Json* value) {
    return value->is_bool() ? (value->as_bool() ? 1.0 : 0.0) : value->as_double();
  };
  return rank(a) == 0 && number(a) < number(b);
}

}  // namespace

Expected<RowQuery> RowQuery::of(const krm::Query& query) {
  RowQuery out;
  if (const auto limit = query.get("limit")) {
    const auto number = parse_decimal<std::size_t>(*limit);
    if (!number || *number == 0 || *number > kMostRows) {
      return fail(Errc::kBadRequest, "limit: a number from 1 to 500");
    }
    out.limit = *number;
  }
  if (const auto next = query.get("next")) {
    const auto number = parse_decimal<std::uint32_t>(*next);
    if (!number) {
      return fail(Errc::kBadRequest, "next: what the answer before has said");
    }
    out.offset = *number;
  }
  out.sort = query.get("sort").value_or("");
  out.filter = lower(query.get("filter").value_or(""));
  if (out.sort.size() > kMostText || out.filter.size() > kMostText) {
    return fail(Errc::kBadRequest, "sort, filter: at most 256 bytes");
  }
  if (out.sort.starts_with('-')) {
    out.descending = true;
    out.sort.erase(0, 1);
  }
  return out;
}

Json page_of(ViewRows rows, const RowQuery& query) {
  if (!query.filter.empty()) {
    std::erase_if(rows, [&](const Json& row) { return !has_text(row, query.filter); });
  }
  if (!query.sort.empty()) {
    std::stable_sort(rows.begin(), rows.end(), [&](const Json& a, const Json& b) {
      const Json* const x = a.find(query.sort);
      const Json* const y = b.find(query.sort);
      return query.descending ? before(y, x) : before(x, y);
    });
  }
  const std::size_t begin = std::min(query.offset, rows.size());
  const std::size_t end = std::min(rows.size(), begin + query.limit);
  Json items = Json::array();
  for (std::size_t i = begin; i < end; ++i) {
    items.push_back(std::move(rows[i]));
  }
  Json out = Json::object({{"items", std::move(items)}, {"total", std::uint64_t{rows.size()}}});
  if (end < rows.size()) {
    out["next"] = std::to_string(end);
  }
  return out;
}

}  // namespace kintsugi::proxy
