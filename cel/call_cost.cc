#include "cel/internal/call_cost.h"

#include <algorithm>
#include <array>

#include "base/strings.h"

namespace kintsugi::cel {

namespace {

using Call = CostedCall;

std::uint64_t scaled(std::uint64_t size, double factor) {
  const double exact = static_cast<double>(size) * factor;
  const auto whole = static_cast<std::uint64_t>(exact);
  return whole + (static_cast<double>(whole) < exact ? 1 : 0);
}

std::uint64_t traversal(const Value& value) {
  switch (value.kind()) {
    case Kind::kString:
    case Kind::kBytes:
      return static_cast<std::uint64_t>(static_cast<double>(value.text().size()) *
                                        kTraversalFactor);
    case Kind::kList: {
      std::uint64_t cost = 0;
      for (const Value& each : value.items()) {
        cost += traversal(each);
      }
      return cost;
    }
    case Kind::kMap: {
      std::uint64_t cost = 0;
      for (const Value& key : value.keys()) {
        Value item;
        value.find(key, item);
        cost += traversal(key) + traversal(item);
      }
      return cost;
    }
    default:
      return 1;
  }
}

std::uint64_t unit(const Call& /*call*/) { return 1; }
std::uint64_t check_access(const Call& /*call*/) { return kAccessCheckCost; }
std::uint64_t traverse(const Call& call) { return call.count == 0 ? 0 : traversal(call.args[0]); }
std::uint64_t scan(const Call& call) { return scaled(call.size(0), kTraversalFactor); }
std::uint64_t scan_twice(const Call& call) { return scaled(call.size(0), 2 * kTraversalFactor); }
std::uint64_t scan_argument(const Call& call) { return scaled(call.size(1), kTraversalFactor); }
std::uint64_t join(const Call& call) { return scaled(call.result.size(), 2 * kTraversalFactor); }
std::uint64_t match(const Call& call) {
  return scaled(call.size(0) + 1, kTraversalFactor) * scaled(call.size(1), kPatternFactor);
}
std::uint64_t find_text(const Call& call) {
  return scaled(call.size(0), kTraversalFactor) * scaled(call.size(1), kTraversalFactor);
}
std::uint64_t ip(const Call& call) { return call.overload == "cidr_ip" ? 1 : scan(call); }
std::uint64_t contains_ip(const Call& call) {
  const std::uint64_t text = call.overload == "cidr_contains_ip_string" ? scan_argument(call) : 0;
  return scaled(2 * call.size(0), kTraversalFactor) + text;
}
std::uint64_t contains_cidr(const Call& call) {
  const std::uint64_t text = call.overload == "cidr_contains_cidr_string" ? scan_argument(call) : 0;
  return scaled(2 * call.size(0), kTraversalFactor) + scaled(call.size(0), kTraversalFactor) + 1 +
         text;
}
std::uint64_t validate(const Call& call) {
  return scaled(call.size(1) + 1, kTraversalFactor) *
         scaled(format_regex_size(call.args[0]), kPatternFactor);
}
std::uint64_t in_list(const Call& call) { return call.size(1); }
/// The smaller size of the two. Counts a long text only where it matters.
std::uint64_t smaller(const Value& left, const Value& right) {
  const auto inner = [](const Value& value) {
    const Value* boxed = value.boxed();
    return boxed != nullptr ? boxed : &value;
  };
  const Value* small = inner(left);
  const Value* large = inner(right);
  if (small->text().size() > large->text().size()) {
    std::swap(small, large);
  }
  const std::uint64_t size = small->size();
  constexpr std::size_t kLongest = 4;  // bytes of a code point
  const bool certain = large->is(Kind::kString) && large->text().size() / kLongest >= size;
  return certain ? size : std::min<std::uint64_t>(size, large->size());
}
std::uint64_t compare(const Call& call) {
  return scaled(call.count < 2 ? 1 : smaller(call.args[0], call.args[1]), kTraversalFactor);
}
std::uint64_t concatenate(const Call& call) {
  return scaled(call.size(0) + call.size(1), kTraversalFactor);
}
std::uint64_t allocate(std::uint64_t size, double factor) {
  return static_cast<std::uint64_t>(static_cast<double>(size) * factor) + 1 + kListCost;
}
std::uint64_t output(const Call& call) { return allocate(call.result.size(), 1); }
std::uint64_t flatten(const Call& call) {
  double depth = call.count == 2 ? static_cast<double>(call.args[1].integer()) : 1;
  return allocate(call.size(0), depth < 0 ? 1 : depth);
}
std::uint64_t self_compare(const Value& list) {
  if (!list.is(Kind::kList) || list.size() == 0) {
    return allocate(0, 2);
  }
  const Value first = list.at(0);
  const bool text = first.is(Kind::kString) || first.is(Kind::kBytes);
  return allocate(list.size() * list.size(), text ? 2 + kTraversalFactor : 2);
}
std::uint64_t sort(const Call& call) { return self_compare(call.args[0]); }
std::uint64_t sort_by(const Call& call) { return self_compare(call.args[1]); }
template <int kTimes>
std::uint64_t sets(const Call& call) {
  return 1 + call.size(0) * call.size(1) * kTimes;
}

struct Rule {
  std::string_view name;
  std::uint64_t (*cost)(const Call& call);
};

/// By overload: extensions that count for themselves.
constexpr std::array kExtensions = {
    Rule{"list_slice", output},
    Rule{"list_flatten", flatten},
    Rule{"list_flatten_int", flatten},
    Rule{"lists_range", output},
    Rule{"list_reverse", output},
    Rule{"list_distinct", sort},
    Rule{"list_sets_contains_list", sets<1>},
    Rule{"list_sets_intersects_list", sets<1>},
    Rule{"list_sets_equivalent_list", sets<2>},
};

/// By function, whatever the overload: those of Kubernetes.
constexpr std::array kFunctions = {
    Rule{"isSorted", traverse},
    Rule{"sum", traverse},
    Rule{"max", traverse},
    Rule{"min", traverse},
    Rule{"indexOf", traverse},
    Rule{"lastIndexOf", traverse},
    Rule{"url", scan},
    Rule{"jsonpatch.escapeKey", scan},
    Rule{"lowerAscii", scan},
    Rule{"upperAscii", scan},
    Rule{"substring", scan},
    Rule{"trim", scan},
    Rule{"replace", scan_twice},
    Rule{"split", scan_twice},
    Rule{"join", join},
    Rule{"find", match},
    Rule{"findAll", match},
    Rule{"cidr", scan},
    Rule{"isIP", scan},
    Rule{"isCIDR", scan},
    Rule{"ip", ip},
    Rule{"ip.isCanonical", scan_twice},
    Rule{"containsIP", contains_ip},
    Rule{"containsCIDR", contains_cidr},
    Rule{"quantity", scan},
    Rule{"isQuantity", scan},
    Rule{"semver", scan},
    Rule{"isSemver", scan},
    Rule{"validate", validate},
    Rule{"isURL", unit},
    Rule{"check", check_access},
    Rule{"fieldSelector", scan_argument},
    Rule{"labelSelector", scan_argument},
};

/// By overload: the standard ones.
constexpr std::array kStandard = {
    Rule{"starts_with_string", scan_argument},
    Rule{"ends_with_string", scan_argument},
    Rule{"string_to_bytes", scan},
    Rule{"bytes_to_string", scan},
    Rule{"strings_quote", scan},
    Rule{"string_format", scan},
    Rule{"in_list", in_list},
    Rule{"less_string", compare},
    Rule{"greater_string", compare},
    Rule{"less_equals_string", compare},
    Rule{"greater_equals_string", compare},
    Rule{"less_bytes", compare},
    Rule{"greater_bytes", compare},
    Rule{"less_equals_bytes", compare},
    Rule{"greater_equals_bytes", compare},
    Rule{"add_string", concatenate},
    Rule{"add_bytes", concatenate},
    Rule{"matches", match},
    Rule{"matches_string", match},
    Rule{"contains_string", find_text},
};

using Table = StringMap<CostFunction>;

template <std::size_t kSize>
Table table(const std::array<Rule, kSize>& rules) {
  Table out;
  for (const Rule& rule : rules) {
    out[std::string(rule.name)] = rule.cost;
  }
  return out;
}

}  // namespace

CostFunction cost_function(std::string_view function, std::string_view overload) {
  static const auto& by_extension = *new Table([] {
    Table out = table(kExtensions);
    for (const char* type :
         {"int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes"}) {
      out["list_" + std::string(type) + "_sort"] = sort;
      out["list_" + std::string(type) + "_sortByAssociatedKeys"] = sort_by;
    }
    return out;
  }());
  static const auto& by_function = *new Table(table(kFunctions));
  static const auto& by_overload = *new Table(table(kStandard));
  if (const auto found = by_extension.find(overload); found != by_extension.end()) {
    return found->second;
  }
  if (const auto found = by_function.find(function); found != by_function.end()) {
    return found->second;
  }
  const auto found = by_overload.find(overload);
  return found == by_overload.end() ? unit : found->second;
}

std::uint64_t equality_cost(const Value& left, const Value& right, bool negated) {
  return !negated && left.is(Kind::kOpaque) ? 1 : scaled(smaller(left, right), kTraversalFactor);
}

}  // namespace kintsugi::cel
