#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "aggregation/asking/merge_query.h"
#include "aggregation/position/continue_token.h"
#include "aggregation/position/cursor.h"
#include "base/error.h"

/// Which question each shard is asked for one page of a merged list (V01 to V17, AGG-612).
namespace kintsugi::aggregation {

struct ListStep {
  enum class Kind : std::uint8_t {
    kRead,   ///< its items belong to the page
    kPin,    ///< asked with limit=1 for its revision only
    kLater,  ///< read at its pin when the page has room left
    kSkip,   ///< contributes nothing
  };
  Kind kind = Kind::kRead;
  std::string query;      ///< kRead, kPin: "?a=b&…", or ""
  std::uint64_t pin = 0;  ///< kLater: the revision to read at; its component in any case if not 0
  bool operator==(const ListStep&) const = default;
};

struct ListPlan {
  std::vector<ListStep> steps;  ///< by position in the route's members
  std::int64_t limit = 0;       ///< of the page; 0: none
  std::size_t first = 0;        ///< member that the page begins with
  bool from_token = false;
  bool inconsistent = false;
};

/// The first page, or the only one. @param version  what MergeQuery::resource_version is;
/// components by slot. @param slots  slot of each member.
/// @error kBadRequest, kExpired by AGG-403
[[nodiscard]] Expected<ListPlan> plan_list(const MergeQuery& query, const DecodedVersion& version,
                                           const std::vector<std::size_t>& slots);
/// A later page. `token` has been decoded; its pins are by slot of the current table.
[[nodiscard]] ListPlan plan_page(const MergeQuery& query, const MergedContinue& token,
                                 const std::vector<std::size_t>& slots);

/// "?resourceVersion=<pin>&resourceVersionMatch=Exact&limit=<limit>…"
[[nodiscard]] std::string pinned_query(const MergeQuery& query, std::uint64_t pin,
                                       std::int64_t limit);

/// "?limit=<limit>…": as it is now
[[nodiscard]] std::string newest_query(const MergeQuery& query, std::int64_t limit);
/// "?continue=<token>&limit=<limit>…"
[[nodiscard]] std::string continued_query(const MergeQuery& query, std::string_view token,
                                          std::int64_t limit);

/// 410 of a cursor that cannot be honoured.
[[nodiscard]] Error version_expired();
/// 400 of a text that is no resourceVersion.
[[nodiscard]] Error version_malformed(std::string_view text);

}  // namespace kintsugi::aggregation
