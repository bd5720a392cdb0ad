#include "kinds/common.h"

#include <utility>

#include "base/strings.h"
#include "base/time.h"
#include "krm/age.h"
#include "krm/strict_time.h"
#include "krm/types/builtin_types.h"

namespace kintsugi::kinds {

namespace {

constexpr std::string_view kCreationDoc =
    "CreationTimestamp is a timestamp representing the server time when this object was created. "
    "It is not guaranteed to be set in happens-before order across separate operations. Clients "
    "may not set this value. It is represented in RFC3339 form and is in UTC.\n\nPopulated by the "
    "system. Read-only. Null for lists. More info: "
    "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata";

}  // namespace

apiserver::ResourceDef make_kind(std::string_view group, std::string_view version,
                                 std::string_view kind, std::string_view plural) {
  apiserver::ResourceDef out;
  out.group = group;
  out.kind = kind;
  out.list_kind = out.kind + "List";
  out.plural = plural;
  out.singular = to_lower(kind);
  out.builtin = true;
  out.unconditional_update = true;
  apiserver::ResourceVersion only;
  only.name = version;
  only.schema = krm::builtin_schema(out.api_version(version), kind);
  out.versions.push_back(std::move(only));
  return out;
}

void set_defaults_and_prepare(apiserver::Hooks& hooks, std::function<void(krm::Json&)> defaults,
                              Prepare prepare) {
  hooks.defaults = defaults;
  hooks.prepare = [defaults = std::move(defaults), prepare = std::move(prepare)](
                      const apiserver::WriteContext& context, krm::Json& object,
                      const krm::Json* old) {
    if (defaults) {
      defaults(object);
    }
    if (prepare) {
      prepare(context, object, old);
    }
  };
}

std::string age_text(std::string_view timestamp) {
  const auto instant = krm::parse_rfc3339(timestamp);
  if (!instant) {
    return "<unknown>";
  }
  return krm::age_text(unix_seconds() - instant->seconds);
}

apiserver::Column age_column() {
  apiserver::Column out;
  out.name = "Age";
  out.description = kCreationDoc;
  out.cell = [](const krm::Json& object) {
    return krm::Json(age_text(object.text({"metadata", "creationTimestamp"})));
  };
  return out;
}

apiserver::Column created_at_column() {
  apiserver::Column out;
  out.name = "Created At";
  out.type = "date";
  out.description = kCreationDoc;
  out.cell = [](const krm::Json& object) {
    const krm::Json* created = object.at({"metadata", "creationTimestamp"});
    return created == nullptr ? krm::Json() : *created;
  };
  return out;
}

bool is_set(const krm::Json& object, std::string_view key) {
  const krm::Json* member = object.find(key);
  return member != nullptr && !member->is_null();
}

bool same_member(const krm::Json& a, const krm::Json& b, std::string_view key) {
  if (!is_set(a, key) || !is_set(b, key)) {
    return is_set(a, key) == is_set(b, key);
  }
  return *a.find(key) == *b.find(key);
}

void copy_member(krm::Json& object, const krm::Json& old, std::string_view key) {
  if (const krm::Json* member = old.find(key)) {
    object[key] = *member;
  } else {
    object.erase(key);
  }
}

std::string go_struct_text(const krm::Json& object, std::span<const GoField> fields) {
  std::string out = "{";
  for (const GoField& field : fields) {
    if (out.size() > 1) {
      out += ',';
    }
    krm::append_json_string(out, field.shown);
    out += ':';
    krm::append_json_string(out, object.text({field.key}));
  }
  return out + '}';
}

std::vector<apiserver::ResourcePtr> builtin_kinds() {
  std::vector<apiserver::ResourcePtr> out;
  for (auto group : {core_kinds, admissionregistration_kinds, apiextensions_kinds,
                     coordination_kinds, events_kinds, rbac_kinds}) {
    for (apiserver::ResourcePtr& kind : group()) {
      out.push_back(std::move(kind));
    }
  }
  return out;
}

}  // namespace kintsugi::kinds
