#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <string_view>
#include <vector>

#include "proxy/admin/admin.h"
#include "proxy/console/internal/row_page.h"
#include "proxy/console/internal/timeline.h"

/// The rows of the console's views, of what the admin listener's other answers are made of too.
namespace kintsugi::proxy {

/// Rates of the process over the last seconds in which somebody looked. Threads: one loop.
class Rates {
 public:
  struct Of {
    double requests = 0, errors = 0;  ///< a second
  };
  /// Counters as they are now; often: what comes within a second of the last time is left out.
  void take(const std::vector<LoopReport>& loops, TimePoint now);
  /// Nobody has looked for long enough yet: false, and all rates are 0.
  [[nodiscard]] bool known() const noexcept { return samples_.size() > 1; }
  [[nodiscard]] Of all() const;
  [[nodiscard]] Of shard(std::string_view name) const;
  /// Of all requests but watches [seconds]: the bound that 99 % stayed below; negative: there were
  /// none.
  [[nodiscard]] double p99() const;

 private:
  struct Counts {
    std::uint64_t requests = 0, errors = 0;
  };
  struct Sample {
    TimePoint at;
    Counts all;
    std::map<std::string, Counts, std::less<>> shards;
    std::array<std::uint64_t, RequestTimes::kBounds.size() + 1> times{};
  };
  [[nodiscard]] Of between(const Counts& before, const Counts& now) const;
  std::vector<Sample> samples_;  ///< of 5 s
};

struct ViewSources {
  const AdminParams& admin;
  const std::vector<LoopReport>& loops;
  const TopologyReport& topology;
  const Rates& rates;
  const Timeline& timeline;
  TimePoint now;
  TimePoint started;
};

/// @param view  one of kViews
[[nodiscard]] ViewRows rows_of(std::string_view view, const ViewSources& sources);
inline constexpr std::string_view kViews[] = {"overview",   "shards", "streams", "slices",
                                              "partitions", "sets",   "workers", "events"};
[[nodiscard]] bool is_view(std::string_view name) noexcept;
/// Its rows are made of stored objects, and change only with these and with the topology.
[[nodiscard]] bool is_of_objects(std::string_view view) noexcept;

}  // namespace kintsugi::proxy
