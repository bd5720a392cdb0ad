#pragma once

#include <cstdint>

/// What is left where a process cannot go on as it should (SE-183). Threads: any.
namespace kintsugi {

/// Loops that were silent for 10 s since the process began: kintsugi_silent_loops_total.
[[nodiscard]] std::uint64_t silent_loops() noexcept;
void note_silent_loop() noexcept;

/// From now on the first allocation that finds no memory takes a reserve that is put back here,
/// counts as a shortage and goes on; the next one is a line on stderr and exit code 1, and so is a
/// std::bad_alloc that nobody catches. Whoever sheds load looks at memory_shortages().
/// Once, at the start. @param reserve  [bytes], of address space: where memory is promised freely,
/// nothing finds none.
void prepare_for_no_memory(std::uint64_t reserve = std::uint64_t{4} << 20);
/// 0 or 1: kintsugi_memory_shortages_total.
[[nodiscard]] std::uint64_t memory_shortages() noexcept;

}  // namespace kintsugi
