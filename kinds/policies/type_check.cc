#include "kinds/policies/type_check.h"

#include <algorithm>
#include <memory>
#include <set>
#include <tuple>
#include <utility>

#include "cel/admission.h"
#include "kinds/policies/internal/params.h"

namespace kintsugi::kinds {
namespace {

using krm::Json;

constexpr std::size_t kMaxKinds = 10;

struct Kind {
  std::string group, version, kind;
  krm::SchemaPtr schema;
  bool operator<(const Kind& other) const {
    return std::tie(group, version, kind) < std::tie(other.group, other.version, other.kind);
  }
};

const Json::Array& items(const Json* object, std::string_view member) {
  static const Json::Array& none = *new Json::Array;
  const Json* list = object == nullptr ? nullptr : object->find(member);
  return list == nullptr ? none : list->items();
}

/// Sorted; none when one of them may be anything.
std::vector<std::string> names(const Json& rule, std::string_view member) {
  std::vector<std::string> out;
  for (const Json& name : items(&rule, member)) {
    if (name.as_string().find('*') != std::string_view::npos) {
      return {};
    }
    out.emplace_back(name.as_string());
  }
  std::sort(out.begin(), out.end());
  return out;
}

std::vector<std::string> resources(const Json& rule) {
  std::vector<std::string> out;
  for (const Json& name : items(&rule, "resources")) {
    if (name.as_string().find_first_of("*/") == std::string_view::npos) {
      out.emplace_back(name.as_string());
    }
  }
  std::sort(out.begin(), out.end());
  return out;
}

/// The kinds of one rule. @returns false when there are enough.
bool add_kinds(const Json& rule, const apiserver::Registry& registry, std::string_view cluster,
               std::set<Kind>& out) {
  std::size_t count = 0;
  for (const std::string& group : names(rule, "apiGroups")) {
    for (const std::string& version : names(rule, "apiVersions")) {
      for (const std::string& resource : resources(rule)) {
        const apiserver::ResourcePtr def = registry.find(cluster, group, resource);
        const apiserver::ResourceVersion* found = def == nullptr ? nullptr : def->version(version);
        if (found == nullptr || !found->served) {
          continue;
        }
        out.insert({group, version, def->kind, found->schema});
        if (++count == kMaxKinds) {
          return false;
        }
      }
    }
  }
  return true;
}

class TypeCheck {
 public:
  TypeCheck(const Json& policy, const apiserver::Registry& registry, std::string_view cluster)
      : spec_(policy.find("spec")) {
    const Json* constraints = spec_ == nullptr ? nullptr : spec_->find("matchConstraints");
    for (const Json& rule : items(constraints, "resourceRules")) {
      if (!add_kinds(rule, registry, cluster, kinds_)) {
        break;
      }
    }
    const krm::SchemaPtr params = find_params(registry, cluster);
    for (const Kind& kind : kinds_) {
      if (kind.schema == nullptr || cel::is_recursive(*kind.schema)) {
        continue;
      }
      auto environment = std::make_unique<cel::AdmissionEnvironment>(true, kind.schema, params);
      for (const Json& variable : items(spec_, "variables")) {
        // One that does not fit is not told about; what reads it sees any type.
        (void)environment->add_variable(variable.text({"name"}), variable.text({"expression"}),
                                        scope_);
      }
      environments_.emplace_back(kind.group + "/" + kind.version + ", Kind=" + kind.kind,
                                 std::move(environment));
    }
  }

  /// "" when it fits all kinds.
  [[nodiscard]] std::string check(std::string_view expression) const {
    std::string out;
    for (const auto& [kind, environment] : environments_) {
      cel::ExpressionFault fault;
      const bool fits =
          environment->compile(expression, cel::ResultType::kAny, scope_, fault) != nullptr;
      if (fits || fault.internal) {
        continue;
      }
      std::string_view detail = fault.detail;
      constexpr std::string_view kLead = "compilation failed: ";
      detail.remove_prefix(detail.starts_with(kLead) ? kLead.size() : 0);
      out += (out.empty() ? "" : "\n") + kind + ": " + std::string(detail) + "\n";
    }
    return out;
  }

  [[nodiscard]] std::vector<ExpressionWarning> run() const {
    std::vector<ExpressionWarning> out;
    const Json::Array& validations = items(spec_, "validations");
    for (std::size_t i = 0; i < validations.size(); ++i) {
      for (const char* member : {"expression", "messageExpression"}) {
        const std::string_view text = validations[i].text({member});
        std::string warning = text.empty() ? std::string() : check(text);
        if (!warning.empty()) {
          out.push_back(
              {"spec.validations[" + std::to_string(i) + "]." + member, std::move(warning)});
        }
      }
    }
    return out;
  }

 private:
  krm::SchemaPtr find_params(const apiserver::Registry& registry, std::string_view cluster) {
    const Json* kind = spec_ == nullptr ? nullptr : spec_->find("paramKind");
    if (kind == nullptr || !kind->is_object()) {
      return nullptr;
    }
    scope_.params = true;
    const GroupVersionName name = parse_kind(kind->text({"apiVersion"}), kind->text({"kind"}));
    const apiserver::ResourcePtr def = find_kind(registry, cluster, name);
    return def == nullptr ? nullptr : def->version(name.version)->schema;
  }

  const Json* spec_;
  std::set<Kind> kinds_;
  cel::ExpressionScope scope_{false, true};
  std::vector<std::pair<std::string, std::unique_ptr<cel::AdmissionEnvironment>>> environments_;
};

}  // namespace

std::vector<ExpressionWarning> check_policy_types(const Json& policy,
                                                  const apiserver::Registry& registry,
                                                  std::string_view cluster) {
  return TypeCheck(policy, registry, cluster).run();
}

}  // namespace kintsugi::kinds
