#include <algorithm>
#include <map>
#include <utility>

#include "base/strings.h"
#include "krm/internal/structural_check.h"
#include "krm/names.h"
#include "krm/status.h"
#include "krm/structural.h"

namespace kintsugi::krm {

namespace {

/// Others have nothing in them that could be an embedded resource or a list.
bool has_parts(const Json& value) noexcept { return value.is_object() || value.is_array(); }

void check_embedded(const Schema& schema, const Json& value, const std::string& path, bool root,
                    std::vector<Cause>& causes) {
  const auto child = [&](std::string_view key) {
    return path.empty() ? std::string(key) : path + '.' + std::string(key);
  };
  if (value.is_array()) {
    std::size_t index = 0;
    for (const Json& item : value.items()) {
      if (schema.items) {
        check_embedded(*schema.items, item, path + '[' + std::to_string(index) + ']', false,
                       causes);
      }
      ++index;
    }
    return;
  }
  if (!value.is_object()) {
    return;
  }
  if (schema.embedded_resource && !root) {
    for (std::string_view key : {"apiVersion", "kind"}) {
      const Json* text = value.find(key);
      if (text == nullptr) {
        causes.push_back(field_required(child(key)));
      } else if (!text->is_string()) {
        causes.push_back(field_invalid(child(key), *text, "must be a string"));
      } else if (text->as_string().empty()) {
        causes.push_back(field_invalid(child(key), *text, "must not be empty"));
      } else if (key == "kind") {
        const auto faults = check_dns1035_label(to_lower(text->as_string()));
        if (!faults.empty()) {
          causes.push_back(field_invalid(
              child(key), *text,
              "may have mixed case, but should otherwise match: " + join(faults, ",")));
        }
      } else if (std::count(text->as_string().begin(), text->as_string().end(), '/') > 1) {
        causes.push_back(
            field_invalid(child(key), *text,
                          "unexpected GroupVersion string: " + std::string(text->as_string())));
      }
    }
    if (const Json* meta = value.find("metadata"); meta != nullptr && meta->is_object()) {
      Json named = *meta;
      if (named.text({"name"}).empty()) {
        named["name"] = Json("fakename");
      }
      MetaRules rules;
      rules.namespaced = !named.text({"namespace"}).empty();
      rules.name = NameRule::kPathSegment;
      validate_object_meta(named, rules, child("metadata"), causes);
    }
  }
  for (const JsonMember& member : value.members()) {
    if (!has_parts(member.value)) {
      continue;
    }
    const SchemaProperty* property = schema.property(member.key);
    const Schema* next = property != nullptr ? property->schema.get() : schema.additional.get();
    if (next != nullptr && next->type_name.empty()) {
      const std::string here =
          property != nullptr ? child(member.key) : path + '[' + member.key + ']';
      check_embedded(*next, member.value, here, false, causes);
    }
  }
}

Json keys_of(const Schema& schema, const Json& item) {
  Json out = Json::object();
  for (const std::string& key : schema.list_map_keys) {
    if (const Json* value = item.find(key)) {
      out[key] = *value;
    }
  }
  return out;
}

void check_lists(const Schema& schema, const Json& value, const std::string& path,
                 std::vector<Cause>& causes) {
  if (value.is_array()) {
    const auto at = [&](std::size_t index) { return path + '[' + std::to_string(index) + ']'; };
    std::map<std::string, int> seen;
    for (std::size_t i = 0; i < value.items().size(); ++i) {
      const Json& item = value.items()[i];
      if (schema.list_type == ListType::kSet) {
        if (++seen[item.dump()] == 2) {
          causes.push_back(field_duplicate(at(i), item));
        }
      } else if (schema.list_type == ListType::kMap) {
        if (!item.is_object() && !item.is_null()) {
          causes.push_back(
              field_invalid(at(i), item, "must be an object for an array of list-type map"));
          return;
        }
        Json keys = keys_of(schema, item);
        if (++seen[keys.dump()] == 2) {
          causes.push_back(field_duplicate(at(i), keys));
        }
      }
    }
    for (std::size_t i = 0; schema.items && i < value.items().size(); ++i) {
      check_lists(*schema.items, value.items()[i], at(i), causes);
    }
    return;
  }
  for (const JsonMember& member : value.members()) {
    if (!has_parts(member.value)) {
      continue;
    }
    const SchemaProperty* property = schema.property(member.key);
    const Schema* next = property != nullptr ? property->schema.get() : schema.additional.get();
    if (next == nullptr || !next->type_name.empty()) {
      continue;
    }
    const std::string here = property == nullptr ? path + '[' + member.key + ']'
                             : path.empty()      ? member.key
                                                 : path + '.' + member.key;
    check_lists(*next, member.value, here, causes);
  }
}

/// Adds what `check` finds, unless it finds something in the stored object too.
template <class Check>
void add_unless_old(const Json& object, const Json* old, std::vector<Cause>& causes, Check check) {
  std::vector<Cause> found;
  check(object, found);
  if (!found.empty() && old != nullptr) {
    std::vector<Cause> before;
    check(*old, before);
    if (!before.empty()) {
      return;
    }
  }
  std::move(found.begin(), found.end(), std::back_inserter(causes));
}

/// Embedded resources, list sets and maps.
void validate_shapes(const Schema& schema, const Json& object, std::vector<Cause>& causes,
                     const Json* old) {
  add_unless_old(object, old, causes, [&](const Json& value, std::vector<Cause>& found) {
    check_embedded(schema, value, {}, true, found);
  });
  add_unless_old(object, old, causes, [&](const Json& value, std::vector<Cause>& found) {
    check_lists(schema, value, {}, found);
  });
}

}  // namespace

void check_embedded_resources(const Schema& schema, const Json& value, const std::string& path,
                              std::vector<Cause>& causes) {
  check_embedded(schema, value, path, false, causes);
}

void validate_object(const Schema& schema, const Json& object, std::vector<Cause>& causes,
                     const Json* old) {
  validate_value(schema, object, {}, causes, old);
  validate_shapes(schema, object, causes, old);
}

void validate_status(const Schema& schema, const Json& object, std::vector<Cause>& causes,
                     const Json* old) {
  const SchemaProperty* property = schema.property("status");
  const Json* status = object.find("status");
  if (property != nullptr && status != nullptr) {
    std::vector<Cause> found;
    validate_value(*property->schema, *status, {}, found,
                   old == nullptr ? nullptr : old->find("status"));
    for (Cause& cause : found) {
      const bool at_root = cause.field.empty() || cause.field == "<nil>";
      cause.field = at_root ? "status" : "status." + cause.field;
      causes.push_back(std::move(cause));
    }
  }
  validate_shapes(schema, object, causes, old);
}

bool blocks_rules(const std::vector<Cause>& causes) noexcept {
  return std::any_of(causes.begin(), causes.end(), [](const Cause& cause) {
    return cause.reason == "FieldValueNotSupported" || cause.reason == "FieldValueRequired" ||
           cause.reason == "FieldValueTooLong" || cause.reason == "FieldValueTooMany" ||
           cause.reason == "FieldValueTypeInvalid";
  });
}

Cause rules_not_checked() {
  return field_invalid("<nil>", Json(),
                       "some validation rules were not checked because the object was invalid; "
                       "correct the existing errors to complete validation");
}

}  // namespace kintsugi::krm
