#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/error.h"
#include "krm/json.h"
#include "krm/schema.h"

/// Expressions of an APIConversion (KK-192): over `self`, a part of an object, to what stands in
/// another version.
namespace kintsugi::cel {

/// One compiled expression, with the schema of its `self`. Immutable. Threads: any.
class Transformation;
using TransformationPtr = std::shared_ptr<const Transformation>;

/// @param self   of the part; kept.
/// @param fault  why it is refused: `error compiling CEL program: ERROR: <input>:1:1: …`, or that
///               the part has no type. @returns null then.
[[nodiscard]] TransformationPtr compile_transformation(std::string_view source,
                                                       const krm::SchemaPtr& self,
                                                       std::string& fault);

/// @param value  fits the schema, else the expression fails.
/// @param spent  grows by what the evaluation cost, which is stopped at kCallLimit [cost units].
/// @error kInvalid  `error executing transformation: …`; also for results that JSON does not have,
///                  and for those of more than 3 MiB.
[[nodiscard]] Expected<krm::Json> evaluate_transformation(const Transformation& transformation,
                                                          const krm::Json& value,
                                                          std::uint64_t& spent);

}  // namespace kintsugi::cel
