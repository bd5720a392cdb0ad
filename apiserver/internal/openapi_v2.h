#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "krm/json.h"

/// OpenAPI v2 (Swagger 2.0) documents, made of v3 documents (AM-135,
/// AM-136).
namespace kintsugi::apiserver::internal {

/// What one v3 document gives to the v2 document, in one encoding. Documents of group versions are
/// shared by logical clusters, and so are their parts: a whole document is only put together.
struct OpenApiV2Part {
  /// Members of `paths`: JSON members separated by ',', or protobuf NamedPathItem fields.
  std::string paths;
  /// Members of `definitions` by name: `"name":{…}`, or protobuf NamedSchema messages.
  std::vector<std::pair<std::string, std::string>> definitions;
};

/// The v3 schema in the words of v2: references without allOf, int-or-string and nullable values
/// without a type, no alternatives; properties below x-kubernetes-preserve-unknown-fields are left
/// out, since clients of v2 refuse what is not named. Nesting above 100 becomes "anything".
/// @param builtin  zero values that Go has are not shown as defaults.
[[nodiscard]] krm::Json openapi_v2_schema(const krm::Json& v3, bool builtin);
/// One member of v3's paths in the words of v2.
[[nodiscard]] krm::Json openapi_v2_path_item(const krm::Json& v3);

[[nodiscard]] OpenApiV2Part openapi_v2_part(const krm::Json& v3, bool builtin, bool protobuf);

/// Writes a whole document of parts; of definitions with the same name the first counts.
class OpenApiV2Writer {
 public:
  explicit OpenApiV2Writer(bool protobuf) : protobuf_(protobuf) {}
  /// The part must live until take().
  void add(const OpenApiV2Part& part) { parts_.push_back(&part); }
  [[nodiscard]] std::string take(std::string_view title, std::string_view version) const;

 private:
  bool protobuf_;
  std::vector<const OpenApiV2Part*> parts_;
};

}  // namespace kintsugi::apiserver::internal
