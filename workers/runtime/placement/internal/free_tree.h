#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace kintsugi::workers {

/// A row of numbers that finds the first one not below a bound. Threads: one.
/// Cost: set and first O(log n), assign O(n).
class FreeTree {
 public:
  static constexpr std::size_t kEnd = std::numeric_limits<std::size_t>::max();

  void assign(const std::vector<std::int64_t>& values) {
    size_ = values.size();
    leaves_ = std::bit_ceil(std::max<std::size_t>(size_, 1));
    tree_.assign(2 * leaves_, kLeast);
    std::copy(values.begin(), values.end(), tree_.begin() + static_cast<std::ptrdiff_t>(leaves_));
    for (std::size_t i = leaves_ - 1; i > 0; --i) {
      tree_[i] = std::max(tree_[2 * i], tree_[2 * i + 1]);
    }
  }
  void set(std::size_t at, std::int64_t value) noexcept {
    std::size_t i = leaves_ + at;
    tree_[i] = value;
    for (i /= 2; i > 0; i /= 2) {
      const std::int64_t most = std::max(tree_[2 * i], tree_[2 * i + 1]);
      if (tree_[i] == most) {
        break;
      }
      tree_[i] = most;
    }
  }
  /// The smallest place >= from whose number is >= least; kEnd: none.
  [[nodiscard]] std::size_t first(std::size_t from, std::int64_t least) const noexcept {
    if (from >= size_) {
      return kEnd;
    }
    std::size_t i = leaves_ + from;
    while (tree_[i] < least) {
      while (i % 2 == 1) {  // a right child: all below its parent is behind us
        i /= 2;
        if (i == 0) {
          return kEnd;
        }
      }
      ++i;
    }
    while (i < leaves_) {
      i *= 2;
      i += tree_[i] < least ? 1 : 0;
    }
    return i - leaves_;
  }
  [[nodiscard]] std::int64_t most() const noexcept { return size_ == 0 ? kLeast : tree_[1]; }

 private:
  static constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
  std::size_t size_ = 0;
  std::size_t leaves_ = 1;
  std::vector<std::int64_t> tree_ = {kLeast, kLeast};
};

}  // namespace kintsugi::workers
