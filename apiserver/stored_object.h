#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"
#include "krm/json.h"
#include "store/store.h"

/// How an object lies in the store, so that answers are spliced from bytes without parsing.
/// Shape: 4 bytes (big endian): a flag and, in the lower 3 bytes, the offset into the text of the
/// place between the quotes of metadata.resourceVersion; with flag 1 a stamp: 8 bytes (big endian)
/// schema digest, 1 byte length, that many bytes version name; then compact JSON
/// `{"metadata":{…,"resourceVersion":"",…},…}`: metadata first, no apiVersion, no kind, other keys
/// sorted. Objects lie in their storage version, or in the one that the stamp says.
namespace kintsugi::apiserver {

/// In which version a custom object was written, and under which schema. Kinds whose schemas do not
/// change have none.
struct StoredStamp {
  std::string_view version;         ///< "v1", at most 63 bytes; "": no stamp
  std::uint64_t schema_digest = 0;  ///< 0: not shaped by the schema of that version
};

/// A stored value understood. Views into the value. Cost of parse: one bounds check.
struct StoredView {
  std::string_view before;  ///< from '{' to the opening quote of the resourceVersion, inclusive
  std::string_view after;   ///< from its closing quote to the final '}'
  StoredStamp stamp;

  /// The whole JSON text.
  [[nodiscard]] std::string_view text() const noexcept {
    return {before.data(), before.size() + after.size()};
  }

  /// @error kCorrupt
  [[nodiscard]] static Expected<StoredView> parse(std::string_view value);
};

/// @param object apiVersion, kind and resourceVersion in it are left out.
[[nodiscard]] std::string encode_stored(const krm::Json& object, const StoredStamp& stamp = {});

/// The object with resourceVersion set to `revision` (0: member left out) and apiVersion and kind.
/// @error kCorrupt
[[nodiscard]] Expected<krm::Json> decode_stored(std::string_view value,
                                                std::string_view api_version, std::string_view kind,
                                                store::Revision revision);

/// `"apiVersion":"v1","kind":"ConfigMap",`, made once per resource version.
[[nodiscard]] std::string kind_prefix(std::string_view api_version, std::string_view kind);

/// Appends the whole object: '{', `prefix` (kind_prefix or "" for items of builtin lists), the rest
/// with the revision's digits spliced in.
void append_object(std::string& out, const StoredView& stored, std::string_view prefix,
                   store::Revision revision);

/// The text of the member "metadata" split around the resourceVersion, for
/// PartialObjectMetadata. Cost: one scan of the metadata after the resourceVersion.
struct MetadataView {
  std::string_view before;  ///< from '{'
  std::string_view after;   ///< to the closing '}' of metadata
};
[[nodiscard]] MetadataView metadata_of(const StoredView& stored) noexcept;

/// The text of a member of metadata that sorts before resourceVersion (labels, name, namespace),
/// "" when absent. Cost: one scan up to it. Never parses values.
[[nodiscard]] std::string_view metadata_member(const StoredView& stored,
                                               std::string_view name) noexcept;

/// End of the JSON value that begins at `text[begin]` (valid JSON is assumed; never reads beyond
/// `text`).
[[nodiscard]] std::size_t skip_json_value(std::string_view text, std::size_t begin) noexcept;

}  // namespace kintsugi::apiserver
