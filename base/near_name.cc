#include "base/near_name.h"

#include <algorithm>
#include <cstddef>

namespace kintsugi {
namespace {

constexpr std::size_t kLongestTyped = 64;
constexpr std::size_t kShortWord = 3;  // letters

/// Letters that are added, left out, changed, or swapped with their neighbour.
std::size_t distance(std::string_view from, std::string_view to) {
  std::vector<std::vector<std::size_t>> steps(from.size() + 1,
                                              std::vector<std::size_t>(to.size() + 1));
  for (std::size_t i = 0; i <= from.size(); ++i) {
    for (std::size_t j = 0; j <= to.size(); ++j) {
      if (i == 0 || j == 0) {
        steps[i][j] = i + j;
        continue;
      }
      steps[i][j] = std::min({steps[i - 1][j] + 1, steps[i][j - 1] + 1,
                              steps[i - 1][j - 1] + (from[i - 1] == to[j - 1] ? 0U : 1U)});
      if (i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1]) {
        steps[i][j] = std::min(steps[i][j], steps[i - 2][j - 2] + 1);
      }
    }
  }
  return steps.back().back();
}

}  // namespace

std::string nearest_name(std::string_view typed, const std::vector<std::string>& known) {
  if (typed.size() > kLongestTyped) {
    return "";
  }
  const std::size_t most = typed.size() <= kShortWord ? 1 : 2;
  const std::string* nearest = nullptr;
  std::size_t least = std::min(most + 1, typed.size());
  for (const std::string& name : known) {
    if (const std::size_t steps = distance(typed, name); steps < least) {
      least = steps;
      nearest = &name;
    }
  }
  if (nearest != nullptr) {
    return *nearest;
  }
  const auto begins = [typed](const std::string& name) { return name.starts_with(typed); };
  const bool is_only = std::count_if(known.begin(), known.end(), begins) == 1;
  return is_only && !typed.empty() ? *std::find_if(known.begin(), known.end(), begins) : "";
}

}  // namespace kintsugi
