#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "cel/access.h"
#include "krm/json.h"
#include "krm/schema.h"

/// Expressions of admission policies (ValidatingAdmissionPolicy, MutatingAdmissionPolicy), as
/// Kubernetes 1.36 has them.
namespace kintsugi::cel {

/// Cost that the match conditions of a policy may take for one request [cost units].
inline constexpr std::uint64_t kMatchLimit = 2'500'000;
/// What a policy may do for one request, with all its parameters, whatever it costs
/// [AdmissionResult::steps].
inline constexpr std::uint64_t kPolicySteps = 30'000'000;

/// kObject and kPatch are those of MutatingAdmissionPolicies: Object{…}, a list of JSONPatch{…}.
enum class ResultType : std::uint8_t { kBool, kString, kStringOrNull, kAny, kObject, kPatch };

/// Why an expression is refused: "compilation failed: ERROR: <input>:1:1: …".
struct ExpressionFault {
  std::string detail;
  bool internal = false;  ///< it compiles and cannot run
};

/// What an expression may refer to besides object, oldObject, request and namespaceObject.
struct ExpressionScope {
  bool params = false;
  bool authorizer = false;
};

/// One compiled expression. Immutable. Threads: any.
class AdmissionExpression;
using AdmissionExpressionPtr = std::shared_ptr<const AdmissionExpression>;

/// The expressions of one policy: what they refer to, and its variables in their order. Immutable
/// once made. Threads: any. Lifetime: outlives its expressions' evaluations.
class AdmissionEnvironment {
 public:
  /// @param variables  the name `variables` is known.
  explicit AdmissionEnvironment(bool variables);
  /// With the types of object and oldObject, and of params (null: any): for checking types alone.
  AdmissionEnvironment(bool variables, const krm::SchemaPtr& object, const krm::SchemaPtr& params);
  ~AdmissionEnvironment();
  AdmissionEnvironment(const AdmissionEnvironment&) = delete;
  AdmissionEnvironment& operator=(const AdmissionEnvironment&) = delete;

  /// Adds `variables.<name>` for what is compiled later; also when the expression is refused, then
  /// with any type.
  [[nodiscard]] std::unique_ptr<ExpressionFault> add_variable(std::string_view name,
                                                              std::string_view expression,
                                                              const ExpressionScope& scope);
  /// @returns null and a fault when it is refused.
  [[nodiscard]] AdmissionExpressionPtr compile(std::string_view expression, ResultType result,
                                               const ExpressionScope& scope,
                                               ExpressionFault& fault) const;

  class Impl;
  [[nodiscard]] const Impl& impl() const noexcept { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

/// True when a kind's schema refers to itself: its objects have no type that expressions could be
/// checked against.
[[nodiscard]] bool is_recursive(const krm::Schema& schema);

/// What an evaluation sees. Null pointers are null values; all of it outlives the evaluation.
struct AdmissionInput {
  const krm::Json* object = nullptr;
  const krm::Json* old_object = nullptr;
  const krm::Json* request = nullptr;
  const krm::Json* namespace_object = nullptr;
  const krm::Json* params = nullptr;
  AccessOracle* authorizer = nullptr;  ///< null: reading it is an error
  AccessQuestion request_resource;     ///< of authorizer.requestResource
};

struct AdmissionResult {
  enum class Kind : std::uint8_t { kTrue, kFalse, kString, kNull, kOther, kError };
  Kind kind = Kind::kError;
  std::string text;  ///< a string, an error's words, the type of others
  /// With the variables that it was the first to read. Each is bounded by kCallLimit.
  std::uint64_t cost = 0;
  std::uint64_t steps = 0;  ///< of work, of 10 ns or less: what a loop is held for
};

/// Evaluates expressions of one environment on one input; a variable is evaluated when it is first
/// read, once. Threads: one.
class AdmissionEvaluation {
 public:
  AdmissionEvaluation(const AdmissionEnvironment& environment, const AdmissionInput& input);
  ~AdmissionEvaluation();
  AdmissionEvaluation(const AdmissionEvaluation&) = delete;
  AdmissionEvaluation& operator=(const AdmissionEvaluation&) = delete;
  /// @param steps  that it may do; what takes more is an error. Variables may do as many again.
  [[nodiscard]] AdmissionResult evaluate(const AdmissionExpression& expression,
                                         std::uint64_t steps = kPolicySteps);
  /// One of kObject or kPatch: the object, or the JSON patch. @error kInvalid  why there is none
  /// @param cost  as AdmissionResult has it
  [[nodiscard]] Expected<krm::Json> make(const AdmissionExpression& expression,
                                         std::uint64_t& cost);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kintsugi::cel
