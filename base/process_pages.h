#pragma once

namespace kintsugi {

/// Unmaps the pages of code and constants of the program and its libraries: those that run come
/// back from the page cache by themselves, those that only the start needed do not. Cost: a fault
/// of a microsecond for each 64 KiB that is used again. Threads: any.
void forget_code() noexcept;

}  // namespace kintsugi
