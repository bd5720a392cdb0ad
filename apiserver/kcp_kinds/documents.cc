#include <cstdlib>
#include <string>

#include "apiserver/kcp_kinds/kcp_kinds.h"
#include "apiserver/kinds/builtin_kinds.h"
#include "base/log.h"

namespace kintsugi::apiserver {

const char* const kConditionsSchema = R"json({"type": "array", "items": {"type": "object",
  "required": ["lastTransitionTime", "status", "type"], "properties": {
  "lastTransitionTime": {"type": "string", "format": "date-time"}, "message": {"type": "string"},
  "reason": {"type": "string"}, "severity": {"type": "string"}, "status": {"type": "string"},
  "type": {"type": "string"}}}})json";

ResourceDef resource_from_document(std::string_view crd_json) {
  // Documents share the schema of conditions by a marker, so that it is written once.
  static constexpr std::string_view kMarker = "\"$conditions\"";
  std::string text(crd_json);
  for (std::size_t at = text.find(kMarker); at != std::string::npos; at = text.find(kMarker)) {
    text.replace(at, kMarker.size(), kConditionsSchema);
  }
  auto crd = krm::Json::parse(text);
  if (!crd) {
    log_error("kind document cannot be read", {{"error", crd.error().to_string()}});
    std::abort();
  }
  return *resource_from_crd(*crd);
}

}  // namespace kintsugi::apiserver
