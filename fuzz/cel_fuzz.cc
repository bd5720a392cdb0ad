// An expression over a fixed schema: whatever parses and checks also evaluates within its limits,
// twice the same.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "cel/internal/program.h"
#include "krm/structural.h"

using kintsugi::cel::Compilation;
using kintsugi::cel::Evaluation;
using kintsugi::cel::Value;
using kintsugi::krm::Json;

namespace {

constexpr std::string_view kSchema = R"json({"type": "object", "properties": {
  "i": {"type": "integer"}, "d": {"type": "number"}, "b": {"type": "boolean"}, "s": {"type": "string"},
  "l": {"type": "array", "items": {"type": "integer"}},
  "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
  "m": {"type": "object", "additionalProperties": {"type": "string"}},
  "o": {"type": "object", "properties": {"x": {"type": "integer"}, "y": {"type": "string"}}},
  "ios": {"x-kubernetes-int-or-string": true}, "ts": {"type": "string", "format": "date-time"}}})json";
constexpr std::string_view kValue =
    R"json({"i": 5, "d": 2.5, "b": true, "s": "hello", "l": [3, 1, 2], "set": ["a", "b"],
  "m": {"k": "v"}, "o": {"x": 1}, "ios": "50%", "ts": "2024-02-29T00:00:00Z"})json";

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const auto schema = kintsugi::krm::structural_schema(*Json::parse(kSchema), false);
  static const auto declaration = kintsugi::cel::declare(*schema, false);
  static const Json value = *Json::parse(kValue);
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const Compilation compiled =
      kintsugi::cel::compile(text, *declaration, false, kintsugi::cel::TypeKind::kBool);
  if (!compiled.program) {
    return 0;
  }
  const Value self = Value::from_json(value, *schema);
  const Evaluation first = compiled.program->run(self, self, 10'000);
  const Evaluation second = compiled.program->run(self, self, 10'000);
  if (first.cost != second.cost || first.value.kind() != second.value.kind()) {
    std::abort();
  }
  return 0;
}
