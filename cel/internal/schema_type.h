#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "cel/internal/type.h"
#include "krm/schema.h"

namespace kintsugi::cel {

struct Declaration;
using DeclarationPtr = std::shared_ptr<const Declaration>;

/// What expressions see of a structural schema: its type, and how large values can be. Immutable.
struct Declaration {
  TypePtr type;
  std::map<std::string, DeclarationPtr, std::less<>> fields;  ///< by escaped name
  DeclarationPtr key, element;                                ///< of lists and maps
  std::uint64_t max_elements = 0;  ///< code points, items or entries; 0 for anything else
  std::int64_t min_size = 1;       ///< of the JSON text [bytes]
};

/// Null when the schema is not visible (free-form values). A resource root and embedded resources
/// show apiVersion, kind and metadata.{name,generateName}.
[[nodiscard]] DeclarationPtr declare(const krm::Schema& schema, bool resource_root,
                                     const std::string& name = "selfType");

/// Requests of 3 MiB bound what a schema leaves open.
inline constexpr std::int64_t kMaxRequest = 3 * 1024 * 1024;

}  // namespace kintsugi::cel
