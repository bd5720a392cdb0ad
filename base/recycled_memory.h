#pragma once

#include <cstddef>

namespace kintsugi {

/// Memory that comes and goes with each request: what nghttp2 and OpenSSL allocate beneath a
/// connection, the chunks of send queues, the program's own objects. A freed block waits in a list
/// of the thread that freed it, so that the next one of its size costs a dozen instructions; malloc
/// would join and split its chunks again for each record of 16 KiB.
/// Limits: lists are kept for sizes up to 4,104 bytes and for 16 to 17 KiB, of at most 512 and 4
/// blocks, 1 MiB in all per thread: beyond that, one after another is given back. Everything else
/// is malloc's, and so is all of it under a sanitizer, which then sees each block.
/// Errors: null when there is no memory, as malloc. A block that is freed while it waits ends the
/// process. Threads: any; a block may be freed by another thread than the one that took it.
/// Lifetime: the lists are given back when their thread ends.
[[nodiscard]] void* recycled_malloc(std::size_t size) noexcept;
[[nodiscard]] void* recycled_calloc(std::size_t count, std::size_t size) noexcept;
/// Moves the bytes when the block is too small; `block` may be null, `size` 0 frees it.
[[nodiscard]] void* recycled_realloc(void* block, std::size_t size) noexcept;
/// For what recycled_* returned, and null.
void recycled_free(void* block) noexcept;

/// Makes OpenSSL allocate by these. Call it first in main: false, and nothing changes, when OpenSSL
/// has allocated already.
bool recycle_memory_of_openssl() noexcept;

}  // namespace kintsugi
