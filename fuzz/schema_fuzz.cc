// A JSON object {"schema": …, "object": …, "old": …}: the schema of a definition and objects for
// it. Pruning, defaulting and ownership must be stable when they are done twice.

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "fuzz/pieces.h"
#include "krm/internal/field_set.h"
#include "krm/managed_fields.h"
#include "krm/strict.h"
#include "krm/structural.h"
#include "krm/types/builtin_types.h"

namespace {

using namespace kintsugi;
using namespace kintsugi::krm;

void check_ownership(const Schema* schema, const Json& old, Json object) {
  OwnershipContext context;
  context.schema = schema;
  context.manager = "m";
  context.api_version = "v1";
  context.now = "2026-01-01T00:00:00Z";
  track_update(context, &old, object);
  const Json once = object;
  track_update(context, &once, object);
  fuzz::check(!differs_beyond_times(once, object));
  const FieldSet fields = fields_of(schema, object);
  const auto again = FieldSet::from_json(fields.to_json());
  fuzz::check(again.has_value() && *again == fields);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Json::ParseOptions options;
  options.max_depth = 100;
  const auto input = Json::parse({reinterpret_cast<const char*>(data), size}, options);
  if (!input || !input->is_object()) {
    return 0;
  }
  const auto part = [&](std::string_view key) {
    const Json* found = input->find(key);
    return found == nullptr ? Json::object() : *found;
  };
  const Json definition = part("schema");
  Json object = part("object");
  const Json old = part("old");
  std::vector<Cause> causes;
  validate_structural_schema(definition, "schema", causes);
  const SchemaPtr schema = structural_schema(definition, true);
  static_cast<void>(prune(*schema, object));
  fuzz::check(prune(*schema, object).empty());
  if (coerce_metadata(*schema, object)) {
    apply_defaults(*schema, object);
    validate_object(*schema, object, causes, &old);
    check_ownership(schema.get(), old, object);
  }
  Json typed = object;
  if (const SchemaPtr builtin = builtin_schema("v1", object.text({"kind"}));
      builtin && decode_typed(*builtin, typed)) {
    const Json once = typed;
    fuzz::check(decode_typed(*builtin, typed).has_value() && typed == once);
  }
  return 0;
}
