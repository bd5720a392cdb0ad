#include "cel/internal/ast.h"

#include <algorithm>
#include <array>
#include <utility>

#include "cel/internal/text.h"

namespace kintsugi::cel {

namespace {

ExprPtr make(ExprKind kind, std::uint32_t position) {
  auto out = std::make_shared<Expr>();
  out->kind = kind;
  out->position = position;
  return out;
}

Op op_of(std::string_view function) {
  constexpr std::array<std::pair<std::string_view, Op>, 15> kOps = {{
      {"_&&_", Op::kAnd},
      {"_||_", Op::kOr},
      {"_?_:_", Op::kChoice},
      {"_[_]", Op::kIndex},
      {"_[?_]", Op::kOptionalIndex},
      {"_?._", Op::kOptionalSelect},
      {"_==_", Op::kEqual},
      {"_!=_", Op::kNotEqual},
      {"@not_strictly_false", Op::kNotStrictlyFalse},
      {"or", Op::kOptionalOr},
      {"orValue", Op::kOptionalOrValue},
      {"@in", Op::kIn},
      {"matches", Op::kPattern},
      {"find", Op::kPattern},
      {"findAll", Op::kPattern},
  }};
  const auto found = std::find_if(kOps.begin(), kOps.end(),
                                  [&](const auto& each) { return each.first == function; });
  return found == kOps.end() ? Op::kNone : found->second;
}

void measure(Expr& expr) {
  std::uint32_t depth = expr.target ? expr.target->depth : 0;
  for (const ExprPtr& each : expr.args) {
    depth = std::max(depth, each->depth);
  }
  expr.depth = depth + 1;
}

std::string format_error(const std::vector<char32_t>& source, const SourceError& error) {
  std::size_t line = 1;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < error.position && i < source.size(); ++i) {
    if (source[i] == '\n') {
      ++line;
      begin = i + 1;
    }
  }
  const std::size_t column = error.position - begin;
  std::string out = "ERROR: <input>:" + std::to_string(line) + ':' + std::to_string(column + 1) +
                    ": " + error.message;
  std::size_t end = begin;
  while (end < source.size() && source[end] != '\n') {
    ++end;
  }
  std::vector<char32_t> shown(source.begin() + static_cast<std::ptrdiff_t>(begin),
                              source.begin() + static_cast<std::ptrdiff_t>(end));
  std::replace(shown.begin(), shown.end(), U'\t', U' ');
  out += "\n | " + to_utf8(shown, 0, shown.size()) + "\n | ";
  for (std::size_t i = 0; i < column && i < shown.size(); ++i) {
    out += shown[i] >= 0x80 ? "\uff0e" : ".";
  }
  return out + (column < shown.size() && shown[column] >= 0x80 ? "\uff3e" : "^");
}

}  // namespace

std::string format_errors(std::string_view source, std::vector<SourceError> errors) {
  std::stable_sort(errors.begin(), errors.end(), [](const SourceError& a, const SourceError& b) {
    return a.position < b.position;
  });
  const std::vector<char32_t> text = runes(source);
  std::string out;
  for (const SourceError& error : errors) {
    out += (out.empty() ? "" : "\n") + format_error(text, error);
  }
  return out;
}

bool is_chain(const Expr& expr) noexcept {
  return !expr.constant && (expr.kind == ExprKind::kIdent || expr.kind == ExprKind::kSelect ||
                            (expr.kind == ExprKind::kCall &&
                             (expr.op == Op::kIndex || expr.op == Op::kOptionalIndex ||
                              expr.op == Op::kOptionalSelect || expr.op == Op::kChoice)));
}

const Expr* chain_head(const Expr& expr) noexcept {
  const Expr* head = &expr;
  while (is_chain(*head) && head->kind != ExprKind::kIdent && head->op != Op::kChoice &&
         !head->test_only) {
    head = head->kind == ExprKind::kSelect ? head->target.get() : head->args[0].get();
  }
  return head;
}

ExprPtr make_literal(Value value, std::uint32_t position) {
  ExprPtr out = make(ExprKind::kLiteral, position);
  out->literal = std::move(value);
  return out;
}

ExprPtr make_ident(std::string_view name, std::uint32_t position) {
  ExprPtr out = make(ExprKind::kIdent, position);
  out->name = name;
  return out;
}

ExprPtr make_select(ExprPtr target, std::string_view field, std::uint32_t position) {
  ExprPtr out = make(ExprKind::kSelect, position);
  out->target = std::move(target);
  out->name = field;
  measure(*out);
  return out;
}

ExprPtr make_call(std::string_view function, std::vector<ExprPtr> args, std::uint32_t position) {
  return make_member_call(function, nullptr, std::move(args), position);
}

ExprPtr make_member_call(std::string_view function, ExprPtr target, std::vector<ExprPtr> args,
                         std::uint32_t position) {
  ExprPtr out = make(ExprKind::kCall, position);
  out->name = function;
  out->op = op_of(function);
  out->target = std::move(target);
  out->args = std::move(args);
  measure(*out);
  return out;
}

ExprPtr make_list(std::vector<ExprPtr> items, std::uint32_t position) {
  ExprPtr out = make(ExprKind::kList, position);
  out->args = std::move(items);
  out->optional_entries.resize(out->args.size());
  measure(*out);
  return out;
}

}  // namespace kintsugi::cel
