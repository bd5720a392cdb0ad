#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "krm/json.h"

namespace kintsugi::workers {

// AddressSpaces of the types standard and brokered that are to be translated: annotation
// enmasse.io/migrate-to: shared. The original and its addresses stay as they are; what is made
// stands beside them. Functions of their inputs alone. Source: MR-36, MS-093. Threads: any.

struct MigrationWish {
  std::string name;  ///< of the copy: annotation enmasse.io/migrate-name, else `<name>-shared`
  std::string plan;  ///< of it: annotation enmasse.io/migrate-plan, else the same name
  bool operator==(const MigrationWish&) const = default;
};
/// nullopt: it asks for nothing, or is shared already.
[[nodiscard]] std::optional<MigrationWish> migration_of(const krm::Json& space);

/// Which space a copy is of; "" for none.
[[nodiscard]] std::string_view migrated_from(const krm::Json& object) noexcept;

/// The copy, for a POST: its spec with type shared and that plan, its labels and other people's
/// annotations.
[[nodiscard]] krm::Json migrated_space(const krm::Json& space, const MigrationWish& wish);
/// Of Address `<space>.<local>` one of the copy. nullopt: its name is not of that form.
[[nodiscard]] std::optional<krm::Json> migrated_address(const krm::Json& address,
                                                        std::string_view space,
                                                        const MigrationWish& wish);
/// Name of that one; "" as above.
[[nodiscard]] std::string migrated_address_name(std::string_view address, std::string_view space,
                                                const MigrationWish& wish);

}  // namespace kintsugi::workers
