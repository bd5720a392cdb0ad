#include "krm/internal/apply_check.h"

#include <set>
#include <string>
#include <vector>

#include "krm/go_text.h"
#include "krm/internal/field_set.h"
#include "krm/internal/typed_walk.h"

namespace kintsugi::krm {

namespace {

constexpr std::size_t kMaxFaults = 100;

/// A parsed value as Go prints it: %#v for `syntax`, else %v.
std::string go_value(const Json& value, bool syntax) {
  switch (value.type()) {
    case Json::Type::kNull:
      return syntax ? "interface {}(nil)" : "<nil>";
    case Json::Type::kString:
      return syntax ? go_quote(value.as_string()) : std::string(value.as_string());
    case Json::Type::kArray: {
      std::string out = syntax ? "[]interface {}{" : "[";
      bool first = true;
      for (const Json& item : value.items()) {
        out += first ? "" : syntax ? ", " : " ";
        first = false;
        out += go_value(item, syntax);
      }
      return out + (syntax ? "}" : "]");
    }
    case Json::Type::kObject: {
      std::string out = syntax ? "map[string]interface {}{" : "map[";
      bool first = true;
      for (const JsonMember& member : value.members()) {
        out += first ? "" : syntax ? ", " : " ";
        first = false;
        out += (syntax ? go_quote(member.key) : member.key) + ":" + go_value(member.value, syntax);
      }
      return out + (syntax ? "}" : "]");
    }
    default:
      return value.dump();
  }
}

std::string_view go_type(const Json& value) {
  switch (value.type()) {
    case Json::Type::kString:
      return "string";
    case Json::Type::kBool:
      return "bool";
    case Json::Type::kArray:
      return "[]interface {}";
    case Json::Type::kObject:
      return "map[string]interface {}";
    default:
      return "float64";
  }
}

std::string shown(const Json& value) { return "&{" + go_value(value, false) + "}"; }

/// Why an item has no element.
std::string item_fault(const Schema& list, const Json& item) {
  if (list.list_type == ListType::kSet) {
    if (item.is_object()) {
      return "associative list without keys has an element that's a map type";
    }
    return item.is_array() ? "not supported: associative list with lists as elements"
                           : "associative list without keys has an element that's an explicit null";
  }
  if (item.is_null()) {
    return "associative list with keys may not have a null element";
  }
  if (!item.is_object()) {
    return "associative list with keys may not have non-map elements";
  }
  std::string keys;
  for (const std::string& key : list.list_map_keys) {
    keys += (keys.empty() ? "" : " ") + go_quote(key);
  }
  return "associative list with keys has an element that omits all key fields [" + keys +
         "] (and doesn't have default values for any key fields)";
}

class Checker {
 public:
  /// @param open unknown fields are kept, because this schema or one around it says so.
  void visit(const Schema* schema, const Json& value, bool open) {
    if (schema == nullptr || value.is_null()) {
      return;
    }
    open = schema->preserve_unknown || (open && schema->type_name.empty());
    switch (schema->type) {
      case SchemaType::kObject:
        if (value.is_object()) {
          map(*schema, value, open);
        } else {
          report("expected map, got " + shown(value));
        }
        break;
      case SchemaType::kArray:
        if (value.is_array()) {
          list(*schema, value, open);
        } else {
          report("expected list, got " + shown(value));
        }
        break;
      case SchemaType::kAny:
        if (value.is_object() && !schema->properties.empty()) {
          map(*schema, value, open);
        }
        break;
      case SchemaType::kIntOrString:
        break;
      default:
        scalar(*schema, value);
    }
  }

  Expected<void> result() {
    if (faults_.empty()) {
      return {};
    }
    if (faults_.size() == 1) {
      return fail(Errc::kBadRequest, faults_[0]);
    }
    std::string text = "errors:";
    for (const std::string& fault : faults_) {
      text += "\n  " + fault;
    }
    return fail(Errc::kBadRequest, std::move(text));
  }

 private:
  void report(const std::string& fault) {
    if (faults_.size() < kMaxFaults) {
      faults_.push_back(path_.empty() ? fault : path_ + ": " + fault);
    }
  }

  void below(const std::string& step, const Schema* schema, const Json& value, bool open) {
    const std::size_t size = path_.size();
    path_ += step;
    visit(schema, value, open);
    path_.resize(size);
  }

  void scalar(const Schema& schema, const Json& value) {
    const bool composite = value.is_array() || value.is_object();
    if (is_untyped(schema)) {
      if (composite) {
        report("expected any scalar, got " + shown(value));
      }
    } else if (schema.type == SchemaType::kString) {
      if (!value.is_string()) {
        report("expected string, got &value.valueUnstructured{Value:" + go_value(value, true) +
               "}");
      }
    } else if (schema.type == SchemaType::kBoolean) {
      if (!value.is_bool()) {
        report("expected boolean, got " + shown(value));
      }
    } else if (!value.is_number()) {
      report("expected numeric (int or float), got " + std::string(go_type(value)));
    }
  }

  void list(const Schema& schema, const Json& value, bool open) {
    std::set<std::string> seen;
    std::size_t index = 0;
    for (const Json& item : value.items()) {
      std::string step = "[" + std::to_string(index) + "]";
      if (schema.list_type != ListType::kAtomic) {
        std::string element = list_item_element(schema, item);
        if (element.empty()) {
          report("element " + std::to_string(index) + ": " + item_fault(schema, item));
          return;  // as the reference: nothing after it can be named
        }
        step = FieldSet::path_text({element});
        if (!seen.insert(std::move(element)).second) {
          report("duplicate entries for key " + step);
        }
      }
      below(step, schema.items.get(), item, open);
      ++index;
    }
  }

  void map(const Schema& schema, const Json& value, bool open) {
    const bool free_form = schema.properties.empty() || open;
    for (const JsonMember& member : value.members()) {
      const Schema* next = member_schema(&schema, member.key);
      if (next == nullptr && !declares(&schema, member.key) && !free_form) {
        const std::size_t size = path_.size();
        path_ += "." + member.key;
        report("field not declared in schema");
        path_.resize(size);
        continue;
      }
      below("." + member.key, next, member.value, open);
    }
  }

  std::string path_;
  std::vector<std::string> faults_;
};

}  // namespace

Expected<void> check_configuration(const Schema* schema, const Json& config) {
  Checker checker;
  checker.visit(schema, config, false);
  return checker.result();
}

}  // namespace kintsugi::krm
