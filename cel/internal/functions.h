#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cel/internal/ast.h"
#include "cel/internal/call_work.h"
#include "cel/internal/type.h"
#include "cel/internal/value.h"

namespace kintsugi::cel {

/// Arguments of a call, the receiver first. None is an error value.
struct Args {
  const Value* values;
  std::size_t count;
  const Expr* site;  ///< may hold a compiled pattern; null outside an expression
  /// Receives what only the call itself knows of its work [steps, call_work.h]; may be null.
  std::uint64_t* steps = nullptr;
  const Value& operator[](std::size_t index) const { return values[index]; }
};
using Function = Value (*)(const Args& args);

/// A row of a library's table.
struct OverloadRow {
  std::string_view function;
  std::string_view id;         ///< as cel-go names it; costs go by it
  std::string_view signature;  ///< "string.(int) -> string", "(list(A), int) -> A"; capitals vary
  Function call;               ///< null: the evaluator does it itself
};

struct CostedCall;
/// What a call has cost besides its arguments (call_cost.h).
using CostFunction = std::uint64_t (*)(const CostedCall& call);

struct Overload {
  std::string_view function, id;
  bool member = false;
  std::vector<TypePtr> params;           ///< the receiver first
  std::vector<std::string> type_params;  ///< names of type variables
  TypePtr result;
  Function call = nullptr;
  CostFunction cost = nullptr;      ///< never null in find_function()
  CostFunction any_cost = nullptr;  ///< where the static types allow several overloads
  WorkFunction work = nullptr;      ///< never null in find_function(); one for all overloads
};

/// Overloads of a function; null when there is none of that name. Threads: any.
[[nodiscard]] const std::vector<Overload>* find_function(std::string_view name);
/// The type that a name stands for ("int", "google.protobuf.Duration"); null when it is none.
[[nodiscard]] TypePtr find_type_name(std::string_view name);

/// The libraries, one table a file.
[[nodiscard]] std::span<const OverloadRow> operator_rows();
[[nodiscard]] std::span<const OverloadRow> conversion_rows();
[[nodiscard]] std::span<const OverloadRow> string_rows();
[[nodiscard]] std::span<const OverloadRow> list_rows();
[[nodiscard]] std::span<const OverloadRow> optional_rows();
[[nodiscard]] std::span<const OverloadRow> time_rows();
[[nodiscard]] std::span<const OverloadRow> regex_rows();
[[nodiscard]] std::span<const OverloadRow> network_rows();
[[nodiscard]] std::span<const OverloadRow> url_rows();
[[nodiscard]] std::span<const OverloadRow> quantity_rows();
[[nodiscard]] std::span<const OverloadRow> semver_rows();
[[nodiscard]] std::span<const OverloadRow> format_rows();
[[nodiscard]] std::span<const OverloadRow> authorizer_rows();

/// Types of the authorizer library.
inline constexpr std::string_view kAuthorizerType = "kubernetes.authorization.Authorizer";
inline constexpr std::string_view kPathCheckType = "kubernetes.authorization.PathCheck";
inline constexpr std::string_view kGroupCheckType = "kubernetes.authorization.GroupCheck";
inline constexpr std::string_view kResourceCheckType = "kubernetes.authorization.ResourceCheck";
inline constexpr std::string_view kDecisionType = "kubernetes.authorization.Decision";

/// True when a value can be an argument of the static type at run time.
[[nodiscard]] bool accepts(const Type& type, const Value& value) noexcept;
/// Calls the overload that takes the arguments; the error when none does.
[[nodiscard]] Value apply_overloads(const Args& args, const Expr& call);
/// "'a.%s'.format([...])".
[[nodiscard]] Value format_string(std::string_view format, const std::vector<Value>& args);
/// What validating by a named format counts as the length of its pattern.
[[nodiscard]] std::size_t format_regex_size(const Value& format);

}  // namespace kintsugi::cel
