#include <re2/re2.h>

#include <algorithm>
#include <set>
#include <string>

#include "cel/internal/checker.h"
#include "cel/internal/text.h"

namespace kintsugi::cel {

namespace {

struct ClauseRule {
  std::string_view signs, name, allowed;
  std::vector<TypeKind> kinds;
};
const auto& kClauses = *new std::vector<ClauseRule>{
    {"s",
     "string",
     "strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps",
     {TypeKind::kString, TypeKind::kBool, TypeKind::kBytes, TypeKind::kInt, TypeKind::kUint,
      TypeKind::kDouble, TypeKind::kMap, TypeKind::kList, TypeKind::kType, TypeKind::kDuration,
      TypeKind::kTimestamp, TypeKind::kNull}},
    {"d", "decimal", "integers", {TypeKind::kInt, TypeKind::kUint}},
    {"f", "fixed-point", "doubles", {TypeKind::kDouble, TypeKind::kString}},
    {"e", "scientific", "doubles", {TypeKind::kDouble, TypeKind::kString}},
    {"b", "binary", "integers and bools", {TypeKind::kInt, TypeKind::kUint, TypeKind::kBool}},
    {"o", "octal", "integers", {TypeKind::kInt, TypeKind::kUint}},
    {"xX",
     "hex",
     "integers, byte buffers, and strings",
     {TypeKind::kInt, TypeKind::kUint, TypeKind::kString, TypeKind::kBytes}},
};

class LiteralChecker {
 public:
  explicit LiteralChecker(std::vector<SourceError>& errors) : errors_(errors) {}

  void visit(const Expr& expr, bool exempt) {
    if (!seen_.insert(&expr).second) {
      return;
    }
    if (expr.kind == ExprKind::kCall) {
      literal_argument(expr);
      if (expr.name == "format") {
        format_call(expr);
      }
    }
    if (!exempt && expr.kind == ExprKind::kList) {
      homogeneous(expr, 0, 1);
    }
    if (!exempt && expr.kind == ExprKind::kMap) {
      homogeneous(expr, 0, 2);
      homogeneous(expr, 1, 2);
    }
    const bool inner = exempt || (expr.kind == ExprKind::kCall && expr.name == "format");
    if (expr.target) {
      visit(*expr.target, inner);
    }
    for (const ExprPtr& arg : expr.args) {
      visit(*arg, inner);
    }
  }

 private:
  void literal_argument(const Expr& expr) {
    const std::size_t index = expr.name == "matches" && !expr.target ? 1 : 0;
    if (index >= expr.args.size()) {
      return;
    }
    const Expr& arg = *expr.args[index];
    if (expr.name == "timestamp" && !expr.target && arg.kind == ExprKind::kLiteral &&
        arg.literal.is(Kind::kInt) &&
        (arg.literal.integer() < kMinTimestamp || arg.literal.integer() > kMaxTimestamp)) {
      errors_.push_back({arg.position, "invalid timestamp argument"});
      return;
    }
    if (arg.kind != ExprKind::kLiteral || !arg.literal.is(Kind::kString)) {
      return;
    }
    const bool broken =
        (expr.name == "matches" && expr.regex && !expr.regex->ok()) ||
        (expr.name == "duration" && !expr.target && !parse_duration(arg.literal.text())) ||
        (expr.name == "timestamp" && !expr.target && !parse_timestamp(arg.literal.text()));
    if (broken) {
      errors_.push_back({arg.position, "invalid " + expr.name + " argument"});
    }
  }

  /// 'a %s'.format([…]): as many arguments as clauses, of the right types.
  void format_call(const Expr& expr) {
    const bool literal = expr.target && expr.target->kind == ExprKind::kLiteral &&
                         expr.target->literal.is(Kind::kString);
    if (!literal || expr.args.size() != 1 || expr.args[0]->kind != ExprKind::kList) {
      return;
    }
    const std::string_view format = expr.target->literal.text();
    const std::vector<ExprPtr>& given = expr.args[0]->args;
    std::size_t used = 0;
    for (std::size_t i = 0; i < format.size(); ++i) {
      if (format[i] != '%') {
        continue;
      }
      ++i;
      if (i < format.size() && format[i] == '%') {
        continue;
      }
      if (i < format.size() && format[i] == '.') {
        i = format.find_first_not_of("0123456789", i + 1);
      }
      if (i >= format.size()) {
        errors_.push_back({expr.position, "unexpected end of string"});
        return;
      }
      if (used >= given.size()) {
        errors_.push_back({expr.position, "index " + std::to_string(used) + " out of range"});
        return;
      }
      const Expr& arg = *given[used++];
      const ClauseRule* rule = nullptr;
      for (const ClauseRule& each : kClauses) {
        rule = each.signs.find(format[i]) != std::string_view::npos ? &each : rule;
      }
      if (rule == nullptr) {
        errors_.push_back(
            {expr.position, "could not parse formatting clause: unrecognized formatting clause \"" +
                                std::string(1, format[i]) + '"'});
        return;
      }
      const TypeKind kind = arg.type->kind;
      if (kind != TypeKind::kDyn &&
          std::find(rule->kinds.begin(), rule->kinds.end(), kind) == rule->kinds.end()) {
        errors_.push_back({arg.position, "error during formatting: " + std::string(rule->name) +
                                             " clause can only be used on " +
                                             std::string(rule->allowed) + ", was given " +
                                             std::string(type_name(*arg.type))});
        return;
      }
    }
    if (given.size() > used) {
      errors_.push_back({expr.position, "too many arguments supplied to string.format (expected " +
                                            std::to_string(used) + ", got " +
                                            std::to_string(given.size()) + ")"});
    }
  }

  void homogeneous(const Expr& expr, std::size_t from, std::size_t step) {
    const Type* first = nullptr;
    for (std::size_t i = from; i < expr.args.size(); i += step) {
      const bool value_of_map = step == 2 && from == 1;
      const std::size_t entry = step == 2 ? i / 2 : i;
      const bool optional = (step == 1 || value_of_map) && expr.optional_entries[entry];
      const Type* type = expr.args[i]->type.get();
      if (optional && is_optional(*type)) {
        type = type->params[0].get();
      }
      if (first == nullptr) {
        first = type;
      } else if (!same_type(*first, *type)) {
        errors_.push_back({expr.args[i]->position, "expected type '" + format_type(*first) +
                                                       "' but found '" + format_type(*type) + "'"});
        if (step == 1) {
          return;  // a map names all of them
        }
      }
    }
  }

  std::vector<SourceError>& errors_;
  std::set<const Expr*> seen_;
};

}  // namespace

void check_literals(const Expr& root, std::vector<SourceError>& errors) {
  LiteralChecker(errors).visit(root, false);
}

}  // namespace kintsugi::cel
