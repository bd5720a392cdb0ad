#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "krm/json.h"
#include "proxy/console/internal/row_page.h"

/// What one who asks the console may see (OP-704). Pure, any thread.
namespace kintsugi::proxy {

/// How much of a view there is for somebody.
enum class Sight : std::uint8_t { kNothing, kPart, kAll };

struct ViewerScope {
  std::string user;
  std::vector<std::string> groups;
  /// He came by the admin listener, which lets nobody in who may not see everything.
  bool is_administrator = false;
  /// Names of kConsoleNames that he may get as /ui/api/v1/<name> in root.
  std::set<std::string, std::less<>> full;
  bool lists_shards = false;  ///< core.kcp.io/shards in root
  /// By view (objects_of_view): the logical cluster whose objects he may list.
  std::map<std::string, std::string, std::less<>> cluster_of;

  [[nodiscard]] Sight sight(std::string_view name) const noexcept;
  /// For the page: user, groups, and the names that there is everything, a part of.
  [[nodiscard]] krm::Json document() const;
  bool operator==(const ViewerScope&) const = default;
};

/// Everything below /ui/api/v1/ that a right is asked for.
inline constexpr std::string_view kConsoleNames[] = {"overview", "shards",     "streams",
                                                     "slices",   "partitions", "sets",
                                                     "workers",  "events",     "explain"};
/// Of them those that rows of objects of one logical cluster are shown of, to whom may list them
/// there; "" for others.
struct ObjectsOfView {
  std::string_view group, resource;
};
[[nodiscard]] ObjectsOfView objects_of_view(std::string_view view) noexcept;

/// What a viewer who does not see all of a view sees of its rows.
[[nodiscard]] ViewRows part_of(std::string_view view, const ViewRows& rows,
                               const ViewerScope& scope);

}  // namespace kintsugi::proxy
