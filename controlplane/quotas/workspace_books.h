#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "store/books.h"

/// What a shard counts of each logical cluster, and of whoever owns workspaces (SE-093).
namespace kintsugi::controlplane {

/// Columns of the store's books.
enum class Quota : std::uint8_t {
  kBytes,        ///< of all stored values
  kObjects,      ///< but LogicalClusters, events and the owner's binding (KK-233)
  kDefinitions,  ///< CustomResourceDefinitions, and resources that APIBindings have bound
  kExports,
  kBindings,
  kNamespaces,
  kServiceAccounts,
  kChildren,  ///< Workspaces
  kOwned,     ///< Workspaces of one owner, wherever on the shard; in the account of owner_account()
};
inline constexpr std::size_t kQuotas = 9;

[[nodiscard]] constexpr std::size_t column_of(Quota quota) noexcept {
  return static_cast<std::size_t>(quota);
}
/// "objects", …: in options and the label `quota` of metrics.
[[nodiscard]] std::string_view quota_name(Quota quota) noexcept;
/// As a refusal names them: "objects", "CustomResourceDefinitions and bound schemas", …
[[nodiscard]] std::string_view quota_words(Quota quota) noexcept;

/// How a shard's store counts: one account for each logical cluster, by its name, and one for each
/// owner of workspaces, by the beginning of the annotation that names him, so "{…". What
/// APIBindings have bound is not counted where they are encrypted: it is read from the stored text.
[[nodiscard]] store::BookRules workspace_books() noexcept;
[[nodiscard]] constexpr bool is_owner_account(std::string_view account) noexcept {
  return account.starts_with('{');
}

}  // namespace kintsugi::controlplane
