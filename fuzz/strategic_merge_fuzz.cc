// "<object>\n<patch>": a strategic merge patch of a ServiceAccount and of a Namespace; what it
// leads to is JSON, and the same again.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "krm/go_value.h"
#include "krm/strategic_merge.h"
#include "krm/types/builtin_types.h"

using kintsugi::Expected;
using kintsugi::krm::Json;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::size_t line = text.find('\n');
  if (line == std::string_view::npos || size > 4096) {
    return 0;
  }
  const Expected<Json> object = Json::parse(text.substr(0, line));
  const Expected<Json> patch = kintsugi::krm::parse_strategic_merge(text.substr(line + 1));
  if (!object || !object->is_object() || !patch) {
    return 0;
  }
  for (const char* kind : {"ServiceAccount", "Namespace"}) {
    const auto schema = kintsugi::krm::builtin_schema("v1", kind);
    Json rest = *patch;
    Json again = *patch;
    const Expected<Json> made = kintsugi::krm::apply_strategic_merge(*schema, *object, rest);
    const Expected<Json> same = kintsugi::krm::apply_strategic_merge(*schema, *object, again);
    if (made.has_value() != same.has_value() || (made && !(*made == *same))) {
      std::abort();
    }
    if (made && !Json::parse(made->dump())) {
      std::abort();
    }
    if (kintsugi::krm::go_value_text(rest).empty() && !rest.is_string()) {
      std::abort();
    }
  }
  return 0;
}
