#pragma once

#include <memory>
#include <string>

#include "apiserver/resource.h"
#include "base/error.h"
#include "krm/json.h"
#include "store/store.h"

namespace kintsugi::apiserver::internal {

/// A resource in one of its served versions, with the texts that answers repeat. Immutable.
struct ServedKind {
  ResourcePtr def;
  const ResourceVersion* version = nullptr;  ///< of *def
  std::string api_version;                   ///< "ex.io/v1"
  std::string prefix;                        ///< kind_prefix of api_version and kind
  std::string storage_name;                  ///< resource part of store keys

  /// Answers can be spliced from stored bytes.
  [[nodiscard]] bool is_stored_form() const noexcept { return version->from_storage == nullptr; }
  /// A stored value as an object of this version (revision 0: without resourceVersion).
  /// @error kCorrupt
  [[nodiscard]] Expected<krm::Json> decode(std::string_view value, store::Revision revision) const;
  /// Rewrites an object of the storage version (with its apiVersion) to this one, and back.
  void from_storage(krm::Json& object) const;
  void to_storage(krm::Json& object) const;
};
using ServedKindPtr = std::shared_ptr<const ServedKind>;

/// @param version null: the storage version.
[[nodiscard]] ServedKindPtr make_served_kind(ResourcePtr def, const ResourceVersion* version);

/// Resource part of store keys: the resource itself or the one that it is a view of.
[[nodiscard]] std::string storage_name(const ResourceDef& def);

}  // namespace kintsugi::apiserver::internal
