// The marker of plain servers' objects: what is marked stays what it was but for the one
// annotation, and bytes that are no object, JSON or protobuf, are left alone.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "aggregation/bytes/marker.h"
#include "krm/json.h"

namespace {

using kintsugi::krm::Json;
using namespace kintsugi::aggregation;

constexpr std::string_view kCluster = "eu-1";

void check(bool holds) {
  if (!holds) {
    std::abort();
  }
}

/// Keys occur once: of others the last one counts for who parses, and the marker looks at the
/// first.
bool is_plain(std::string_view text) {
  Json::ParseReport report;
  const auto parsed = Json::parse(text, {.collect_duplicates = true}, &report);
  return parsed && report.duplicate_fields.empty();
}

/// The object without the annotation, and without annotations if that was all.
std::string bare(const Json& object) {
  Json out = object;
  Json annotations = Json::object({});
  if (const Json* given = object.at({"metadata", "annotations"}); given != nullptr) {
    for (const auto& [key, value] : given->members()) {
      if (key != kMarker) {
        annotations[key] = value;
      }
    }
  }
  out["metadata"]["annotations"] = annotations;
  return out.dump();
}

void check_object(std::string_view text) {
  const std::string marked = document_with_marker(text, kCluster);
  const auto before = Json::parse(text);
  const auto after = Json::parse(marked);
  if (!before || !before->is_object() || !is_plain(text) || before->text({"kind"}) == "Table") {
    return;
  }
  check(after.has_value());
  const Json* metadata = before->find("metadata");
  if (metadata == nullptr || !metadata->is_object()) {
    check(marked == text);
    return;
  }
  check(after->text({"metadata", "annotations", kMarker}) == kCluster);
  const Json* annotations = before->at({"metadata", "annotations"});
  const bool fits = annotations == nullptr || annotations->is_object() || annotations->is_null();
  check(!fits || bare(*after).size() == bare(*before).size());
  check(document_with_marker(marked, kCluster) == marked);
  if (const auto without = without_marker(marked)) {
    const auto parsed = Json::parse(*without);
    check(parsed && parsed->at({"metadata", "annotations", kMarker}) == nullptr);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  check_object(text);
  (void)with_marker(text, kCluster);
  (void)event_with_marker(text, kCluster);
  if (const auto bytes = protobuf_without_marker(text)) {
    check(bytes->size() < text.size() + 16);
    check(!protobuf_without_marker(*bytes) || bytes->find(kMarker) != std::string::npos);
  }
  return 0;
}
