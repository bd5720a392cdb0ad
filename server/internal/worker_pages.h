#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "krm/json.h"

/// What the listeners of a worker show. Source: runtime.md, section 12. No I/O.
namespace kintsugi::server {

/// One role as probes see it.
struct RoleHealth {
  std::string role;
  bool alive = true;      ///< its loop took a turn within 10 s, or a restart is under way
  std::string not_ready;  ///< "": it is ready
};

struct HealthPage {
  int status = 200;
  std::string body;
};
/// The answer to a path with its query: /livez, /healthz, /readyz, each with `?verbose`, and the
/// same with "/<role>" of one role. 404 for any other path and for a role that is not there. One
/// role that is not ready makes /readyz 503, whose body names it, and no other role's page.
[[nodiscard]] HealthPage health_page(std::string_view target, const std::vector<RoleHealth>& roles);

/// "/debug/<role>/errors".
[[nodiscard]] std::string errors_path(std::string_view role);
/// {"errors": […]} in the order of `at`.
[[nodiscard]] HealthPage errors_page(const krm::Json& list);
/// 503: the role does not answer now.
[[nodiscard]] HealthPage no_errors_page(std::string_view role);

/// What a child's `/readyz?verbose` says: the reason of the first check that failed; "" of one that
/// is ready. @param status  HTTP; 0: it did not answer
[[nodiscard]] std::string reason_of(int status, std::string_view body);

/// The pages of several processes as one, in the text format 0.0.4: each family once, in the order
/// of first appearance, with the series of all pages; a series without a label `role` gets the
/// page's, in front. HELP and TYPE are those of the first page that has them. Lines that are none
/// of a page are left out. Cost: O(bytes).
[[nodiscard]] std::string merge_metric_pages(
    const std::vector<std::pair<std::string, std::string>>& pages);

}  // namespace kintsugi::server
