#include "controlplane/catalog/conversion_rules.h"

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "cel/transformation.h"
#include "controlplane/internal/names.h"
#include "krm/status.h"
#include "krm/structural.h"

namespace kintsugi::controlplane {
namespace {

using krm::Json;

/// Before a version, on an object of another one: what is to be preserved of that, as JSON.
constexpr std::string_view kPreservePrefix = "preserve.conversion.apis.kcp.io/";

using Path = std::vector<std::string>;

struct Rule {
  std::string from_text, to_text;
  Path from, to;
  cel::TransformationPtr transformation;  // null: the value as it is
};
struct Preserved {
  std::string text;  // without the leading dot, as annotations have it
  Path path;
  krm::SchemaPtr schema;  // of what stands there
};
/// Of one version.
struct Source {
  std::map<std::string, std::vector<Rule>, std::less<>> rules;  // by target
  std::vector<Preserved> preserved;
};
struct Compiled {
  std::string fault;  // "": none
  std::map<std::string, Source, std::less<>> sources;
};

std::string_view without_dot(std::string_view text) {
  return text.starts_with('.') ? text.substr(1) : text;
}

Path split_path(std::string_view text) {
  Path out;
  text = without_dot(text);
  while (true) {
    const std::size_t dot = text.find('.');
    out.emplace_back(text.substr(0, dot));
    if (dot == std::string_view::npos) {
      return out;
    }
    text.remove_prefix(dot + 1);
  }
}

/// What the server says of an object, whatever rules say.
bool is_of_server(const Path& path) {
  return path[0] == "apiVersion" || path[0] == "kind" || path[0] == "metadata" ||
         std::find(path.begin(), path.end(), "") != path.end();
}

/// The schema of a part. Null, and why in `fault`: there is none.
krm::SchemaPtr schema_at(krm::SchemaPtr schema, const Path& path, std::string& fault) {
  std::string visited;
  for (const std::string& field : path) {
    if (schema == nullptr || schema->type != krm::SchemaType::kObject) {
      fault = "expected field \"" + visited + "\" to be an object";
      return nullptr;
    }
    visited += (visited.empty() ? "" : ".") + field;
    const krm::SchemaProperty* property = schema->property(field);
    if (property == nullptr && schema->additional != nullptr) {
      property = schema->additional->property(field);
    }
    if (property == nullptr) {
      fault = "field \"" + visited + "\" doesn't exist";
      return nullptr;
    }
    schema = property->schema;
  }
  return schema;
}

const Json* part_at(const Json& object, const Path& path) {
  const Json* part = &object;
  for (const std::string& field : path) {
    part = part->find(field);
    if (part == nullptr) {
      return nullptr;
    }
  }
  return part;
}

/// False: something on the way is no object.
bool set_part(Json& object, const Path& path, Json value) {
  Json* part = &object;
  for (const std::string& field : path) {
    if (!part->is_object() && !part->is_null()) {
      return false;
    }
    part = &(*part)[field];
  }
  *part = std::move(value);
  return true;
}

void erase_part(Json& object, const Path& path) {
  Json* part = &object;
  for (std::size_t i = 0; i + 1 < path.size() && part != nullptr; ++i) {
    part = part->find(path[i]);
  }
  if (part != nullptr) {
    part->erase(path.back());
  }
}

std::string text_of(const Cause& cause) { return cause.field + ": " + cause.message; }

std::vector<Json> items_of(const Json& object, std::string_view member) {
  const Json* list = object.find(member);
  return list == nullptr ? std::vector<Json>() : std::vector<Json>(list->items());
}

class Compiler {
 public:
  explicit Compiler(const apiserver::ResourceDef& def) : def_(def) {}

  Compiled compile(const Json& conversion) {
    const Json* spec = conversion.find("spec");
    const std::vector<Json> all =
        spec == nullptr ? std::vector<Json>() : items_of(*spec, "conversions");
    for (std::size_t i = 0; i < all.size(); ++i) {
      add(all[i], "spec.conversions[" + std::to_string(i) + "]");
    }
    if (faults_.size() == 1) {
      out_.fault = faults_.front();
    } else if (!faults_.empty()) {
      out_.fault = "[" + join(faults_, ", ") + "]";
    }
    return std::move(out_);
  }

 private:
  void refuse(const std::string& field, std::string_view value, std::string_view detail) {
    faults_.push_back(text_of(krm::field_invalid(field, Json(value), detail)));
  }

  void add(const Json& conversion, const std::string& at) {
    const std::string from(conversion.text({"from"}));
    const apiserver::ResourceVersion* version = def_.version(from);
    if (version == nullptr || version->schema == nullptr) {
      refuse(at + ".from", from, "unable to find structural schema for version");
      return;
    }
    Source& source = out_.sources[from];
    std::vector<Rule>& rules = source.rules[std::string(conversion.text({"to"}))];
    const std::vector<Json> given = items_of(conversion, "rules");
    for (std::size_t i = 0; i < given.size(); ++i) {
      add_rule(given[i], version->schema, at + ".rules[" + std::to_string(i) + "]", rules);
    }
    for (const Json& field : items_of(conversion, "preserve")) {
      Preserved preserved;
      preserved.text = without_dot(field.as_string());
      preserved.path = split_path(field.as_string());
      std::string none;
      preserved.schema = schema_at(version->schema, preserved.path, none);
      if (preserved.schema != nullptr && !is_of_server(preserved.path)) {
        source.preserved.push_back(std::move(preserved));
      }
    }
  }

  void add_rule(const Json& given, const krm::SchemaPtr& schema, const std::string& at,
                std::vector<Rule>& rules) {
    Rule rule;
    rule.from_text = given.text({"field"});
    rule.to_text = given.text({"destination"});
    rule.from = split_path(rule.from_text);
    rule.to = split_path(rule.to_text);
    std::string fault;
    const krm::SchemaPtr part = schema_at(schema, rule.from, fault);
    if (part == nullptr) {
      refuse(at + ".field", rule.from_text, fault);
      return;
    }
    if (is_of_server(rule.to)) {
      refuse(at + ".destination", rule.to_text, "must be a field of the object's own content");
      return;
    }
    const std::string_view expression = given.text({"transformation"});
    if (!expression.empty()) {
      rule.transformation = cel::compile_transformation(expression, part, fault);
      if (rule.transformation == nullptr) {
        refuse(at + ".transformation", expression, fault);
        return;
      }
    }
    rules.push_back(std::move(rule));
  }

  const apiserver::ResourceDef& def_;
  Compiled out_;
  std::vector<std::string> faults_;
};

std::string version_of(const Json& object) {
  const std::string_view version = object.text({"apiVersion"});
  return std::string(version.substr(version.rfind('/') + 1));
}

Error failed(std::string text) { return Error(Errc::kInvalid, std::move(text)); }

Expected<void> apply_rules(const std::vector<Rule>& rules, const Json& object, Json& out,
                           std::uint64_t& spent) {
  for (const Rule& rule : rules) {
    const Json* value = part_at(object, rule.from);
    if (value == nullptr) {
      erase_part(out, rule.to);
      continue;
    }
    Json made = *value;
    if (rule.transformation != nullptr) {
      Expected<Json> result = cel::evaluate_transformation(*rule.transformation, *value, spent);
      if (!result) {
        return fail(failed("error converting: " + std::string(result.error().message())));
      }
      made = std::move(*result);
    }
    if (!set_part(out, rule.to, std::move(made))) {
      return fail(failed("error setting destination field \"" + rule.to_text +
                         "\": what holds it is not an object"));
    }
  }
  return {};
}

std::string preserve_key(std::string_view version) {
  return std::string(kPreservePrefix) + std::string(version);
}

/// Puts back what an earlier conversion from this version has kept. Whoever writes the object
/// writes the annotation: only fields that are to be preserved come back, and only what fits.
void restore(const Source& target, std::string_view kept, Json& out) {
  const Expected<Json> values = Json::parse(kept);
  if (!values) {
    return;
  }
  for (const Preserved& field : target.preserved) {
    const Json* value = values->find(field.text);
    if (value == nullptr) {
      continue;
    }
    std::vector<Cause> causes;
    krm::validate_value(*field.schema, *value, field.text, causes);
    if (causes.empty()) {
      static_cast<void>(set_part(out, field.path, *value));
    }
  }
}

void preserve(const Source& source, std::string_view version, const Json& object, Json& out) {
  Json kept = Json::object();
  for (const Preserved& field : source.preserved) {
    if (const Json* value = part_at(object, field.path)) {
      kept[field.text] = *value;
    }
  }
  if (kept.size() != 0) {
    out.make({"metadata", "annotations", preserve_key(version)}) = kept.dump();
  }
}

Expected<Json> convert(const Compiled& compiled, const std::string& api_version, const Json& object,
                       std::string_view to, std::uint64_t& spent) {
  if (!compiled.fault.empty()) {
    return fail(
        failed("error getting converter: error compiling conversion rules: " + compiled.fault));
  }
  const std::string from = version_of(object);
  Json out = object;
  out["apiVersion"] = api_version;
  const auto source = compiled.sources.find(from);
  if (source != compiled.sources.end()) {
    if (const auto rules = source->second.rules.find(to); rules != source->second.rules.end()) {
      if (auto done = apply_rules(rules->second, object, out, spent); !done) {
        return fail(std::move(done.error()));
      }
    }
  }
  const std::string key = preserve_key(to);
  const std::string kept(object.text({"metadata", "annotations", key}));
  if (!kept.empty()) {
    if (const auto target = compiled.sources.find(to); target != compiled.sources.end()) {
      restore(target->second, kept, out);
    }
    Json* annotations = out.at({"metadata", "annotations"});
    annotations->erase(key);
    if (annotations->size() == 0) {
      out["metadata"].erase("annotations");
    }
  } else if (source != compiled.sources.end()) {
    preserve(source->second, from, object, out);
  }
  return out;
}

}  // namespace

std::optional<Json> conversion_of(const apiserver::ObjectReader& reader, std::string_view cluster,
                                  std::string_view name) {
  if (cluster.empty() || name.empty()) {
    return std::nullopt;
  }
  std::optional<Json> own = reader.get(cluster, kApisGroup, kApiConversions, "", name);
  return own ? own : reader.get(cluster, kinds::kReplicaGroup, kApiConversions, "", name);
}

apiserver::ResourcePtr with_conversion(apiserver::ResourcePtr def,
                                       const std::optional<Json>& conversion) {
  if (def == nullptr || !conversion) {
    return def;
  }
  auto out = std::make_shared<apiserver::ResourceDef>(*def);
  auto rules = std::make_shared<apiserver::ConversionWebhook>();
  rules->rules = [compiled = std::make_shared<const Compiled>(Compiler(*def).compile(*conversion)),
                  group = def->group](const Json& object, const apiserver::ResourceVersion& to,
                                      std::uint64_t& spent) {
    const std::string api_version = group.empty() ? to.name : group + "/" + to.name;
    return convert(*compiled, api_version, object, to.name, spent);
  };
  out->webhook = std::move(rules);
  return out;
}

}  // namespace kintsugi::controlplane
