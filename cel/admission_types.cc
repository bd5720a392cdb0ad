#include "cel/internal/admission_types.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cel/admission.h"
#include "krm/types/builtin_types.h"

namespace kintsugi::cel {

namespace {

struct FieldRow {
  const char* name;
  TypePtr type;
};

/// A type by its fields; kept as long as the process.
const Declaration& object_type(const char* name, const std::vector<FieldRow>& rows) {
  auto& out = *new Declaration;
  for (const FieldRow& row : rows) {
    auto field = std::make_shared<Declaration>();
    field->type = row.type;
    out.fields[row.name] = std::move(field);
  }
  out.type = struct_type(name, &out);
  return out;
}

DeclarationPtr string_field() {
  auto out = std::make_shared<Declaration>();
  out->type = simple_type(TypeKind::kString);
  out->max_elements = static_cast<std::uint64_t>(kMaxRequest);
  return out;
}

bool recurs(const krm::Schema& schema, std::vector<const krm::Schema*>& open) {
  if (std::find(open.begin(), open.end(), &schema) != open.end()) {
    return true;
  }
  open.push_back(&schema);
  bool found = false;
  for (const krm::SchemaProperty& property : schema.properties) {
    found = found || (property.schema != nullptr && recurs(*property.schema, open));
  }
  for (const krm::SchemaPtr& below : {schema.items, schema.additional}) {
    found = found || (below != nullptr && recurs(*below, open));
  }
  open.pop_back();
  return found;
}

}  // namespace

const Declaration& admission_request_type() {
  static const Declaration& type = []() -> const Declaration& {
    const TypePtr text = simple_type(TypeKind::kString);
    const Declaration& kind = object_type("kubernetes.GroupVersionKind",
                                          {{"group", text}, {"version", text}, {"kind", text}});
    const Declaration& resource =
        object_type("kubernetes.GroupVersionResource",
                    {{"group", text}, {"version", text}, {"resource", text}});
    const Declaration& user =
        object_type("kubernetes.UserInfo", {{"username", text},
                                            {"uid", text},
                                            {"groups", list_type(text)},
                                            {"extra", map_type(text, list_type(text))}});
    return object_type("kubernetes.AdmissionRequest", {{"kind", kind.type},
                                                       {"resource", resource.type},
                                                       {"subResource", text},
                                                       {"requestKind", kind.type},
                                                       {"requestResource", resource.type},
                                                       {"requestSubResource", text},
                                                       {"name", text},
                                                       {"namespace", text},
                                                       {"operation", text},
                                                       {"userInfo", user.type},
                                                       {"dryRun", simple_type(TypeKind::kBool)},
                                                       {"options", simple_type(TypeKind::kDyn)}});
  }();
  return type;
}

const Declaration& namespace_type() {
  static const Declaration& type = []() -> const Declaration& {
    const TypePtr text = simple_type(TypeKind::kString);
    const TypePtr time = simple_type(TypeKind::kTimestamp);
    const TypePtr number = simple_type(TypeKind::kInt);
    const Declaration& spec =
        object_type("kubernetes.NamespaceSpec", {{"finalizers", list_type(text)}});
    const Declaration& condition =
        object_type("kubernetes.NamespaceCondition", {{"status", text},
                                                      {"type", text},
                                                      {"lastTransitionTime", time},
                                                      {"message", text},
                                                      {"reason", text}});
    const Declaration& status = object_type(
        "kubernetes.NamespaceStatus", {{"conditions", list_type(condition.type)}, {"phase", text}});
    const Declaration& metadata =
        object_type("kubernetes.NamespaceMetadata", {{"name", text},
                                                     {"generateName", text},
                                                     {"namespace", text},
                                                     {"labels", map_type(text, text)},
                                                     {"annotations", map_type(text, text)},
                                                     {"UID", text},
                                                     {"creationTimestamp", time},
                                                     {"deletionGracePeriodSeconds", number},
                                                     {"deletionTimestamp", time},
                                                     {"generation", number},
                                                     {"resourceVersion", text},
                                                     {"finalizers", list_type(text)}});
    return object_type("kubernetes.Namespace",
                       {{"metadata", metadata.type}, {"spec", spec.type}, {"status", status.type}});
  }();
  return type;
}

DeclarationPtr declare_object_type(const krm::Schema& schema, const std::string& name) {
  if (is_recursive(schema)) {
    return nullptr;
  }
  const DeclarationPtr found = declare(schema, false, name);
  if (found == nullptr || found->type->kind != TypeKind::kStruct) {
    return nullptr;
  }
  auto out = std::make_shared<Declaration>(*found);
  for (const char* field : {"apiVersion", "kind"}) {
    out->fields[field] = string_field();
  }
  out->fields["metadata"] = declare(*krm::object_meta_schema(), false, name + ".metadata");
  out->type = struct_type(name, out.get());
  return out;
}

bool is_recursive(const krm::Schema& schema) {
  std::vector<const krm::Schema*> open;
  return recurs(schema, open);
}

}  // namespace kintsugi::cel
