#pragma once

#include <type_traits>
#include <utility>

namespace kintsugi {

/// Empties `value` and gives its memory back: a string, and what has strings, keeps its capacity
/// when something short is assigned to it.
template <class T>
void give_back(T& value) noexcept {
  static_assert(std::is_nothrow_move_constructible_v<T>);
  [[maybe_unused]] const T gone(std::move(value));
}

}  // namespace kintsugi
