#include "base/process_pages.h"

#include <elf.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>

namespace kintsugi {
namespace {

int forget_object(dl_phdr_info* object, std::size_t /*size*/, void* page_size) {
  const auto page = *static_cast<const std::uintptr_t*>(page_size);
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)& part = object->dlpi_phdr[i];
    // What can be written may differ from the file: relocations, variables.
    if (part.p_type != PT_LOAD || (part.p_flags & PF_W) != 0) {
      continue;
    }
    const std::uintptr_t from = (object->dlpi_addr + part.p_vaddr) & ~(page - 1);
    const std::uintptr_t end = (object->dlpi_addr + part.p_vaddr + part.p_memsz) & ~(page - 1);
    if (end > from) {
      (void)::madvise(reinterpret_cast<void*>(from), end - from, MADV_DONTNEED);
    }
  }
  return 0;
}

}  // namespace

void forget_code() noexcept {
  auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  ::dl_iterate_phdr(forget_object, &page);
}

}  // namespace kintsugi
