#pragma once

#include <memory>
#include <string>

#include "apiserver/resource.h"
#include "apiserver/stored_object.h"
#include "base/error.h"
#include "krm/json.h"
#include "store/store.h"

namespace kintsugi::apiserver {

/// A resource in one of its served versions, with the texts that answers repeat. Immutable.
struct ServedKind {
  ResourcePtr def;
  const ResourceVersion* version = nullptr;  ///< of *def
  std::string api_version;                   ///< "ex.io/v1"
  std::string prefix;                        ///< kind_prefix of api_version and kind
  std::string storage_name;                  ///< resource part of store keys

  /// Made from a CustomResourceDefinition: values are stamped, and writes stay in this version
  /// until they are encoded.
  [[nodiscard]] bool is_custom() const noexcept { return version->schema_digest != 0; }
  /// Answers can be spliced from the bytes of this value.
  [[nodiscard]] bool is_stored_form(const StoredView& stored) const noexcept;
  /// The value is of another version and only the webhook can convert it.
  [[nodiscard]] bool needs_webhook(const StoredView& stored) const noexcept;
  [[nodiscard]] bool needs_webhook(std::string_view value) const noexcept;
  /// A stored value as an object of this version (revision 0: without resourceVersion), or, where
  /// that takes the webhook, as an object of the version that it was written in.
  /// @error kCorrupt
  [[nodiscard]] Expected<krm::Json> decode(std::string_view value, store::Revision revision) const;
  /// Rewrites an object of the storage version (with its apiVersion) to this one, and back. Objects
  /// of custom kinds lose what the other version's schema does not know.
  void from_storage(krm::Json& object) const;
  void to_storage(krm::Json& object) const;
  /// Custom kinds: drops what this version's schema does not know.
  void shape(krm::Json& object) const;
  /// Defaults come from the version that an object was written in, before it is converted.
  static void fill(const ResourceVersion& written, krm::Json& object);
};
using ServedKindPtr = std::shared_ptr<const ServedKind>;

/// @param version null: the storage version.
[[nodiscard]] ServedKindPtr make_served_kind(ResourcePtr def, const ResourceVersion* version);

/// The version as which stored bytes are to be understood without conversion: that of the stamp
/// where a webhook converts, else the storage version. Null: the definition has no such version.
[[nodiscard]] const ResourceVersion* written_version(const ResourceDef& def,
                                                     const StoredStamp& stamp) noexcept;

/// Resource part of store keys: the resource itself, with its identity if it has one
/// ("widgets.ex.io:<hash>"), or the one that it is a view of.
[[nodiscard]] std::string storage_name(const ResourceDef& def);

}  // namespace kintsugi::apiserver
