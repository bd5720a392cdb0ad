#include "krm/types/builtin_types.h"

#include "krm/types/internal/tables.h"
#include "krm/types/internal/type_table.h"

namespace kintsugi::krm {

namespace {

const TypeTable& table() {
  static const TypeTable& instance =
      *new TypeTable({meta_types(), core_types(), events_types(), coordination_types(),
                      rbac_types(), authorization_types(), authentication_types(),
                      apiextensions_types(), admissionregistration_types()});
  return instance;
}

}  // namespace

SchemaPtr builtin_schema(std::string_view api_version, std::string_view kind) {
  if (kind == "DeleteOptions") {
    api_version = "v1";
  } else if (api_version == "meta.k8s.io/v1beta1") {
    api_version = "meta.k8s.io/v1";
  }
  return table().kind(api_version, kind);
}

SchemaPtr builtin_type(std::string_view name) { return table().type(name); }

const SchemaPtr& object_meta_schema() {
  static const SchemaPtr& schema = *new SchemaPtr(builtin_type("ObjectMeta"));
  return schema;
}

}  // namespace kintsugi::krm
