// "<schema>\n<stored object>\n<configuration>": a definition's schema, what is there, what is
// applied, forced.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "krm/apply.h"
#include "krm/structural.h"

using kintsugi::Expected;
using kintsugi::krm::Json;

namespace {

std::string_view take_line(std::string_view& text) {
  const std::size_t end = text.find('\n');
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return line;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size > 8192) {
    return 0;
  }
  std::string_view text(reinterpret_cast<const char*>(data), size);
  const Expected<Json> schema = Json::parse(take_line(text));
  const Expected<Json> live = Json::parse(take_line(text));
  const Expected<Json> config = Json::parse(take_line(text));
  if (!schema || !live || !live->is_object() || !config || !config->is_object()) {
    return 0;
  }
  const kintsugi::krm::SchemaPtr types = kintsugi::krm::structural_schema(*schema, true);
  kintsugi::krm::OwnershipContext context;
  context.schema = types.get();
  context.manager = "kubectl";
  context.api_version = config->text({"apiVersion"});
  context.now = "2026-01-01T00:00:00Z";
  for (const bool force : {false, true}) {
    const Expected<Json> applied =
        kintsugi::krm::apply_configuration(context, force, *live, *config);
    if (applied && !(Json::parse(applied->dump()) == *applied)) {
      std::abort();
    }
  }
  return 0;
}
