#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace kintsugi {

/// A queue in one block of memory that grows by doubling: what is in it is found by its place from
/// the front, and nothing is allocated while it is empty. A deque takes half a KiB from the start.
template <class T>
class Ring {
 public:
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  /// @param place  from the front, less than size()
  [[nodiscard]] T& operator[](std::size_t place) noexcept {
    return slots_[(front_ + place) & (slots_.size() - 1)];
  }
  [[nodiscard]] const T& operator[](std::size_t place) const noexcept {
    return slots_[(front_ + place) & (slots_.size() - 1)];
  }
  [[nodiscard]] const T& front() const noexcept { return (*this)[0]; }

  void push_back(T value) {
    if (size_ == slots_.size()) {
      grow();
    }
    ++size_;
    (*this)[size_ - 1] = std::move(value);
  }
  void pop_front() {
    (*this)[0] = T();
    front_ = (front_ + 1) & (slots_.size() - 1);
    --size_;
  }
  /// Gives the memory back.
  void clear() noexcept { *this = Ring(); }

 private:
  void grow() {
    std::vector<T> more(slots_.empty() ? 4 : 2 * slots_.size());
    for (std::size_t i = 0; i < size_; ++i) {
      more[i] = std::move((*this)[i]);
    }
    slots_ = std::move(more);
    front_ = 0;
  }

  std::vector<T> slots_;  // a power of two, or none
  std::size_t front_ = 0;
  std::size_t size_ = 0;
};

}  // namespace kintsugi
