// JSON text: what parses is written and read back unchanged; what does not has a reason.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "krm/json.h"

using kintsugi::Expected;
using kintsugi::krm::Json;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  Json::ParseReport report;
  const Expected<Json> value =
      Json::parse(text, {.max_depth = 500, .collect_duplicates = true}, &report);
  if (!value) {
    if (value.error().message().empty()) {
      std::abort();
    }
    return 0;
  }
  const std::string out = value->dump();
  const Expected<Json> again = Json::parse(out);
  if (!again || again->dump() != out || !(*again == *value) || !Json::parse(value->dump_pretty())) {
    std::abort();
  }
  return 0;
}
