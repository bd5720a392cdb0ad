#include <utility>

#include "krm/internal/structural_check.h"
#include "krm/status.h"
#include "krm/structural.h"

namespace kintsugi::krm {

namespace {

constexpr int kMaxDepth = 400;
constexpr std::string_view kHeld = "value";

/// Where a default stands inside apiVersion, kind or metadata of a resource.
struct MetaPlace {
  const Schema* resource = nullptr;  ///< null: not inside of them
  std::vector<std::string> steps;    ///< from the resource; "" is an item of a list

  [[nodiscard]] MetaPlace below(std::string step) const {
    MetaPlace out = *this;
    if (resource != nullptr) {
      out.steps.push_back(std::move(step));
    }
    return out;
  }
  /// The resource that has nothing but this value.
  [[nodiscard]] Json around(Json value) const {
    for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
      Json outer = step->empty() ? Json::array({std::move(value)}) : Json::object({});
      if (!step->empty()) {
        outer[*step] = std::move(value);
      }
      value = std::move(outer);
    }
    for (const auto& [key, text] :
         {std::pair("apiVersion", "validation/v1"), std::pair("kind", "Validation")}) {
      if (value.find(key) == nullptr) {
        value[key] = Json(text);
      }
    }
    return value;
  }
};

bool is_meta_field(std::string_view name) {
  return name == "apiVersion" || name == "kind" || name == "metadata";
}

/// Faults as Go prints an aggregate of them.
std::string aggregate(const std::vector<Cause>& faults) {
  std::string out;
  for (const Cause& fault : faults) {
    out += (out.empty() ? "" : ", ") + fault.field + ": " + fault.message;
  }
  return faults.size() == 1 ? out : '[' + out + ']';
}

class DefaultsCheck {
 public:
  DefaultsCheck(const DefaultRules& rules, std::vector<Cause>& causes)
      : rules_(rules), causes_(causes) {}

  void visit(const Json& json, const Schema& schema, const std::string& path,
             const MetaPlace& around, int depth) {
    if (depth > kMaxDepth || stopped_) {
      return;
    }
    const bool resource = schema.embedded_resource;
    const MetaPlace place = resource ? MetaPlace() : around;
    if (const Json* given = json.find("default"); given != nullptr && !given->is_null()) {
      check(json, schema, *given, path + ".default", place);
    }
    if (const Json* items = json.find("items"); items != nullptr && schema.items) {
      visit(*items, *schema.items, path + ".items", place.below({}), depth + 1);
    }
    const Json* properties = json.find("properties");
    if (properties == nullptr) {
      return;
    }
    for (const JsonMember& member : properties->members()) {
      const SchemaProperty* property = schema.property(member.key);
      if (property == nullptr) {
        continue;
      }
      const std::string here = path + ".properties[" + member.key + ']';
      if (resource && is_meta_field(member.key)) {
        const SchemaPtr declared = structural_schema(member.value, false);
        visit(member.value, *declared, here, MetaPlace{&schema, {member.key}}, depth + 1);
      } else {
        visit(member.value, *property->schema, here, place.below(member.key), depth + 1);
      }
    }
  }

 private:
  void check(const Json& json, const Schema& schema, const Json& value, const std::string& path,
             const MetaPlace& place) {
    const bool sound = place.resource != nullptr ? fits_metadata(value, path, place)
                                                 : fits_itself(schema, value, path);
    if (!sound) {
      return;
    }
    std::vector<Cause> faults;
    validate_value(schema, value, {}, faults);
    for (Cause& fault : faults) {
      const bool at_root = fault.field.empty() || fault.field == "<nil>";
      fault.field = at_root ? path : path + '.' + fault.field;
      causes_.push_back(std::move(fault));
    }
    if (faults.empty() && rules_) {
      stopped_ = !rules_(json, value, path, causes_);
    }
  }

  bool fits_metadata(const Json& value, const std::string& path, const MetaPlace& place) {
    Json object = place.around(value);
    std::string fault;
    if (const auto done = coerce_metadata(*place.resource, object); !done) {
      fault = done.error().message();
    } else {
      std::vector<Cause> faults;
      check_embedded_resources(*place.resource, object, {}, faults);
      fault = faults.empty() ? std::string() : aggregate(faults);
    }
    if (!fault.empty()) {
      causes_.push_back(field_invalid(path, value, "must result in valid metadata: " + fault));
    }
    return fault.empty();
  }

  bool fits_itself(const Schema& schema, const Json& value, const std::string& path) {
    Schema holder;
    holder.type = SchemaType::kObject;
    SchemaProperty property;
    property.name = kHeld;
    property.schema = SchemaPtr(SchemaPtr(), &schema);
    holder.properties.push_back(std::move(property));
    Json held = Json::object({{kHeld, value}});
    if (!prune(holder, held).empty()) {
      causes_.push_back(field_invalid(path, value, "must not have unknown fields"));
    }
    held = Json::object({{kHeld, value}});
    if (const auto done = coerce_metadata(holder, held); !done) {
      // "value.x.kind: Invalid value: 5: must be a string", or only what is wrong.
      const std::string text(done.error().message());
      const std::size_t end = text.find(": Invalid value: ");
      causes_.push_back(end == std::string::npos
                            ? field_invalid(path, value, text)
                            : Cause{"FieldValueInvalid", text.substr(end + 2),
                                    path + text.substr(kHeld.size(), end - kHeld.size())});
      return false;
    }
    const std::size_t before = causes_.size();
    check_embedded_resources(schema, value, path, causes_);
    return causes_.size() == before;
  }

  const DefaultRules& rules_;
  std::vector<Cause>& causes_;
  bool stopped_ = false;  ///< rules have cost too much
};

}  // namespace

void check_schema_defaults(const Json& schema, const std::string& path, const DefaultRules& rules,
                           std::vector<Cause>& causes) {
  Schema root = *structural_schema(schema, false);
  root.embedded_resource = true;
  DefaultsCheck(rules, causes).visit(schema, root, path, {}, 0);
}

}  // namespace kintsugi::krm
