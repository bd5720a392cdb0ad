// Quantities: what parses has a canonical text, which means the same and stays as it is. Binary
// ones of 1024 and more are rounded up to whole numbers when they are written.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "krm/quantity.h"

using kintsugi::Expected;
using kintsugi::krm::Quantity;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const Expected<Quantity> quantity = Quantity::parse(text);
  if (!quantity) {
    return 0;
  }
  const std::string canonical = quantity->to_string();
  const Expected<Quantity> again = Quantity::parse(canonical);
  // 2000 bytes of 1.953125Ki have no suffix: read again they are a decimal 2k, as Kubernetes has
  // it.
  const bool is_decimal_now = text.ends_with('i') && !canonical.ends_with('i');
  const bool rounded = canonical.ends_with('i') || !quantity->is_whole();
  if (!again || (!is_decimal_now && again->to_string() != canonical) ||
      (!rounded && !(*again == *quantity)) ||
      (!quantity->is_negative() && again->ceiling() < quantity->ceiling())) {
    std::abort();
  }
  return 0;
}
