#include "base/guard.h"

#include <atomic>

#include "base/log.h"

namespace kintsugi {
namespace {

constexpr std::uint64_t kLoggedFirst = 10;   // lines
constexpr std::uint64_t kLoggedEach = 1000;  // then one of so many

std::atomic<std::uint64_t> count{0};

}  // namespace

std::uint64_t caught_exceptions() noexcept { return count.load(std::memory_order_relaxed); }

void note_exception(std::string_view where, std::string_view what) noexcept {
  const std::uint64_t number = count.fetch_add(1, std::memory_order_relaxed) + 1;
  if (number <= kLoggedFirst || number % kLoggedEach == 0) {
    log_error("an exception was caught: this is a fault of the program",
              {{"where", where}, {"what", what}, {"number", number}});
  }
}

}  // namespace kintsugi
