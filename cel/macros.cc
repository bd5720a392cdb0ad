#include <array>
#include <utility>

#include "cel/internal/ast.h"

namespace kintsugi::cel {

namespace {

/// What a macro sees.
struct Use {
  const ExprPtr& target;
  const std::vector<ExprPtr>& args;
  std::uint32_t position;
  std::vector<SourceError>& errors;

  [[nodiscard]] ExprPtr refuse(const Expr& where, std::string message) const {
    errors.push_back({where.position, std::move(message)});
    return make_literal(Value(), position);
  }
  [[nodiscard]] ExprPtr accumulator() const { return make_ident(kAccumulator, position); }
  [[nodiscard]] ExprPtr literal(Value value) const {
    return make_literal(std::move(value), position);
  }
  [[nodiscard]] ExprPtr call(std::string_view name, std::vector<ExprPtr> parts) const {
    return make_call(name, std::move(parts), position);
  }
  [[nodiscard]] ExprPtr list(std::vector<ExprPtr> items) const {
    return make_list(std::move(items), position);
  }
};

struct Fold {
  ExprPtr range;
  std::string variable, variable2;
  std::string accumulator = std::string(kAccumulator);
  ExprPtr start, condition, step, result;
};

ExprPtr make_fold(Fold fold, std::uint32_t position) {
  ExprPtr out =
      make_call("", {fold.range, fold.start, fold.condition, fold.step, fold.result}, position);
  out->kind = ExprKind::kFold;
  out->variable = std::move(fold.variable);
  out->variable2 = std::move(fold.variable2);
  out->accumulator = std::move(fold.accumulator);
  return out;
}

/// Reads the loop variables, one or two. False: reported.
bool read_variables(const Use& use, std::size_t count, std::string_view no_name, Fold& fold,
                    ExprPtr& refused) {
  std::array<std::string*, 2> into = {&fold.variable, &fold.variable2};
  for (std::size_t i = 0; i < count; ++i) {
    const Expr& arg = *use.args[i];
    if (arg.kind != ExprKind::kIdent) {
      refused = use.refuse(arg, std::string(no_name));
      return false;
    }
    if (i == 1 && arg.name == fold.variable) {
      refused = use.refuse(arg, "duplicate variable name: " + arg.name);
      return false;
    }
    if (arg.name == kAccumulator || arg.name == "__result__") {
      refused = use.refuse(arg, "iteration variable overwrites accumulator variable");
      return false;
    }
    *into[i] = arg.name;
  }
  fold.range = use.target;
  return true;
}

template <std::size_t kVariables>
ExprPtr all(const Use& use) {
  Fold fold;
  ExprPtr refused;
  if (!read_variables(use, kVariables, "argument must be a simple name", fold, refused)) {
    return refused;
  }
  fold.start = use.literal(Value::boolean(true));
  fold.condition = use.call("@not_strictly_false", {use.accumulator()});
  fold.step = use.call("_&&_", {use.accumulator(), use.args[kVariables]});
  fold.result = use.accumulator();
  return make_fold(std::move(fold), use.position);
}

template <std::size_t kVariables>
ExprPtr exists(const Use& use) {
  Fold fold;
  ExprPtr refused;
  if (!read_variables(use, kVariables, "argument must be a simple name", fold, refused)) {
    return refused;
  }
  fold.start = use.literal(Value::boolean(false));
  fold.condition = use.call("@not_strictly_false", {use.call("!_", {use.accumulator()})});
  fold.step = use.call("_||_", {use.accumulator(), use.args[kVariables]});
  fold.result = use.accumulator();
  return make_fold(std::move(fold), use.position);
}

template <std::size_t kVariables>
ExprPtr exists_one(const Use& use) {
  Fold fold;
  ExprPtr refused;
  if (!read_variables(use, kVariables, "argument must be a simple name", fold, refused)) {
    return refused;
  }
  fold.start = use.literal(Value::integer(0));
  fold.condition = use.literal(Value::boolean(true));
  fold.step =
      use.call("_?_:_", {use.args[kVariables],
                         use.call("_+_", {use.accumulator(), use.literal(Value::integer(1))}),
                         use.accumulator()});
  fold.result = use.call("_==_", {use.accumulator(), use.literal(Value::integer(1))});
  return make_fold(std::move(fold), use.position);
}

/// map, filter, transformList: appends to a list; the filter stands before the transformation.
ExprPtr build_list(const Use& use, std::size_t variables, std::string_view no_name,
                   const ExprPtr& filter, const ExprPtr& element) {
  Fold fold;
  ExprPtr refused;
  if (!read_variables(use, variables, no_name, fold, refused)) {
    return refused;
  }
  fold.start = use.list({});
  fold.condition = use.literal(Value::boolean(true));
  fold.step = use.call("_+_", {use.accumulator(), use.list({element})});
  if (filter) {
    fold.step = use.call("_?_:_", {filter, fold.step, use.accumulator()});
  }
  fold.result = use.accumulator();
  return make_fold(std::move(fold), use.position);
}

ExprPtr map(const Use& use) {
  const bool filtered = use.args.size() == 3;
  return build_list(use, 1, "argument is not an identifier", filtered ? use.args[1] : nullptr,
                    use.args.back());
}

ExprPtr filter(const Use& use) {
  return build_list(use, 1, "argument is not an identifier", use.args[1], use.args[0]);
}

ExprPtr transform_list(const Use& use) {
  const bool filtered = use.args.size() == 4;
  return build_list(use, 2, "argument must be a simple name", filtered ? use.args[2] : nullptr,
                    use.args.back());
}

template <bool kEntry>
ExprPtr transform_map(const Use& use) {
  Fold fold;
  ExprPtr refused;
  if (!read_variables(use, 2, "argument must be a simple name", fold, refused)) {
    return refused;
  }
  fold.start = use.list({});
  fold.start->kind = ExprKind::kMap;
  fold.condition = use.literal(Value::boolean(true));
  std::vector<ExprPtr> parts = {use.accumulator()};
  if (!kEntry) {
    parts.push_back(make_ident(fold.variable, use.position));
  }
  parts.push_back(use.args.back());
  fold.step = use.call("cel.@mapInsert", std::move(parts));
  if (use.args.size() == 4) {
    fold.step = use.call("_?_:_", {use.args[2], fold.step, use.accumulator()});
  }
  fold.result = use.accumulator();
  return make_fold(std::move(fold), use.position);
}

/// A variable bound for one expression: a fold over nothing.
ExprPtr bind(const Use& use, std::string name, ExprPtr value, ExprPtr body) {
  Fold fold;
  fold.range = use.list({});
  fold.variable = "#unused";
  fold.step = make_ident(name, use.position);
  fold.accumulator = std::move(name);
  fold.start = std::move(value);
  fold.condition = use.literal(Value::boolean(false));
  fold.result = std::move(body);
  return make_fold(std::move(fold), use.position);
}

template <bool kFlat>
ExprPtr optional_map(const Use& use) {
  const Expr& variable = *use.args[0];
  if (variable.kind != ExprKind::kIdent) {
    return use.refuse(variable, kFlat ? "optFlatMap() variable name must be a simple identifier"
                                      : "optMap() variable name must be a simple identifier");
  }
  ExprPtr bound = bind(use, variable.name, make_member_call("value", use.target, {}, use.position),
                       use.args[1]);
  return use.call("_?_:_", {make_member_call("hasValue", use.target, {}, use.position),
                            kFlat ? std::move(bound) : use.call("optional.of", {std::move(bound)}),
                            use.call("optional.none", {})});
}

ExprPtr sort_by(const Use& use) {
  const ExprKind kind = use.target->kind;
  if (kind != ExprKind::kList && kind != ExprKind::kSelect && kind != ExprKind::kIdent &&
      kind != ExprKind::kFold && kind != ExprKind::kCall) {
    return use.refuse(*use.target,
                      "sortBy can only be applied to a list, identifier, comprehension, call or "
                      "select expression");
  }
  const std::string name = "@__sortBy_input__";
  const ExprPtr input = make_ident(name, use.position);
  const Use inner{input, use.args, use.position, use.errors};
  const std::size_t before = use.errors.size();
  ExprPtr keys = map(inner);
  if (use.errors.size() != before) {
    return keys;
  }
  return bind(use, name, use.target,
              make_member_call("@sortByAssociatedKeys", make_ident(name, use.position),
                               {std::move(keys)}, use.position));
}

ExprPtr has(const Use& use) {
  const Expr& field = *use.args[0];
  if (field.kind != ExprKind::kSelect || field.test_only) {
    return use.refuse(field, "invalid argument to has() macro");
  }
  ExprPtr out = make_select(field.target, field.name, use.position);
  out->test_only = true;
  return out;
}

struct Macro {
  std::string_view name;
  bool member;
  std::size_t args;
  ExprPtr (*expand)(const Use& use);
};

constexpr std::array kMacros = {
    Macro{"has", false, 1, has},
    Macro{"all", true, 2, all<1>},
    Macro{"all", true, 3, all<2>},
    Macro{"exists", true, 2, exists<1>},
    Macro{"exists", true, 3, exists<2>},
    Macro{"exists_one", true, 2, exists_one<1>},
    Macro{"exists_one", true, 3, exists_one<2>},
    Macro{"existsOne", true, 3, exists_one<2>},
    Macro{"map", true, 2, map},
    Macro{"map", true, 3, map},
    Macro{"filter", true, 2, filter},
    Macro{"transformList", true, 3, transform_list},
    Macro{"transformList", true, 4, transform_list},
    Macro{"transformMap", true, 3, transform_map<false>},
    Macro{"transformMap", true, 4, transform_map<false>},
    Macro{"transformMapEntry", true, 3, transform_map<true>},
    Macro{"transformMapEntry", true, 4, transform_map<true>},
    Macro{"optMap", true, 2, optional_map<false>},
    Macro{"optFlatMap", true, 2, optional_map<true>},
    Macro{"sortBy", true, 2, sort_by},
};

}  // namespace

ExprPtr expand_macro(std::string_view function, const ExprPtr& target,
                     const std::vector<ExprPtr>& args, std::uint32_t position,
                     std::vector<SourceError>& errors) {
  for (const Macro& macro : kMacros) {
    if (macro.name == function && macro.member == (target != nullptr) &&
        macro.args == args.size()) {
      return macro.expand(Use{target, args, position, errors});
    }
  }
  return nullptr;
}

}  // namespace kintsugi::cel
