#include "cel/internal/cost_rules.h"

#include <array>

#include "base/strings.h"

namespace kintsugi::cel {

namespace {

struct Call {
  const SchemaSizes& sizes;
  std::string_view overload;
  const std::optional<CostNode>& target;
  const std::vector<CostNode>& args;

  /// Kubernetes asks the schema where nothing is known, cel-go does not.
  [[nodiscard]] Range size(const CostNode& node) const {
    return node.size ? *node.size : sizes.at(node.path).value_or(unknown());
  }
  [[nodiscard]] Range arg(std::size_t index) const {
    return index < args.size() ? size(args[index]) : unknown();
  }
  [[nodiscard]] Range receiver() const { return target ? size(*target) : unknown(); }
  [[nodiscard]] Range plain(std::size_t index) const {
    return index < args.size() ? args[index].size.value_or(unknown()) : unknown();
  }
  [[nodiscard]] Range plain_receiver() const {
    return target ? target->size.value_or(unknown()) : unknown();
  }
  /// The value of a literal argument.
  [[nodiscard]] std::uint64_t literal(std::size_t index, std::uint64_t otherwise) const {
    const Expr* expr = index < args.size() ? args[index].expr : nullptr;
    if (expr == nullptr || expr->kind != ExprKind::kLiteral || !expr->literal.is(Kind::kInt)) {
      return otherwise;
    }
    return expr->literal.integer() < 0 ? 0 : static_cast<std::uint64_t>(expr->literal.integer());
  }
};
using Rule = CallEstimate (*)(const Call& call);

CallEstimate unit(const Call& /*call*/) { return {fixed(1), std::nullopt}; }
CallEstimate check_access(const Call& /*call*/) { return {fixed(kAccessCheckCost), std::nullopt}; }

CallEstimate traverse(const Call& call) {
  if (!call.target || call.target->type->params.empty()) {
    return {call.receiver().scaled(kTraversalFactor), std::nullopt};
  }
  const Type& element = *call.target->type->params[0];
  Range each = fixed(1);
  if (element.kind == TypeKind::kString || element.kind == TypeKind::kBytes) {
    CostNode node;
    node.path = call.target->path;
    if (!node.path.empty()) {
      node.path.emplace_back("@items");
    }
    each = each + call.size(node).scaled(kTraversalFactor);
  }
  return {call.receiver() * each, std::nullopt};
}

CallEstimate scan_argument(const Call& call) {
  return {call.arg(0).scaled(kTraversalFactor), std::nullopt};
}
CallEstimate url(const Call& call) { return {call.arg(0).scaled(kTraversalFactor), call.arg(0)}; }
CallEstimate scan_receiver(const Call& call) {
  return {call.receiver().scaled(kTraversalFactor), call.receiver()};
}
CallEstimate scan_argument_twice(const Call& call) {
  return {call.arg(0).scaled(2 * kTraversalFactor), std::nullopt};
}

CallEstimate replace(const Call& call) {
  const Range whole = call.receiver();
  const Range old = call.arg(0);
  const Range fresh = call.arg(1);
  const auto plus_one = [](std::uint64_t value) { return value < kUnlimited ? value + 1 : value; };
  const auto divided = [](std::uint64_t a, std::uint64_t b) {
    return static_cast<std::uint64_t>(std::min(
        std::ceil(static_cast<double>(a) / static_cast<double>(b)), 18446744073709549568.0));
  };
  Range count;
  Range kept;
  if (old.min == 0) {
    count.max = plus_one(whole.max);
    kept.max = whole.max;
  } else if (fresh.max <= old.min) {
    kept.max = whole.max;
  } else {
    count.max = divided(whole.max, old.min);
  }
  if (old.max == 0) {
    count.min = plus_one(whole.min);
    kept.min = whole.min;
  } else if (old.max <= fresh.min) {
    kept.min = whole.min;
  } else {
    count.min = divided(whole.min, old.max);
  }
  return {whole.scaled(2 * kTraversalFactor), count * fresh + kept};
}

CallEstimate split(const Call& call) {
  const Range whole = call.receiver();
  std::uint64_t most = whole.max;
  if (call.args.size() > 1 && call.args[1].expr->kind == ExprKind::kLiteral &&
      call.args[1].expr->literal.is(Kind::kInt)) {
    most = call.args[1].expr->literal.unsigned_integer();
  }
  return {whole.scaled(2 * kTraversalFactor), Range{0, most}};
}

CallEstimate join(const Call& call) {
  const Range items = call.receiver();
  Range size;
  if (call.target && !call.target->type->params.empty()) {
    CostNode node;
    node.path = call.target->path;
    if (!node.path.empty()) {
      node.path.emplace_back("@items");
    }
    size = items * call.size(node);
  }
  if (!call.args.empty()) {
    size = size + call.arg(0) *
                      Range{items.min > 0 ? items.min - 1 : 0, items.max > 0 ? items.max - 1 : 0};
  }
  return {size.scaled(kTraversalFactor), size};
}

CallEstimate find(const Call& call) {
  const Range text = call.receiver();
  return {(text + fixed(1)).scaled(kTraversalFactor) * call.arg(0).scaled(kPatternFactor),
          Range{0, text.max}};
}

CallEstimate ip(const Call& call) {
  return call.overload == "cidr_ip" ? unit(call) : scan_argument(call);
}

Range address_cost(const Call& call, std::string_view from_text) {
  Range out = Range{8, 32}.scaled(kTraversalFactor);
  if (call.overload == from_text) {
    out = out + call.arg(0).scaled(kTraversalFactor);
  }
  return out;
}
CallEstimate contains_ip(const Call& call) {
  return {address_cost(call, "cidr_contains_ip_string"), std::nullopt};
}
CallEstimate contains_cidr(const Call& call) {
  return {address_cost(call, "cidr_contains_cidr_string") + Range{4, 16}.scaled(kTraversalFactor) +
              fixed(1),
          std::nullopt};
}
CallEstimate validate(const Call& call) {
  constexpr double kMaxPattern = 128;
  return {call.arg(0).scaled(kTraversalFactor).scaled(kMaxPattern * kPatternFactor), std::nullopt};
}

CallEstimate allocate(Range size, double factor) {
  return {size.scaled(factor) + fixed(1) + fixed(kListCost), size};
}
CallEstimate slice(const Call& call) {
  const std::uint64_t begin = call.literal(0, 0);
  const std::uint64_t end = call.literal(1, call.receiver().max);
  return allocate(fixed(end - begin), 1);
}
CallEstimate range(const Call& call) { return allocate(fixed(call.literal(0, kUnlimited)), 1); }
CallEstimate reverse(const Call& call) { return allocate(call.receiver(), 1); }
CallEstimate flatten(const Call& call) {
  const std::uint64_t depth = call.args.empty() ? 1 : call.literal(0, kUnlimited);
  return allocate(call.receiver(), static_cast<double>(depth));
}
CallEstimate distinct(const Call& call) { return allocate(call.receiver() * call.receiver(), 2); }
CallEstimate sort(const Call& call) {
  const Range size = call.args.empty() ? call.receiver() : call.arg(0);
  const bool text =
      call.overload.starts_with("list_string") || call.overload.starts_with("list_bytes");
  return allocate(size * size, text ? 2 + kTraversalFactor : 2);
}
template <int kTimes>
CallEstimate sets(const Call& call) {
  return {(call.arg(0) * call.arg(1)).scaled(kTimes) + fixed(1), std::nullopt};
}

CallEstimate to_bytes(const Call& call) {
  const Range size = call.plain(0);
  return {size.scaled(kTraversalFactor),
          Range{size.min, size.max * 4}};  // wraps around, as in the reference
}
CallEstimate from_bytes(const Call& call) {
  const Range size = call.plain(0);
  return {size.scaled(kTraversalFactor), Range{size.min / 4, size.max}};
}
CallEstimate quote(const Call& call) {
  const Range size = call.plain(0);
  return {size.scaled(kTraversalFactor),
          Range{size.min + 2, size.max * 2 + 2}};  // wraps around, as in the reference
}
CallEstimate format(const Call& call) {
  return {call.plain_receiver().scaled(kTraversalFactor), std::nullopt};
}
CallEstimate prefix(const Call& call) {
  return {call.plain(0).scaled(kTraversalFactor), std::nullopt};
}
CallEstimate in_list(const Call& call) { return {call.plain(1), std::nullopt}; }
CallEstimate matches(const Call& call) {
  const Range text = call.target ? call.plain_receiver() : call.plain(0);
  const Range pattern = call.plain(call.target ? 0 : 1);
  return {(text + fixed(1)).scaled(kTraversalFactor) * pattern.scaled(kPatternFactor),
          std::nullopt};
}
CallEstimate contains(const Call& call) {
  return {call.plain_receiver().scaled(kTraversalFactor) * call.plain(0).scaled(kTraversalFactor),
          std::nullopt};
}
CallEstimate add(const Call& call) {
  const Range size = call.plain(0) + call.plain(1);
  return {call.overload == "add_list" ? fixed(1) : size.scaled(kTraversalFactor), size};
}
CallEstimate compare(const Call& call) {
  const std::uint64_t most = std::min(call.plain(0).max, call.plain(1).max);
  return {Range{most > 0 ? std::uint64_t{1} : 0, most}.scaled(kTraversalFactor), std::nullopt};
}

struct Row {
  std::string_view name;
  Rule rule;
};

constexpr std::array kExtensions = {
    Row{"list_slice", slice},
    Row{"list_flatten", flatten},
    Row{"list_flatten_int", flatten},
    Row{"lists_range", range},
    Row{"list_reverse", reverse},
    Row{"list_distinct", distinct},
    Row{"list_sets_contains_list", sets<1>},
    Row{"list_sets_intersects_list", sets<1>},
    Row{"list_sets_equivalent_list", sets<2>},
};

constexpr std::array kFunctions = {
    Row{"isSorted", traverse},
    Row{"sum", traverse},
    Row{"max", traverse},
    Row{"min", traverse},
    Row{"indexOf", traverse},
    Row{"lastIndexOf", traverse},
    Row{"url", url},
    Row{"jsonpatch.escapeKey", url},
    Row{"lowerAscii", scan_receiver},
    Row{"upperAscii", scan_receiver},
    Row{"substring", scan_receiver},
    Row{"trim", scan_receiver},
    Row{"replace", replace},
    Row{"split", split},
    Row{"join", join},
    Row{"find", find},
    Row{"findAll", find},
    Row{"cidr", scan_argument},
    Row{"isIP", scan_argument},
    Row{"isCIDR", scan_argument},
    Row{"ip", ip},
    Row{"ip.isCanonical", scan_argument_twice},
    Row{"containsIP", contains_ip},
    Row{"containsCIDR", contains_cidr},
    Row{"quantity", scan_argument},
    Row{"isQuantity", scan_argument},
    Row{"semver", scan_argument},
    Row{"isSemver", scan_argument},
    Row{"validate", validate},
    Row{"check", check_access},
    Row{"fieldSelector", scan_argument},
    Row{"labelSelector", scan_argument},
};

constexpr std::array kStandard = {
    Row{"string_to_bytes", to_bytes},
    Row{"bytes_to_string", from_bytes},
    Row{"strings_quote", quote},
    Row{"string_format", format},
    Row{"starts_with_string", prefix},
    Row{"ends_with_string", prefix},
    Row{"in_list", in_list},
    Row{"matches", matches},
    Row{"matches_string", matches},
    Row{"contains_string", contains},
    Row{"add_string", add},
    Row{"add_bytes", add},
    Row{"add_list", add},
    Row{"less_string", compare},
    Row{"greater_string", compare},
    Row{"less_equals_string", compare},
    Row{"greater_equals_string", compare},
    Row{"less_bytes", compare},
    Row{"greater_bytes", compare},
    Row{"less_equals_bytes", compare},
    Row{"greater_equals_bytes", compare},
    Row{"equals", compare},
    Row{"not_equals", compare},
};

template <std::size_t kSize>
StringMap<Rule> table(const std::array<Row, kSize>& rows) {
  StringMap<Rule> out;
  for (const Row& row : rows) {
    out[std::string(row.name)] = row.rule;
  }
  return out;
}

/// Equality of library values does not depend on sizes.
std::optional<Range> opaque_equality(const Call& call) {
  const Type& left = *call.args[0].type;
  if (!same_type(left, *call.args[1].type) || left.declaration != nullptr) {
    return std::nullopt;
  }
  if (left.name == "net.IP" || left.name == "net.CIDR" || left.name == "kubernetes.Quantity" ||
      left.name == "kubernetes.Semver") {
    return fixed(1);
  }
  if (left.name == "kubernetes.NamedFormat") {
    return Range{1, 64}.scaled(kTraversalFactor);
  }
  if (left.name == "kubernetes.URL") {
    const auto& size = call.args[1].size;
    return Range{1, size ? size->max : 1}.scaled(kTraversalFactor);
  }
  return std::nullopt;
}

}  // namespace

bool is_scalar(const Type& type) noexcept {
  switch (type.kind) {
    case TypeKind::kBool:
    case TypeKind::kDouble:
    case TypeKind::kDuration:
    case TypeKind::kInt:
    case TypeKind::kTimestamp:
    case TypeKind::kUint:
      return true;
    default:
      return is_optional(type) && is_scalar(*type.params[0]);
  }
}

std::optional<Range> SchemaSizes::at(const Path& path) const {
  if (path.empty()) {
    return std::nullopt;
  }
  const Declaration* here = &root_;
  for (std::size_t i = 1; i < path.size(); ++i) {
    const std::string& step = path[i];
    if (step == "@items" || step == "@values") {
      here = here->element.get();
    } else if (step == "@keys") {
      here = here->key.get();
    } else {
      const auto found = here->fields.find(step);
      here = found == here->fields.end() ? nullptr : found->second.get();
    }
    if (here == nullptr) {
      return std::nullopt;
    }
  }
  return Range{0, here->max_elements};
}

CallEstimate estimate_call(const SchemaSizes& sizes, std::string_view function,
                           std::string_view overload, const std::optional<CostNode>& target,
                           const std::vector<CostNode>& args) {
  static const auto& by_extension = *new StringMap<Rule>([] {
    StringMap<Rule> out = table(kExtensions);
    for (const char* type :
         {"int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes"}) {
      out["list_" + std::string(type) + "_sort"] = sort;
      out["list_" + std::string(type) + "_sortByAssociatedKeys"] = sort;
    }
    return out;
  }());
  static const auto& by_function = *new StringMap<Rule>(table(kFunctions));
  static const auto& by_overload = *new StringMap<Rule>(table(kStandard));
  const Call call{sizes, overload, target, args};
  if (const auto found = by_extension.find(overload); found != by_extension.end()) {
    return found->second(call);
  }
  if (const auto found = by_function.find(function); found != by_function.end()) {
    return found->second(call);
  }
  if (overload == "equals") {
    if (const auto cost = opaque_equality(call)) {
      return {*cost, std::nullopt};
    }
  }
  const auto found = by_overload.find(overload);
  return found == by_overload.end() ? unit(call) : found->second(call);
}

}  // namespace kintsugi::cel
