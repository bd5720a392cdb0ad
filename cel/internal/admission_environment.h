#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cel/admission.h"
#include "cel/internal/ast.h"
#include "cel/internal/checker.h"
#include "cel/internal/schema_type.h"

namespace kintsugi::cel {

/// Places of the variables in an evaluation.
enum AdmissionSlot : std::size_t {
  kObjectSlot,
  kOldObjectSlot,
  kRequestSlot,
  kNamespaceSlot,
  kParamsSlot,
  kAuthorizerSlot,
  kRequestResourceSlot,
  kVariablesSlot,
  kAdmissionSlots
};

class AdmissionExpression {
 public:
  ExprPtr root;
  std::size_t slots = 0;
  TypePtr type;
};

class AdmissionEnvironment::Impl {
 public:
  struct Variable {
    std::string name;
    AdmissionExpressionPtr expression;  ///< null: does not compile
    std::string fault;
  };

  bool composes = false;
  DeclarationPtr object, params;  ///< null: any
  Declaration variables_type;
  std::vector<Variable> variables;

  [[nodiscard]] Variables declared(const ExpressionScope& scope) const;
  [[nodiscard]] const Variable* find(std::string_view name) const;
};

}  // namespace kintsugi::cel
