#include <cstddef>
#include <new>

#include "base/recycled_memory.h"

// What the program's own objects are made of (docs/decisions/0012-recycled-memory.md). Only the
// program has it: tests see each block.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

namespace {

[[gnu::cold, gnu::noinline]] void* after_shortage(std::size_t size) {
  void* memory = nullptr;
  while (memory == nullptr) {
    const std::new_handler handler = std::get_new_handler();
    if (handler == nullptr) {
      throw std::bad_alloc();
    }
    handler();
    memory = kintsugi::recycled_malloc(size);
  }
  return memory;
}

}  // namespace

void* operator new(std::size_t size) {
  void* memory = kintsugi::recycled_malloc(size);
  return memory != nullptr ? memory : after_shortage(size);
}

void operator delete(void* memory) noexcept { kintsugi::recycled_free(memory); }
void operator delete(void* memory, std::size_t /*size*/) noexcept {
  kintsugi::recycled_free(memory);
}

#endif
