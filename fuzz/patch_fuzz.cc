// "<document>\n<patch>": a JSON patch and a merge patch; made patches lead where they should.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "krm/json_patch.h"
#include "krm/merge_patch.h"

using kintsugi::Expected;
using kintsugi::krm::Json;
using kintsugi::krm::JsonPatch;

namespace {

bool has_null(const Json& value) {
  for (const Json& item : value.items()) {
    if (has_null(item)) {
      return true;
    }
  }
  for (const kintsugi::krm::JsonMember& member : value.members()) {
    if (member.value.is_null() || has_null(member.value)) {
      return true;
    }
  }
  return false;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::size_t line = text.find('\n');
  if (line == std::string_view::npos || size > 4096) {
    return 0;
  }
  const Expected<Json> document = Json::parse(text.substr(0, line));
  const std::string_view body = text.substr(line + 1);
  if (!document) {
    return 0;
  }
  if (const Expected<JsonPatch> patch = JsonPatch::parse(body)) {
    const Expected<Json> patched = patch->apply(*document);
    if (patched && !Json::parse(patched->dump())) {
      std::abort();
    }
  }
  if (const Expected<Json> patch = kintsugi::krm::parse_merge_patch(body)) {
    const Json patched = kintsugi::krm::apply_merge_patch(*document, *patch);
    const Json made = kintsugi::krm::make_merge_patch(*document, patched);
    if (!has_null(patched) && !(kintsugi::krm::apply_merge_patch(*document, made) == patched)) {
      std::abort();
    }
  }
  return 0;
}
