// The file behind sequence cursors, whatever a crash or somebody else left of it: what is read lies
// within its bytes, and nothing is read that would not be written so.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "aggregation/position/sequence_journal.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace kintsugi::aggregation;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  SequenceBook book;
  std::size_t components = 0;
  const JournalHalf half = read_journal_half(bytes, [&](SequenceRecord record) {
    components += record.components.size();
    if (record.scope.size() != kScopeIdBytes) {
      std::abort();
    }
    book.restore(std::move(record), {});
  });
  if (half.end > size || components * 8 > size || (half.turn == 0 && components != 0)) {
    std::abort();
  }
  return 0;
}
