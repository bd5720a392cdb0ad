#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace kintsugi::serving {

/// A watch for whose client something waits.
template <class Watch>
struct Behind {
  std::size_t bytes = 0;  ///< that wait, more than 0
  std::string payer;
  Watch* watch = nullptr;
};

/// Who goes first where memory is short (SE-091): of the payer for whom most waits the farthest
/// behind, then of the next payer.
template <class Watch>
void put_in_shed_order(std::vector<Behind<Watch>>& all) {
  std::map<std::string, std::size_t> sums;
  for (const Behind<Watch>& one : all) {
    sums[one.payer] += one.bytes;
  }
  std::stable_sort(all.begin(), all.end(), [&](const Behind<Watch>& a, const Behind<Watch>& b) {
    if (a.payer == b.payer) {
      return a.bytes > b.bytes;
    }
    const std::size_t of_a = sums.find(a.payer)->second, of_b = sums.find(b.payer)->second;
    return of_a != of_b ? of_a > of_b : a.payer < b.payer;
  });
}

}  // namespace kintsugi::serving
