#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "apiserver/internal/media.h"
#include "apiserver/internal/options.h"
#include "apiserver/served_kind.h"
#include "base/error.h"
#include "krm/json.h"

/// Request bodies to objects (AM-137 to AM-145, AM-146 to AM-154).
namespace kintsugi::apiserver::internal {

/// A parsed body and what strict validation says about its text, one text each (duplicate keys).
struct ParsedBody {
  krm::Json json;
  std::vector<std::string> faults;
};

/// Only syntax: JSON, YAML, or protobuf of builtin kinds.
/// @param kind for error texts and as the default of a protobuf envelope.
/// @error kUnsupportedMediaType; kBadRequest as AM-141.
[[nodiscard]] Expected<ParsedBody> parse_body(const ServedKind& kind, BodyType type,
                                              std::string_view body);

/// What tells the kind of a body: an object whose apiVersion and kind are texts, if they are there.
/// @error kBadRequest in Kubernetes' words.
[[nodiscard]] Expected<void> check_type_meta(const krm::Json& body);

/// A whole object of the kind: kind and version checked, unknown fields dropped, defaults filled.
/// @param warnings gets what Warn says. @error kBadRequest, kInvalid.
[[nodiscard]] Expected<krm::Json> decode_object(const ServedKind& kind, BodyType type,
                                                std::string_view body, FieldValidation validation,
                                                std::vector<std::string>& warnings);

/// The same for the result of a patch: failures are those of AM-199 and AM-151.
/// @param faults what strict validation says about the patch document itself, one text each.
/// @param shown  what failures show as the value; "": the patched object.
/// @param again  makes the patched object once more, for a failure.
[[nodiscard]] Expected<krm::Json> decode_patched(const ServedKind& kind, krm::Json patched,
                                                 const std::vector<std::string>& faults,
                                                 FieldValidation validation,
                                                 std::vector<std::string>& warnings,
                                                 std::string_view shown,
                                                 const std::function<Expected<krm::Json>()>& again);

/// Drops what the kind does not know and fills defaults. @error kBadRequest in Go's words.
[[nodiscard]] Expected<void> shape_object(const ServedKind& kind, krm::Json& object,
                                          std::vector<std::string>& unknown);

/// Hooks::defaults on an object of the request's version.
void fill_kind_defaults(const ServedKind& kind, krm::Json& object);

/// AM-024 for the kind.
[[nodiscard]] Error unsupported_body(const ServedKind& kind);

}  // namespace kintsugi::apiserver::internal
