#include <utility>

#include "cel/internal/field_path.h"
#include "cel/internal/rule_set.h"
#include "krm/schema_type.h"
#include "krm/structural.h"

namespace kintsugi::cel {

namespace {

CompiledRule compile_rule(const krm::Schema::Rule& rule, const krm::Schema& schema,
                          const Declaration* declaration) {
  CompiledRule out;
  out.rule = &rule;
  if (rule.rule.find_first_not_of(" \t\r\n") == std::string::npos) {
    return out;
  }
  if (declaration == nullptr) {
    out.error = "failed to convert to declType for CEL validation rules";
    return out;
  }
  Compilation compiled = compile(rule.rule, *declaration, rule.optional_old_self, TypeKind::kBool);
  out.program = std::move(compiled.program);
  out.error = std::move(compiled.error);
  if (!rule.message_expression.empty()) {
    out.message =
        compile(rule.message_expression, *declaration, rule.optional_old_self, TypeKind::kString)
            .program;
  }
  out.field_path = field_path(rule.field_path, schema).value_or("");
  return out;
}

class Compiler {
 public:
  explicit Compiler(RuleSet& set) : set_(set) {}

  /// `rules` says which rules stand where, `schema` what the values are; they differ inside allOf.
  std::unique_ptr<RuleNode> node(const krm::Schema& rules, const krm::Schema& schema,
                                 const Declaration* declaration) {
    auto out = std::make_unique<RuleNode>();
    out->schema = &schema;
    out->type = krm::schema_type_name(schema.type);
    for (const krm::Schema::Rule& rule : rules.rules) {
      out->rules.push_back(compile_rule(rule, schema, declaration));
    }
    const Declaration* element = declaration == nullptr ? nullptr : declaration->element.get();
    if (rules.items && schema.items) {
      out->items = node(*rules.items, *schema.items, element);
    }
    if (rules.additional && schema.additional) {
      out->additional = node(*rules.additional, *schema.additional, element);
    }
    for (const krm::SchemaProperty& property : rules.properties) {
      const krm::SchemaProperty* value = schema.property(property.name);
      if (value == nullptr) {
        continue;
      }
      const Declaration* field = nullptr;
      if (std::string name; escape_name(property.name, name)) {
        const auto found = declaration == nullptr ? nullptr : find(declaration->fields, name);
        field = found;
      } else {
        set_.more.push_back(declare(*value->schema, value->schema->embedded_resource));
        field = set_.more.back().get();
      }
      if (field == nullptr) {
        continue;
      }
      if (auto below = node(*property.schema, *value->schema, field)) {
        out->properties[property.name] = std::move(below);
      }
    }
    for (const krm::SchemaPtr& part : rules.all_of) {
      if (auto branch = node(*part, schema, declaration)) {
        out->all_of.push_back(std::move(branch));
      }
    }
    const bool empty = out->rules.empty() && !out->items && !out->additional &&
                       out->properties.empty() && out->all_of.empty();
    return empty ? nullptr : std::move(out);
  }

 private:
  static const Declaration* find(const std::map<std::string, DeclarationPtr, std::less<>>& fields,
                                 const std::string& name) {
    const auto found = fields.find(name);
    return found == fields.end() ? nullptr : found->second.get();
  }

  RuleSet& set_;
};

}  // namespace

RuleSetPtr compile_rules(const krm::Json& schema) {
  auto out = std::make_shared<RuleSet>();
  out->schema = krm::structural_schema(schema, false);
  if (out->schema == nullptr || !krm::has_rules(*out->schema)) {
    return nullptr;
  }
  // The root is a resource whatever it says about itself.
  auto root = std::make_shared<krm::Schema>(*out->schema);
  root->embedded_resource = true;
  out->schema = std::move(root);
  out->declaration = declare(*out->schema, true);
  out->root = Compiler(*out).node(*out->schema, *out->schema, out->declaration.get());
  return out->root == nullptr ? nullptr : out;
}

}  // namespace kintsugi::cel
