#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "krm/strict_order.h"

/// The first line is the path of an unknown field, the rest a document, well-formed or not.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::size_t end = text.find('\n');
  if (end == std::string_view::npos) {
    return 0;
  }
  const auto found =
      kintsugi::krm::strict_findings(text.substr(end + 1), {std::string(text.substr(0, end))});
  for (std::size_t i = 1; i < found.size(); ++i) {
    for (std::size_t before = 0; before < i && found.size() < 100; ++before) {
      if (found[before] == found[i]) {
        std::abort();
      }
    }
  }
  return 0;
}
