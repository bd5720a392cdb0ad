#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "cel/internal/type.h"
#include "cel/internal/value.h"

namespace re2 {
class RE2;
}

namespace kintsugi::cel {

struct Overload;
struct Expr;
/// Shared because macros may use an operand twice; a tree otherwise.
using ExprPtr = std::shared_ptr<Expr>;

enum class ExprKind : std::uint8_t {
  kLiteral,  ///< literal
  kIdent,    ///< name
  kSelect,   ///< target.name; has(target.name) with test_only
  kCall,     ///< target.name(args) or name(args); operators are calls of "_+_" and so on;
             ///< "_&&_" and "_||_" take two or more args
  kList,     ///< args, optional_entries
  kMap,      ///< args: key, value, key, value, …; optional_entries by pair
  kStruct,   ///< name{…}; args: as kMap, the names of members are literals
  kFold,     ///< a macro over a list or map; args: range, start, condition, step, result
};

/// Calls that have ways of their own in the evaluator.
enum class Op : std::uint8_t {
  kNone,
  kAnd,
  kOr,
  kChoice,          ///< _?_:_
  kIndex,           ///< _[_]
  kOptionalIndex,   ///< _[?_]
  kOptionalSelect,  ///< _?._
  kEqual,
  kNotEqual,
  kNotStrictlyFalse,
  kOptionalOr,       ///< or
  kOptionalOrValue,  ///< orValue
  kIn,
  kPattern  ///< matches, find, findAll
};

/// One node. Parsing fills the first part, checking the second.
struct Expr {
  ExprKind kind = ExprKind::kLiteral;
  Op op = Op::kNone;  ///< kCall
  bool test_only = false;
  std::uint32_t position = 0;  ///< code point in the source
  std::uint32_t depth = 1;     ///< nodes on the longest way down
  std::string name;
  Value literal;
  ExprPtr target;
  std::vector<ExprPtr> args;
  std::vector<bool> optional_entries;
  std::string variable, variable2, accumulator;  ///< kFold; variable2 "" for one variable

  TypePtr type;
  std::vector<const Overload*> overloads;  ///< that the static types allow
  int slot = -1;                           ///< of an identifier; of a fold's first variable
  int slot2 = -1, accumulator_slot = -1;
  bool constant = false;                  ///< folded into `literal`
  std::shared_ptr<const re2::RE2> regex;  ///< of a literal pattern
};

/// An error with its place in the source.
struct SourceError {
  std::uint32_t position = 0;
  std::string message;
};

/// "ERROR: <input>:1:9: …" with the line and a caret, sorted by place, joined by line breaks.
[[nodiscard]] std::string format_errors(std::string_view source, std::vector<SourceError> errors);

inline constexpr std::size_t kMaxSource = 100'000;  ///< code points
inline constexpr std::uint32_t kMaxDepth = 250;     ///< of an expression
inline constexpr std::string_view kAccumulator = "@result";

/// Parses an expression and expands its macros. @returns null and errors when it is malformed.
[[nodiscard]] ExprPtr parse(std::string_view source, std::vector<SourceError>& errors);

/// Names, selections and choices between them are one chain, which costs as one.
[[nodiscard]] bool is_chain(const Expr& expr) noexcept;
/// Where the chain that an expression is begins, behind a choice or a presence test at the latest.
[[nodiscard]] const Expr* chain_head(const Expr& expr) noexcept;

/// Makes nodes; keeps `depth` right.
[[nodiscard]] ExprPtr make_literal(Value value, std::uint32_t position);
[[nodiscard]] ExprPtr make_ident(std::string_view name, std::uint32_t position);
[[nodiscard]] ExprPtr make_select(ExprPtr target, std::string_view field, std::uint32_t position);
[[nodiscard]] ExprPtr make_call(std::string_view function, std::vector<ExprPtr> args,
                                std::uint32_t position);
[[nodiscard]] ExprPtr make_member_call(std::string_view function, ExprPtr target,
                                       std::vector<ExprPtr> args, std::uint32_t position);
[[nodiscard]] ExprPtr make_list(std::vector<ExprPtr> items, std::uint32_t position);

/// Expands a call that is a macro; null when it is none. Reports misuse.
[[nodiscard]] ExprPtr expand_macro(std::string_view function, const ExprPtr& target,
                                   const std::vector<ExprPtr>& args, std::uint32_t position,
                                   std::vector<SourceError>& errors);

}  // namespace kintsugi::cel
