#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "krm/internal/field_set.h"
#include "krm/managed_fields.h"

namespace kintsugi::krm {

/// Fields of one entry that an apply would change.
struct FieldConflict {
  const ManagedFieldsEntry* entry = nullptr;
  FieldSet fields;
};

/// 409 in the words of Kubernetes: managers sorted, a cause for every manager and field.
[[nodiscard]] Error conflict_error(std::vector<FieldConflict> conflicts);

}  // namespace kintsugi::krm
