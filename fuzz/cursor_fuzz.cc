// A resourceVersion that a client sends: what is read as a cursor of today is written as the same
// text, and a cursor of any components is read as these.
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "aggregation/position/cursor.h"
#include "fuzz/pieces.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace kintsugi::aggregation;  // NOLINT
  using kintsugi::fuzz::check;
  static const SlotHistoryPtr history = [] {
    SlotChange change;
    change.present = {"a", "b"};
    const auto first = std::make_shared<const SlotHistory>(*SlotHistory().changed(change, 1));
    change.present = {"a", "b", "c"};
    return std::make_shared<const SlotHistory>(*first->changed(change, 2));
  }();
  const CursorCodec codec({"/clusters/*", "", "configmaps"}, history);
  const std::vector<bool> members(3, true);
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const DecodedVersion version = codec.decode(text, members);
  if (version.kind == VersionClass::kCursor) {
    check(version.components.size() == 3);
    if (version.departed.empty() &&
        version.generation == named_generation(codec.format({1, 1, 1}))) {
      check(codec.format(version.components) == text);
    }
  }
  if (version.kind == VersionClass::kNative) {
    check(!text.empty() && text.size() <= 20 &&
          std::to_string(version.native).size() <= text.size());
  }
  Components components(3);
  for (std::size_t i = 0; i < size && i < 24; ++i) {
    components[i % 3] = components[i % 3] << 7 | (data[i] & 0x7fU);
  }
  for (std::uint64_t& component : components) {
    component += component == kBegun ? 1 : 0;  // nobody may go on from there
  }
  const DecodedVersion again = codec.decode(codec.format(components), members);
  check(again.kind == VersionClass::kCursor && again.components == components);
  return 0;
}
