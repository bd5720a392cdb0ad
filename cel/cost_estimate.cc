#include "cel/internal/cost_estimate.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "cel/internal/cost_rules.h"
#include "cel/internal/functions.h"

namespace kintsugi::cel {

namespace {

/// Sizes of what a list or map holds.
struct Entries {
  TypeKind container = TypeKind::kList;
  Range key, value;
};

struct Local {
  Path path;
  std::optional<Range> size;
  std::optional<Entries> entries;
};

class Estimator {
 public:
  explicit Estimator(const Declaration& root) : sizes_(root) {}

  Range cost(const Expr& expr) {
    if (const auto known = costs_.find(&expr); known != costs_.end()) {
      return known->second;
    }
    const Range out = visit(expr);
    costs_[&expr] = out;
    return out;
  }

 private:
  Range visit(const Expr& expr) {
    switch (expr.kind) {
      case ExprKind::kIdent: {
        const Local* local = find_local(expr.name);
        paths_[&expr] = local != nullptr ? local->path : Path{expr.name};
        return fixed(1);
      }
      case ExprKind::kSelect:
        return select(expr);
      case ExprKind::kCall:
        return call(expr);
      case ExprKind::kList:
        return list(expr);
      case ExprKind::kMap:
        return map(expr);
      case ExprKind::kFold:
        return expr.variable == "#unused" ? binding(expr) : fold(expr);
      default:
        if (expr.literal.is(Kind::kType)) {  // a name, too
          paths_[&expr] = Path{expr.name};
          return fixed(1);
        }
        return fixed(0);
    }
  }

  [[nodiscard]] const Local* find_local(const std::string& name) const {
    const auto found = locals_.find(name);
    return found == locals_.end() || found->second.empty() ? nullptr : &found->second.back();
  }

  Path path(const Expr& expr) const {
    if (expr.kind == ExprKind::kIdent) {
      if (const Local* local = find_local(expr.name)) {
        return local->path;
      }
    }
    const auto found = paths_.find(&expr);
    return found == paths_.end() ? Path() : found->second;
  }
  Path path(const Expr& expr, std::string_view step) const {
    Path out = path(expr);
    out.emplace_back(step);
    return out;
  }

  std::optional<Range> size(const Expr& expr) {
    if (const auto known = sizes_of_.find(&expr); known != sizes_of_.end()) {
      return known->second;
    }
    if (expr.kind == ExprKind::kLiteral && !expr.literal.is(Kind::kType)) {
      return fixed(expr.literal.size());
    }
    if (expr.kind == ExprKind::kList || expr.kind == ExprKind::kMap) {
      return fixed(expr.args.size() / (expr.kind == ExprKind::kMap ? 2 : 1));
    }
    if (const auto estimated = sizes_.at(path(expr))) {
      sizes_of_[&expr] = *estimated;
      return estimated;
    }
    if (is_scalar(*expr.type)) {
      return fixed(1);
    }
    const Local* local = expr.kind == ExprKind::kIdent ? find_local(expr.name) : nullptr;
    return local != nullptr ? local->size : std::nullopt;
  }
  Range size_or_unknown(const Expr& expr) { return size(expr).value_or(unknown()); }

  std::optional<Entries> entries(const Expr& expr) const {
    if (const auto known = entries_of_.find(&expr); known != entries_of_.end()) {
      return known->second;
    }
    const Local* local = expr.kind == ExprKind::kIdent ? find_local(expr.name) : nullptr;
    return local != nullptr ? local->entries : std::nullopt;
  }

  Range select(const Expr& expr) {
    const Range inner = cost(*expr.target);
    if (expr.test_only) {
      return inner;
    }
    paths_[&expr] = path(*expr.target, expr.name);
    const TypeKind kind = expr.target->type->kind;
    const bool counts = kind == TypeKind::kMap || kind == TypeKind::kStruct;
    return counts ? inner + fixed(1) : inner;
  }

  CostNode node(const Expr& expr) {
    CostNode out;
    out.path = path(expr);
    if (!out.path.empty() && (out.path[0] == kAccumulator || out.path[0] == "__result__")) {
      out.path.clear();
    }
    out.type = expr.type.get();
    out.expr = &expr;
    out.size = size(expr);
    return out;
  }

  Range call(const Expr& expr) {
    if (expr.name == "dyn" && expr.args.size() == 1) {
      const Range inner = cost(*expr.args[0]);
      if (const auto known = size(*expr.args[0])) {
        sizes_of_[&expr] = *known;
      }
      if (const auto known = entries(*expr.args[0])) {
        entries_of_[&expr] = *known;
      }
      return fixed(1) + inner;
    }
    std::vector<CostNode> nodes;
    Range arguments;
    std::vector<Range> costs;
    for (const ExprPtr& arg : expr.args) {
      costs.push_back(cost(*arg));
      arguments = arguments + costs.back();
      nodes.push_back(node(*arg));
    }
    if (expr.name == "_?._") {
      return arguments + fixed(1);
    }
    if (expr.overloads.empty()) {
      return fixed(0);
    }
    Range out;
    std::optional<CostNode> target;
    if (expr.target) {
      out = cost(*expr.target);
      target = node(*expr.target);
    }
    if (expr.name == "_&&_" || expr.name == "_||_") {
      return {costs[0].min, arguments.max};
    }
    Range function{kUnlimited, 0};
    std::optional<Range> result;
    for (const Overload* overload : expr.overloads) {
      const CallEstimate estimate = overload_cost(expr, *overload, target, nodes, costs, arguments);
      function = function.join(estimate.cost);
      if (estimate.result) {
        result = result ? result->join(*estimate.result) : *estimate.result;
      }
      if (overload->id == "index_list" || overload->id == "index_map") {
        if (const auto known = entries(*expr.args[0])) {
          result = known->value;
        } else {
          result.reset();
        }
        paths_[&expr] = path(*expr.args[0], overload->id == "index_list" ? "@items" : "@values");
      }
      if (!result) {
        result = size(expr);
      }
    }
    if (result) {
      sizes_of_[&expr] = *result;
    }
    return out + function;
  }

  CallEstimate overload_cost(const Expr& expr, const Overload& overload,
                             const std::optional<CostNode>& target,
                             const std::vector<CostNode>& nodes, const std::vector<Range>& costs,
                             const Range& arguments) {
    if (overload.id == "conditional") {
      const auto yes = entries(*expr.args[1]);
      const auto no = entries(*expr.args[2]);
      if (yes && no) {
        entries_of_[&expr] = {yes->container, yes->key.join(no->key), yes->value.join(no->value)};
      }
      return {costs[0] + costs[1].join(costs[2]),
              size_or_unknown(*expr.args[1]).join(size_or_unknown(*expr.args[2]))};
    }
    if (overload.id == "add_list" || overload.id == "add_string" || overload.id == "add_bytes") {
      const auto left = entries(*expr.args[0]);
      const auto right = entries(*expr.args[1]);
      if (left && right) {
        entries_of_[&expr] = {left->container, left->key.join(right->key),
                              left->value.join(right->value)};
      }
    }
    CallEstimate out = estimate_call(sizes_, expr.name, overload.id, target, nodes);
    out.cost = out.cost + arguments;
    return out;
  }

  Range list(const Expr& expr) {
    Range sum;
    Range items{kUnlimited, 0};
    items.min = expr.args.empty() ? 0 : items.min;
    for (const ExprPtr& arg : expr.args) {
      sum = sum + cost(*arg);
      items = items.join(size_or_unknown(*arg));
    }
    entries_of_[&expr] = {TypeKind::kList, fixed(1), items};
    return sum + fixed(kListCost);
  }

  Range map(const Expr& expr) {
    Range sum;
    Range keys{expr.args.empty() ? 0 : kUnlimited, 0};
    Range values = keys;
    for (std::size_t i = 0; i + 1 < expr.args.size(); i += 2) {
      sum = sum + cost(*expr.args[i]) + cost(*expr.args[i + 1]);
      keys = keys.join(size_or_unknown(*expr.args[i]));
      values = values.join(size_or_unknown(*expr.args[i + 1]));
    }
    entries_of_[&expr] = {TypeKind::kMap, keys, values};
    return sum + fixed(kMapCost);
  }

  void push(const std::string& name, Path path, std::optional<Range> size,
            std::optional<Entries> held = std::nullopt) {
    locals_[name].push_back({std::move(path), size, held});
  }
  void pop(const std::string& name) { locals_[name].pop_back(); }

  void push_variables(const Expr& expr, const Expr& range) {
    const auto held = entries(range);
    const TypeKind kind = held ? held->container : range.type->kind;
    const auto key = held ? std::optional(held->key) : std::nullopt;
    const auto value = held ? std::optional(held->value) : std::nullopt;
    const bool is_list = kind == TypeKind::kList;
    if (expr.variable2.empty()) {
      push(expr.variable, path(range, is_list ? "@items" : "@keys"), is_list ? value : key);
      return;
    }
    push(expr.variable, path(range, is_list ? "@indices" : "@keys"), key);
    push(expr.variable2, path(range, is_list ? "@items" : "@values"), value);
  }

  Range fold(const Expr& expr) {
    const Expr& range = *expr.args[0];
    const Expr& start = *expr.args[1];
    Range sum = cost(range) + cost(start);
    push(expr.accumulator, path(start), size(start), entries(start));
    push_variables(expr, range);
    const Range condition = cost(*expr.args[2]);
    const Range step = cost(*expr.args[3]);
    pop(expr.variable);
    if (!expr.variable2.empty()) {
      pop(expr.variable2);
    }
    sum = sum + cost(*expr.args[4]);
    pop(expr.accumulator);
    const Range count = size_or_unknown(range);
    sum = sum + count * (step + condition);
    if (start.kind == ExprKind::kLiteral) {
      if (const auto known = size(start)) {
        sizes_of_[&expr] = *known;
      }
    } else if (start.kind == ExprKind::kList || start.kind == ExprKind::kMap) {
      sizes_of_[&expr] = count;
      if (const auto held = entries(*expr.args[3])) {
        entries_of_[&expr] = *held;
      }
    }
    return sum;
  }

  Range binding(const Expr& expr) {
    const Expr& bound = *expr.args[1];
    const Expr& result = *expr.args[4];
    Range sum = cost(*expr.args[0]) + cost(bound);
    push(expr.accumulator, path(bound), size(bound), entries(bound));
    sum = sum + cost(result);
    const auto known = size(result);
    const auto held = entries(result);
    pop(expr.accumulator);
    if (known) {
      sizes_of_[&expr] = *known;
    }
    if (held) {
      entries_of_[&expr] = *held;
    }
    return sum;
  }

  SchemaSizes sizes_;
  std::map<const Expr*, Range> costs_;
  std::map<const Expr*, Path> paths_;
  std::map<const Expr*, Range> sizes_of_;
  std::map<const Expr*, Entries> entries_of_;
  std::map<std::string, std::vector<Local>> locals_;
};

}  // namespace

std::uint64_t estimate_cost(const Expr& expr, const Declaration& root) {
  return Estimator(root).cost(expr).max;
}

}  // namespace kintsugi::cel
