#pragma once

#include <string_view>

#include "krm/json.h"

/// What people read of the kcp kinds and their fields (`kubectl explain`, OpenAPI), as data beside
/// the documents that define them. A field without a text fails a unit test, and so does a text
/// without a field.
namespace kintsugi::controlplane {

/// Puts the texts into the schemas of a CustomResourceDefinition's versions. apiVersion, kind and
/// metadata of the object get theirs with those of all kinds.
void describe_document(krm::Json& definition);

/// The text of a field, "" when there is none.
/// @param kind  "workspaces.tenancy.kcp.io".
/// @param path  "spec.type.name", members of lists and maps like those of an object; "": the kind.
[[nodiscard]] std::string_view kind_text(std::string_view kind, std::string_view path);
/// The table, for its tests: a kind's name and its text, then its fields, indented; behind "shared"
/// the ends of paths that several kinds have, from the beginning of a member's name or, behind `*`,
/// from within one.
[[nodiscard]] std::string_view kind_texts();

}  // namespace kintsugi::controlplane
