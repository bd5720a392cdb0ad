#pragma once

#include "cel/internal/schema_type.h"

namespace kintsugi::cel {

/// Types of `request` and `namespaceObject`.
[[nodiscard]] const Declaration& admission_request_type();
[[nodiscard]] const Declaration& namespace_type();

/// What expressions see of a whole object with all of its metadata, for checking types. Null: free
/// form.
[[nodiscard]] DeclarationPtr declare_object_type(const krm::Schema& schema,
                                                 const std::string& name);

}  // namespace kintsugi::cel
