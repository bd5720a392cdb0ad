#include <algorithm>

#include "base/strings.h"
#include "krm/finalizers.h"
#include "krm/names.h"
#include "krm/status.h"

namespace kintsugi::krm {
namespace {

constexpr std::size_t kMaxAnnotationBytes = 262'144;
constexpr std::size_t kMaxManagerBytes = 128;
constexpr std::size_t kMaxSubresourceBytes = 256;

void append_invalid(const Messages& messages, const std::string& field, const Json& value,
                    std::vector<Cause>& causes) {
  for (const std::string& message : messages) {
    causes.push_back(field_invalid(field, value, message));
  }
}

/// One owner reference as Go's struct prints it.
std::string owner_text(const Json& owner) {
  std::string out = "{";
  for (const std::string_view key :
       {"apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion"}) {
    const Json* value = owner.find(key);
    const bool optional = key == "controller" || key == "blockOwnerDeletion";
    if (optional && (value == nullptr || value->is_null())) {
      continue;
    }
    out.append(out.size() > 1 ? "," : "");
    append_json_string(out, key);
    out.push_back(':');
    if (value == nullptr || value->is_null()) {
      out.append("\"\"");
    } else {
      value->dump_to(out);
    }
  }
  out.push_back('}');
  return out;
}

Cause raw_invalid(std::string_view field, const std::string& value, const std::string& detail) {
  return {"FieldValueInvalid", "Invalid value: " + value + ": " + detail, std::string(field)};
}

void validate_owner(const Json& owner, const std::string& field, std::vector<Cause>& causes) {
  const std::string_view version = owner.text({"apiVersion"});
  const std::string_view kind = owner.text({"kind"});
  const std::size_t slash = version.find('/');
  const bool two_slashes =
      slash != std::string_view::npos && version.find('/', slash + 1) != std::string_view::npos;
  if (version.empty() || two_slashes ||
      (slash != std::string_view::npos && slash + 1 == version.size())) {
    causes.push_back(field_invalid(field + ".apiVersion", version, "version must not be empty"));
  }
  for (const std::string_view key : {"kind", "name", "uid"}) {
    if (owner.text({key}).empty()) {
      causes.push_back(field_invalid(field + "." + std::string(key), "", "must not be empty"));
    }
  }
  if (version == "v1" && kind == "Event") {
    causes.push_back(
        raw_invalid(field, owner_text(owner), "/v1, Kind=Event is disallowed from being an owner"));
  }
}

void validate_owners(const Json& owners, const std::string& field, std::vector<Cause>& causes) {
  std::string controller;
  for (const Json& owner : owners.items()) {
    validate_owner(owner, field, causes);
    const Json* flag = owner.find("controller");
    if (flag == nullptr || !flag->as_bool()) {
      continue;
    }
    std::string name(owner.text({"kind"}));
    name.append("/").append(owner.text({"name"}));
    if (controller.empty()) {
      controller = std::move(name);
      continue;
    }
    std::string all = "[";
    for (const Json& each : owners.items()) {
      all.append(all.size() > 1 ? "," : "").append(owner_text(each));
    }
    causes.push_back(raw_invalid(
        field, all + "]",
        "Only one reference can have Controller set to true. Found \"true\" in references for " +
            controller + " and " + name));
  }
}

void validate_finalizers(const Json& finalizers, const std::string& field, bool builtin,
                         std::vector<Cause>& causes) {
  bool orphan = false;
  bool foreground = false;
  for (const Json& each : finalizers.items()) {
    const std::string_view name = each.as_string();
    append_invalid(check_qualified_name(name), field, name, causes);
    orphan = orphan || name == kOrphanFinalizer;
    foreground = foreground || name == kForegroundFinalizer;
  }
  if (orphan && foreground) {
    causes.push_back(field_invalid(field, finalizers,
                                   "finalizer orphan and foregroundDeletion cannot be both set"));
  }
  for (std::size_t i = 0; builtin && i < finalizers.items().size(); ++i) {
    const std::string_view name = finalizers.items()[i].as_string();
    if (name.find('/') == std::string_view::npos && name != kOrphanFinalizer &&
        name != kForegroundFinalizer && name != kNamespaceFinalizer) {
      causes.push_back(
          field_invalid(field + "[" + std::to_string(i) + "]", name,
                        "name is neither a standard finalizer name nor is it fully qualified"));
    }
  }
}

const Json& member(const Json& object, std::string_view key) {
  static const Json kNull;
  const Json* found = object.find(key);
  return found == nullptr ? kNull : *found;
}

/// What else can be wrong with entries was refused, or dropped, where they were read.
void validate_managers(const Json& entries, const std::string& path, std::vector<Cause>& causes) {
  for (std::size_t i = 0; i < entries.items().size(); ++i) {
    const Json& entry = entries.items()[i];
    const std::string here = path + '[' + std::to_string(i) + ']';
    if (entry.text({"manager"}).size() > kMaxManagerBytes) {
      causes.push_back(field_too_long(here + ".manager", kMaxManagerBytes));
    }
    if (entry.text({"subresource"}).size() > kMaxSubresourceBytes) {
      causes.push_back(field_too_long(here + ".subresource", kMaxSubresourceBytes));
    }
  }
}

}  // namespace

void validate_labels(const Json& labels, std::string_view field, std::vector<Cause>& causes) {
  const std::string path(field);
  for (const JsonMember& label : labels.members()) {
    append_invalid(check_qualified_name(label.key), path, label.key, causes);
    const std::string_view value = label.value.as_string();
    append_invalid(check_label_value(value), path, value, causes);
  }
}

void validate_annotations(const Json& annotations, std::string_view field,
                          std::vector<Cause>& causes) {
  const std::string path(field);
  std::size_t bytes = 0;
  for (const JsonMember& annotation : annotations.members()) {
    // The rule is that of label keys, but the prefix may have capitals.
    append_invalid(check_qualified_name(to_lower(annotation.key)), path, annotation.key, causes);
    bytes += annotation.key.size() + annotation.value.as_string().size();
  }
  if (bytes > kMaxAnnotationBytes) {
    causes.push_back(field_too_long(path, kMaxAnnotationBytes));
  }
}

void validate_object_meta(const Json& meta, const MetaRules& rules, std::string_view field,
                          std::vector<Cause>& causes) {
  const std::string path = std::string(field) + ".";
  const std::string_view generate = meta.text({"generateName"});
  if (!generate.empty()) {
    append_invalid(check_name(rules.name, generate, true), path + "generateName", generate, causes);
  }
  const std::string_view name = meta.text({"name"});
  if (name.empty()) {
    causes.push_back(field_required(path + "name", "name or generateName is required"));
  } else {
    append_invalid(check_name(rules.name, name), path + "name", name, causes);
  }
  const std::string_view ns = meta.text({"namespace"});
  if (!rules.namespaced) {
    if (!ns.empty()) {
      causes.push_back(field_forbidden(path + "namespace", "not allowed on this type"));
    }
  } else if (ns.empty()) {
    causes.push_back(field_required(path + "namespace"));
  } else {
    append_invalid(check_dns1123_label(ns), path + "namespace", ns, causes);
  }
  const Json& generation = member(meta, "generation");
  if (generation.as_integer() < 0) {
    causes.push_back(
        field_invalid(path + "generation", generation, "must be greater than or equal to 0"));
  }
  validate_labels(member(meta, "labels"), path + "labels", causes);
  validate_annotations(member(meta, "annotations"), path + "annotations", causes);
  validate_owners(member(meta, "ownerReferences"), path + "ownerReferences", causes);
  validate_finalizers(member(meta, "finalizers"), path + "finalizers", rules.builtin, causes);
  validate_managers(member(meta, "managedFields"), path + "managedFields", causes);
}

}  // namespace kintsugi::krm
