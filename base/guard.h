#pragma once

#include <cstdint>
#include <exception>
#include <new>
#include <string_view>
#include <utility>

namespace kintsugi {

/// Exceptions that guarded() has caught since the process began: kintsugi_caught_exceptions_total.
/// Any thread.
[[nodiscard]] std::uint64_t caught_exceptions() noexcept;

/// Counts one, and writes a line for each of the first ten and then for one of a thousand.
void note_exception(std::string_view where, std::string_view what) noexcept;

/// Runs what client bytes or peers can reach: an exception is counted and ends `function`, not the
/// process (SE-181). Memory that is missing still ends it (SE-183). Cost: nothing unless it throws.
/// @param where  constant name of the place, for the log.
/// @return false when it threw.
template <class Function>
bool guarded(std::string_view where, Function&& function) noexcept {
  try {
    std::forward<Function>(function)();
    return true;
  } catch (const std::bad_alloc&) {
    std::terminate();
  } catch (const std::exception& thrown) {
    note_exception(where, thrown.what());
  } catch (...) {
    note_exception(where, "an exception of no standard type");
  }
  return false;
}

}  // namespace kintsugi
