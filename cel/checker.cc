#include "cel/internal/checker.h"

#include <re2/re2.h>

#include <algorithm>
#include <array>
#include <utility>

#include "cel/internal/constructed.h"
#include "cel/internal/functions.h"
#include "cel/internal/schema_type.h"

namespace kintsugi::cel {

namespace {

constexpr std::array<std::string_view, 10> kConversions = {
    "bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"};

bool is_dyn_or_error(const Type& type) {
  return type.kind == TypeKind::kDyn || type.kind == TypeKind::kError;
}

/// "a.b.c" when the expression is such a chain of names.
bool qualified_name(const Expr& expr, std::string& out) {
  if (expr.kind == ExprKind::kIdent) {
    out = expr.name;
    return true;
  }
  if (expr.kind != ExprKind::kSelect || expr.test_only || !qualified_name(*expr.target, out)) {
    return false;
  }
  out += '.' + expr.name;
  return true;
}

class Checker {
 public:
  Checker(const Variables& variables, std::vector<SourceError>& errors, bool constructs)
      : errors_(errors), constructs_(constructs) {
    for (const auto& [name, type] : variables) {
      scope_.push_back({name, type});
    }
    globals_ = scope_.size();
    out_.used.resize(globals_);
    out_.slots = globals_;
  }

  Checked run(Expr& root) {
    visit(root);
    finish(root);
    out_.type = types_.apply(root.type, true);
    return std::move(out_);
  }

 private:
  struct Variable {
    std::string name;
    TypePtr type;
  };

  static const TypePtr& error_type() { return simple_type(TypeKind::kError); }

  void report(const Expr& where, std::string message) {
    errors_.push_back({where.position, std::move(message)});
  }
  void undeclared(Expr& expr, std::string_view name) {
    report(expr, "undeclared reference to '" + std::string(name) + "' (in container '')");
    expr.type = error_type();
  }
  void mismatch(const Expr& where, const TypePtr& expected, const TypePtr& actual) {
    report(where, "expected type '" + format_type(*expected) + "' but found '" +
                      format_type(*actual) + "'");
  }
  TypePtr fresh() { return param_type("_var" + std::to_string(counter_++)); }

  int push(std::string name, TypePtr type) {
    scope_.push_back({std::move(name), std::move(type)});
    out_.slots = std::max(out_.slots, scope_.size());
    return static_cast<int>(scope_.size()) - 1;
  }

  void visit(Expr& expr) {
    if (expr.type != nullptr) {
      return;  // a macro's operand that stands twice
    }
    switch (expr.kind) {
      case ExprKind::kLiteral:
        expr.type = literal_type(expr.literal);
        break;
      case ExprKind::kIdent:
        identifier(expr);
        break;
      case ExprKind::kSelect:
        select(expr);
        break;
      case ExprKind::kCall:
        call(expr);
        break;
      case ExprKind::kList:
        list(expr);
        break;
      case ExprKind::kMap:
        map(expr);
        break;
      case ExprKind::kStruct:
        construct(expr);
        break;
      case ExprKind::kFold:
        fold(expr);
        break;
    }
  }

  static TypePtr literal_type(const Value& value) {
    switch (value.kind()) {
      case Kind::kNull:
        return simple_type(TypeKind::kNull);
      case Kind::kBool:
        return simple_type(TypeKind::kBool);
      case Kind::kInt:
        return simple_type(TypeKind::kInt);
      case Kind::kUint:
        return simple_type(TypeKind::kUint);
      case Kind::kDouble:
        return simple_type(TypeKind::kDouble);
      case Kind::kString:
        return simple_type(TypeKind::kString);
      default:
        return simple_type(TypeKind::kBytes);
    }
  }

  void become_type(Expr& expr, const TypePtr& type) {
    expr.kind = ExprKind::kLiteral;
    expr.target.reset();
    expr.literal = Value::type(std::string(type_name(*type)));
    expr.type = type_type(type);
  }

  void identifier(Expr& expr) {
    std::string_view name = expr.name;
    name.remove_prefix(name.starts_with('.') ? 1 : 0);
    for (std::size_t i = scope_.size(); i-- > 0;) {
      if (scope_[i].name == name) {
        expr.slot = static_cast<int>(i);
        expr.type = scope_[i].type;
        if (i < globals_) {
          out_.used[i] = true;
        }
        return;
      }
    }
    if (const TypePtr type = find_type_name(name); type && public_type(name)) {
      become_type(expr, type);
      return;
    }
    undeclared(expr, expr.name);
  }

  /// "duration", "ip" and so on are no names of types in expressions.
  static bool public_type(std::string_view name) {
    return name.find('.') != std::string_view::npos ||
           (name != "duration" && name != "timestamp" && name != "quantity" && name != "url" &&
            name != "named_format" && name != "ip" && name != "cidr" && name != "dyn");
  }

  void select(Expr& expr) {
    if (std::string name; !expr.test_only && qualified_name(expr, name)) {
      if (const int slot = qualified_variable(expr, name); slot >= 0) {
        expr.kind = ExprKind::kIdent;
        expr.name = name;
        expr.target.reset();
        expr.slot = slot;
        expr.type = scope_[static_cast<std::size_t>(slot)].type;
        out_.used[static_cast<std::size_t>(slot)] = true;
        return;
      }
      const bool local = std::any_of(scope_.begin(), scope_.end(), [&](const Variable& each) {
        return name.starts_with(each.name + '.');
      });
      if (const TypePtr type = local ? nullptr : find_type_name(name)) {
        become_type(expr, type);
        return;
      }
    }
    const TypePtr field = field_type(expr, *expr.target, expr.name, false);
    expr.type = expr.test_only ? simple_type(TypeKind::kBool) : types_.apply(field, false);
  }

  /// A variable whose name has dots, unless a loop variable hides its first part; -1: none.
  [[nodiscard]] int qualified_variable(const Expr& expr, const std::string& name) const {
    for (std::size_t i = 0; i < globals_; ++i) {
      if (scope_[i].name == name) {
        const Expr* head = &expr;
        while (head->kind == ExprKind::kSelect) {
          head = head->target.get();
        }
        for (std::size_t j = globals_; j < scope_.size(); ++j) {
          if (scope_[j].name == head->name) {
            return -1;
          }
        }
        return static_cast<int>(i);
      }
    }
    return -1;
  }

  TypePtr field_type(const Expr& expr, Expr& target, std::string_view field, bool optional) {
    visit(target);
    TypePtr type = types_.apply(target.type, false);
    const bool wrapped = is_optional(*type);
    if (wrapped) {
      type = type->params[0];
    }
    TypePtr out = error_type();
    if (type->kind == TypeKind::kMap) {
      out = type->params[1];
    } else if (type->kind == TypeKind::kStruct) {
      const DeclarationPtr* found = nullptr;
      if (type->declaration != nullptr) {
        const auto place = type->declaration->fields.find(field);
        found = place == type->declaration->fields.end() ? nullptr : &place->second;
        if (std::string escaped; found == nullptr && escape_name(field, escaped) &&
                                 escaped == "__" + std::string(field) + "__") {
          const auto keyword = type->declaration->fields.find(escaped);
          found = keyword == type->declaration->fields.end() ? nullptr : &keyword->second;
        }
      }
      if (found == nullptr) {
        report(expr, "undefined field '" + std::string(field) + "'");
      } else {
        out = (*found)->type;
      }
    } else if (type->kind == TypeKind::kParam) {
      (void)types_.assignable(simple_type(TypeKind::kDyn), type);
      out = simple_type(TypeKind::kDyn);
    } else {
      if (!is_dyn_or_error(*type)) {
        report(expr, "type '" + format_type(*type) + "' does not support field selection");
      }
      out = simple_type(TypeKind::kDyn);
    }
    return wrapped || optional ? optional_type(std::move(out)) : out;
  }

  void call(Expr& expr) {
    if (expr.name == "_?._") {
      const TypePtr field = field_type(expr, *expr.args[0], expr.args[1]->literal.text(), true);
      expr.args[1]->type = simple_type(TypeKind::kString);
      expr.type = types_.apply(field, false);
      return;
    }
    for (const ExprPtr& arg : expr.args) {
      visit(*arg);
    }
    if (expr.name == "_&&_" || expr.name == "_||_") {
      logical(expr);
      return;
    }
    const std::vector<Overload>* overloads = nullptr;
    if (expr.target) {
      if (std::string prefix; qualified_name(*expr.target, prefix)) {
        overloads = find_function(prefix + '.' + expr.name);
        if (overloads != nullptr) {
          expr.name = prefix + '.' + expr.name;
          expr.target.reset();
        }
      }
      if (expr.target) {
        visit(*expr.target);
      }
    }
    if (overloads == nullptr) {
      std::string_view name = expr.name;
      name.remove_prefix(name.starts_with('.') ? 1 : 0);
      overloads = find_function(name);
    }
    if (overloads == nullptr || (!constructs_ && expr.name == "jsonpatch.escapeKey")) {
      undeclared(expr, expr.name);
      return;
    }
    resolve(expr, *overloads);
  }

  void logical(Expr& expr) {
    const TypePtr& boolean = simple_type(TypeKind::kBool);
    expr.type = boolean;
    for (const ExprPtr& arg : expr.args) {
      if (!types_.assignable(arg->type, boolean)) {
        mismatch(*arg, boolean, arg->type);
        expr.type = error_type();
      }
    }
    expr.overloads = {&find_function(expr.name)->front()};
  }

  void resolve(Expr& expr, const std::vector<Overload>& overloads) {
    std::vector<TypePtr> given;
    if (expr.target) {
      given.push_back(expr.target->type);
    }
    for (const ExprPtr& arg : expr.args) {
      given.push_back(arg->type);
    }
    TypePtr result;
    for (const Overload& overload : overloads) {
      if (overload.member != (expr.target != nullptr) || overload.params.size() != given.size()) {
        continue;
      }
      std::vector<TypePtr> params = overload.params;
      TypePtr returned = overload.result;
      if (!overload.type_params.empty()) {
        Substitutions renamed;
        for (const std::string& name : overload.type_params) {
          renamed.bind(name, fresh());
        }
        for (TypePtr& param : params) {
          param = renamed.apply(param, false);
        }
        returned = renamed.apply(returned, false);
      }
      if (!types_.assignable(given, params)) {
        continue;
      }
      expr.overloads.push_back(&overload);
      returned = types_.apply(returned, false);
      if (result == nullptr) {
        result = returned;
      } else if (!is_dyn(*result) && !same_type(*returned, *result)) {
        result = simple_type(TypeKind::kDyn);
      }
    }
    if (result == nullptr) {
      for (TypePtr& type : given) {
        type = types_.apply(type, true);
      }
      report(expr, "found no matching overload for '" + expr.name + "' applied to '" +
                       format_arguments(given, expr.target != nullptr) + "'");
      result = error_type();
    }
    expr.type = result;
  }

  /// Unwraps `?entry`.
  TypePtr entry_type(const Expr& entry, bool optional) {
    TypePtr type = entry.type;
    if (!optional) {
      return type;
    }
    if (is_optional(*type)) {
      return type->params[0];
    }
    if (!is_dyn(*type)) {
      mismatch(entry, optional_type(type), type);
    }
    return type;
  }

  TypePtr join(const TypePtr& previous, const TypePtr& current) {
    if (previous == nullptr) {
      return current;
    }
    return types_.assignable(previous, current) ? more_general(previous, current)
                                                : simple_type(TypeKind::kDyn);
  }

  void list(Expr& expr) {
    TypePtr element;
    for (std::size_t i = 0; i < expr.args.size(); ++i) {
      visit(*expr.args[i]);
      element = join(element, entry_type(*expr.args[i], expr.optional_entries[i]));
    }
    expr.type = list_type(element ? element : fresh());
  }

  void map(Expr& expr) {
    TypePtr key;
    TypePtr value;
    for (std::size_t i = 0; i + 1 < expr.args.size(); i += 2) {
      visit(*expr.args[i]);
      key = join(key, expr.args[i]->type);
      visit(*expr.args[i + 1]);
      value = join(value, entry_type(*expr.args[i + 1], expr.optional_entries[i / 2]));
    }
    if (key == nullptr) {
      key = fresh();
      value = fresh();
    }
    expr.type = map_type(std::move(key), std::move(value));
  }

  /// Members of objects are of any type; those of JSONPatch are fixed.
  void construct(Expr& expr) {
    const bool patch = expr.name == kPatchType;
    if (!constructs_ || (!patch && expr.name != kObjectType &&
                         !expr.name.starts_with(std::string(kObjectType) + "."))) {
      undeclared(expr, expr.name);
      return;
    }
    const TypePtr& text = simple_type(TypeKind::kString);
    for (std::size_t i = 0; i + 1 < expr.args.size(); i += 2) {
      Expr& name = *expr.args[i];
      Expr& value = *expr.args[i + 1];
      visit(name);
      visit(value);
      const TypePtr given = entry_type(value, expr.optional_entries[i / 2]);
      const std::string_view member = name.literal.text();
      if (!patch || member == "value") {
        continue;
      }
      if (member != "op" && member != "path" && member != "from") {
        report(name, "undefined field '" + std::string(member) + "'");
      } else if (!types_.assignable(given, text)) {
        report(value, "expected type of field '" + std::string(member) +
                          "' is 'string' but provided type is '" + format_type(*given) + "'");
      }
    }
    expr.type = struct_type(expr.name, nullptr);
  }

  void fold(Expr& expr) {
    Expr& range = *expr.args[0];
    visit(range);
    visit(*expr.args[1]);
    const TypePtr type = types_.apply(range.type, false);
    const TypePtr start = expr.args[1]->type;
    const bool two = !expr.variable2.empty();
    TypePtr first = error_type();
    TypePtr second = error_type();
    switch (type->kind) {
      case TypeKind::kList:
        first = two ? simple_type(TypeKind::kInt) : type->params[0];
        second = type->params[0];
        break;
      case TypeKind::kMap:
        first = type->params[0];
        second = type->params[1];
        break;
      case TypeKind::kDyn:
      case TypeKind::kError:
      case TypeKind::kParam:
        (void)types_.assignable(simple_type(TypeKind::kDyn), type);
        first = second = simple_type(TypeKind::kDyn);
        break;
      default:
        report(range, "expression of type '" + format_type(*type) +
                          "' cannot be range of a comprehension (must be list, map, or dynamic)");
    }
    const std::size_t outside = scope_.size();
    expr.accumulator_slot = push(expr.accumulator, start);
    expr.slot = push(expr.variable, first);
    if (two) {
      expr.slot2 = push(expr.variable2, second);
    }
    visit(*expr.args[2]);
    expect(*expr.args[2], simple_type(TypeKind::kBool));
    visit(*expr.args[3]);
    expect(*expr.args[3], start);
    scope_.resize(outside + 1);
    visit(*expr.args[4]);
    scope_.resize(outside);
    expr.type = types_.apply(expr.args[4]->type, false);
  }

  void expect(const Expr& expr, const TypePtr& type) {
    if (!types_.assignable(type, expr.type)) {
      mismatch(expr, type, expr.type);
    }
  }

  /// Final types, constants, patterns; in the order of evaluation.
  void finish(Expr& expr) {
    if (expr.type == nullptr || expr.constant) {
      return;
    }
    if (expr.target) {
      finish(*expr.target);
    }
    for (const ExprPtr& arg : expr.args) {
      finish(*arg);
    }
    expr.type = types_.apply(expr.type, true);
    if (!errors_.empty()) {
      return;
    }
    fold_constant(expr);
    if (expr.kind == ExprKind::kCall && !expr.overloads.empty() &&
        (expr.name == "matches" || expr.name == "find" || expr.name == "findAll")) {
      const Expr& pattern = *expr.args[expr.target ? 0 : 1];
      if (pattern.kind == ExprKind::kLiteral && pattern.literal.is(Kind::kString)) {
        re2::RE2::Options options(re2::RE2::Quiet);
        const std::string_view text = pattern.literal.text();
        expr.regex =
            std::make_shared<const re2::RE2>(re2::StringPiece(text.data(), text.size()), options);
      }
    }
  }

  static bool is_constant(const Expr& expr) {
    return expr.kind == ExprKind::kLiteral || expr.constant;
  }

  static const Value* first_error(const Expr& expr) {
    for (const ExprPtr& arg : expr.args) {
      if (arg->literal.is_error()) {
        return &arg->literal;
      }
    }
    return nullptr;
  }

  void fold_constant(Expr& expr) {
    const bool all = std::all_of(expr.args.begin(), expr.args.end(),
                                 [](const ExprPtr& arg) { return is_constant(*arg); });
    if (!all) {
      return;
    }
    if (expr.kind == ExprKind::kList &&
        std::none_of(expr.optional_entries.begin(), expr.optional_entries.end(),
                     [](bool optional) { return optional; })) {
      std::vector<Value> items;
      for (const ExprPtr& arg : expr.args) {
        items.push_back(arg->literal);
      }
      const Value* broken = first_error(expr);
      expr.literal = broken != nullptr ? *broken : Value::list(std::move(items));
      expr.constant = true;
    } else if (expr.kind == ExprKind::kCall && !expr.target && expr.args.size() == 1 &&
               std::find(kConversions.begin(), kConversions.end(), expr.name) !=
                   kConversions.end()) {
      const Value& value = expr.args[0]->literal;
      for (const Overload* overload : expr.overloads) {
        if (overload->call != nullptr && accepts(*overload->params[0], value)) {
          expr.literal = overload->call(Args{&value, 1, nullptr});
          expr.constant = true;
          return;
        }
      }
      expr.literal = Value::error("no such overload: " + expr.name + '(' +
                                  std::string(value.type_name()) + ')');
      expr.constant = true;
    } else if (expr.kind == ExprKind::kMap &&
               std::none_of(expr.optional_entries.begin(), expr.optional_entries.end(),
                            [](bool optional) { return optional; })) {
      auto data = std::make_shared<MapData>();
      for (std::size_t i = 0; i + 1 < expr.args.size(); i += 2) {
        std::string key;
        if (!data->new_key(expr.args[i]->literal, key) && !expr.args[i]->literal.is_error()) {
          return;  // fails at run time
        }
        data->entries.insert_or_assign(std::move(key),
                                       std::pair(expr.args[i]->literal, expr.args[i + 1]->literal));
      }
      const Value* broken = first_error(expr);
      expr.literal = broken != nullptr ? *broken : Value::map(std::move(data));
      expr.constant = true;
    }
  }

  std::vector<SourceError>& errors_;
  const bool constructs_;
  std::vector<Variable> scope_;
  std::size_t globals_ = 0;
  Substitutions types_;
  std::size_t counter_ = 0;
  Checked out_;
};

}  // namespace

Checked check(Expr& root, const Variables& variables, std::vector<SourceError>& errors,
              bool constructs) {
  return Checker(variables, errors, constructs).run(root);
}

}  // namespace kintsugi::cel
