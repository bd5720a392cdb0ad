// "<path>\n<document>": first() is the first of find(), and nothing leads out of the document.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "krm/json_path.h"

using kintsugi::Expected;
using kintsugi::krm::Json;
using kintsugi::krm::JsonPath;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::size_t line = text.find('\n');
  const Expected<JsonPath> path = JsonPath::compile(text.substr(0, line));
  if (!path || line == std::string_view::npos || size > 2048) {
    return 0;
  }
  const Expected<Json> document = Json::parse(text.substr(line + 1));
  if (!document) {
    return 0;
  }
  const auto all = path->find(*document);
  if (path->first(*document) != (all.empty() ? nullptr : all.front())) {
    std::abort();
  }
  return 0;
}
