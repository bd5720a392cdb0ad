#include "workers/runtime/queue/internal/text_slab.h"

#include <cstring>

namespace kintsugi::workers {

TextSlab::Ref TextSlab::allocate(std::size_t bytes) {
  const std::size_t size = units(bytes);
  if (free_[size] != kNone) {
    const Ref block = free_[size];
    std::memcpy(&free_[size], at(block), sizeof(Ref));
    return block;
  }
  Open& open = open_[size];
  if (open.end - open.next < size) {
    // NOLINTNEXTLINE(modernize-make-unique): make_unique would write zeros first
    chunks_.push_back(std::unique_ptr<char[]>(new char[kChunk]));
    open.next = static_cast<std::uint32_t>(chunks_.size() - 1) * kUnits;
    open.end = open.next + kUnits;
  }
  const Ref block = open.next;
  open.next += static_cast<std::uint32_t>(size);
  return block;
}

void TextSlab::release(Ref block, std::size_t bytes) noexcept {
  Ref& head = free_[units(bytes)];
  std::memcpy(at(block), &head, sizeof(Ref));
  head = block;
}

void TextSlab::clear() noexcept {
  std::vector<std::unique_ptr<char[]>>().swap(chunks_);
  free_.fill(kNone);
  open_ = {};
}

}  // namespace kintsugi::workers
