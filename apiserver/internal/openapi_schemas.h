#pragma once

#include <string>
#include <string_view>

#include "apiserver/resource.h"
#include "krm/json.h"
#include "krm/schema.h"

namespace kintsugi::apiserver::internal {

/// components.schemas of the document of one group version (AM-130, AM-132,
/// AM-133): made from krm::Schema, builtin types as components of their own, custom kinds with
/// everything but ObjectMeta inline. Descriptions of builtin types come from openapi_texts.h. A
/// builtin `required` list names the scalars
/// that Go writes always; a list type that a definition leaves out and one that it declares atomic
/// look alike (none is shown). Threads: as an int.
class OpenApiSchemas {
 public:
  OpenApiSchemas(std::string_view group, std::string_view version)
      : group_(group), version_(version) {}

  /// Writes a kind. @returns {"$ref": …}.
  krm::Json add_kind(const ResourceDef& def, const ResourceVersion& version);
  /// Writes the list of a kind. @returns {"$ref": …}.
  krm::Json add_list(const ResourceDef& def, const ResourceVersion& version);
  /// Writes a builtin type: "DeleteOptions", "Status", "Scale", "Patch". @returns {"$ref": …}.
  krm::Json add_type(std::string_view type_name);

  [[nodiscard]] krm::Json take() { return std::move(schemas_); }

 private:
  /// A component by reference, written when it is new.
  std::string named(const krm::Schema& schema);
  /// A type that JSON has no words for, such as Time.
  krm::Json leaf(std::string_view type_name, krm::Json body);
  krm::Json write(const krm::Schema& schema, bool builtin);
  krm::Json body(const krm::Schema& schema, bool builtin);
  void write_properties(const krm::Schema& schema, bool builtin, krm::Json& out);
  void write_list(const krm::Schema& schema, bool builtin, krm::Json& out);
  [[nodiscard]] krm::Json own_kind(std::string_view kind) const;
  [[nodiscard]] std::string component(const ResourceDef& def, std::string_view kind) const;

  std::string group_, version_;
  krm::Json schemas_ = krm::Json::object();
};

}  // namespace kintsugi::apiserver::internal
