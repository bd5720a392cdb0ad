#pragma once

#include <string>
#include <string_view>

#include "krm/json.h"

/// The protobuf form of OpenAPI v2 documents: messages of package openapi.v2 of gnostic
/// (AM-135). What the messages have no field for is left out.
namespace kintsugi::apiserver::internal {

/// Document {swagger, info, paths, definitions}.
/// @param paths        fields that append_openapi_path() wrote.
/// @param definitions  NamedSchema messages, each as field 1.
[[nodiscard]] std::string encode_openapi_document(std::string_view title, std::string_view version,
                                                  std::string_view paths,
                                                  std::string_view definitions);
/// Appends one path with its PathItem as a field of Paths.
void append_openapi_path(std::string& out, std::string_view path, const krm::Json& item);
/// A NamedSchema message.
[[nodiscard]] std::string encode_openapi_definition(std::string_view name, const krm::Json& schema);

}  // namespace kintsugi::apiserver::internal
