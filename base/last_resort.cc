#include "base/last_resort.h"

#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <exception>
#include <new>
#include <string_view>

#include "base/log.h"

namespace kintsugi {
namespace {

std::atomic<std::uint64_t> silent{0}, shortages{0};
std::atomic<void*> reserve_kept{nullptr};

/// Without an allocation.
void say(std::string_view line) { (void)!::write(STDERR_FILENO, line.data(), line.size()); }

[[noreturn]] void end_without_memory() {
  say("{\"level\":\"error\",\"msg\":\"there is no memory left: the process ends\"}\n");
  ::_exit(1);
}

void on_no_memory() {
  void* const kept = reserve_kept.exchange(nullptr);
  if (kept == nullptr) {
    end_without_memory();
  }
  std::free(kept);
  ++shortages;
  say("{\"level\":\"error\",\"msg\":\"memory ran out, the reserve is used\"}\n");
}

[[noreturn]] void on_terminate() {
  try {
    if (std::current_exception() != nullptr) {
      std::rethrow_exception(std::current_exception());
    }
  } catch (const std::bad_alloc&) {
    end_without_memory();
  } catch (const std::exception& thrown) {
    log_error("an exception that nobody catches: the process ends", {{"what", thrown.what()}});
  } catch (...) {
  }
  std::abort();
}

}  // namespace

std::uint64_t silent_loops() noexcept { return silent.load(std::memory_order_relaxed); }

void note_silent_loop() noexcept { silent.fetch_add(1, std::memory_order_relaxed); }

void prepare_for_no_memory(std::uint64_t reserve) {
  void* const kept = std::malloc(reserve);
  std::free(reserve_kept.exchange(kept));
  std::set_new_handler(on_no_memory);
  std::set_terminate(on_terminate);
}

std::uint64_t memory_shortages() noexcept { return shortages.load(std::memory_order_relaxed); }

}  // namespace kintsugi
