#include "cel/internal/call_work.h"

#include <algorithm>
#include <array>

#include "base/strings.h"
#include "cel/internal/functions.h"

namespace kintsugi::cel {

namespace {

constexpr std::size_t kBytesPerStep = 16;         ///< of text that is read
constexpr std::size_t kCountedBytesPerStep = 16;  ///< of text whose code points are counted
constexpr std::size_t kSplitBytesPerStep = 2;     ///< of text that becomes code points
constexpr std::uint64_t kStepsPerMerged = 64;     ///< items of set and map lists: they get keys
constexpr std::uint64_t kStepsPerMember = 16;     ///< of maps that are compared
constexpr std::uint64_t kStepsPerPrinted = 128;   ///< values that are formatted
constexpr std::uint64_t kStepsPerDouble = 256;    ///< up to 300 digits
constexpr std::uint64_t kCallSteps = 8;           ///< of what is no operator
constexpr std::uint64_t kStepsPerParsed = 40;
constexpr std::uint64_t kPairsPerStep = 32;  ///< bytes of a text by bytes of what is searched for
constexpr std::size_t kShortText = 1024;     ///< bytes in which a pattern's states are few

std::uint64_t times(std::uint64_t a, std::uint64_t b) {
  std::uint64_t out = 0;
  return __builtin_mul_overflow(a, b, &out) ? UINT64_MAX : out;
}

std::uint64_t nothing(const Value* /*args*/, std::size_t /*count*/, std::uint64_t /*most*/) {
  return 0;
}

std::uint64_t text(const Value* args, std::size_t count, std::uint64_t /*most*/) {
  std::uint64_t steps = 0;
  for (std::size_t i = 0; i < count; ++i) {
    steps += args[i].text().size() / kBytesPerStep;
  }
  return steps;
}

std::uint64_t code_points(const Value* args, std::size_t count, std::uint64_t most) {
  return count == 0 ? 0
                    : args[0].text().size() / kSplitBytesPerStep + text(args + 1, count - 1, most);
}

/// What makes something else of a text, or of something else a text.
std::uint64_t parse(const Value* args, std::size_t count, std::uint64_t most) {
  return kStepsPerParsed + text(args, count, most);
}

/// A text in another one, compared at each place.
std::uint64_t search(const Value* args, std::size_t count, std::uint64_t most) {
  const std::uint64_t places = text(args, count, most) + kCallSteps;
  return count < 2 ? places
                   : places + times(args[0].text().size(), args[1].text().size()) / kPairsPerStep;
}

std::uint64_t walk(const Value* args, std::size_t count, std::uint64_t most) {
  std::uint64_t steps = kCallSteps + text(args, count, most);
  for (std::size_t i = 0; i < count && steps <= most; ++i) {
    steps += args[i].has_parts() ? args[i].parts(most / kStepsPerItem + 1) * kStepsPerItem : 0;
  }
  return steps;
}

std::uint64_t size(const Value* args, std::size_t count, std::uint64_t /*most*/) {
  return count == 0 ? 0 : args[0].text().size() / kCountedBytesPerStep;
}

std::uint64_t place(const Value* args, std::size_t count, std::uint64_t most) {
  return count > 0 && args[0].is(Kind::kList)
             ? walk(args, count, most)
             : code_points(args, count, most) + search(args, count, most);
}

std::uint64_t member(const Value* args, std::size_t count, std::uint64_t most) {
  return count == 2 && args[1].is(Kind::kMap) ? text(args, 1, most) : walk(args, count, most);
}

bool is_merged(const Value& value) {
  return value.is(Kind::kList) && value.schema() != nullptr &&
         value.schema()->list_type != krm::ListType::kAtomic;
}

std::uint64_t add(const Value* args, std::size_t count, std::uint64_t most) {
  if (count != 2 || !args[0].is(Kind::kList)) {
    return text(args, count, most);
  }
  return is_merged(args[0]) ? times(args[0].size() + args[1].size(), kStepsPerMerged) : 0;
}

/// Each value of one list is compared with each of the other.
std::uint64_t pairs(const Value* args, std::size_t count, std::uint64_t most) {
  if (count == 0 || !args[0].is(Kind::kList) || !args[count - 1].is(Kind::kList)) {
    return 0;
  }
  const Value& left = args[0];
  const Value& right = args[count - 1];
  return times(kStepsPerItem, std::min(times(left.parts(most + 1), right.size()),
                                       times(right.parts(most + 1), left.size())));
}

std::uint64_t format(const Value* args, std::size_t count, std::uint64_t most) {
  std::uint64_t steps = text(args, count, most);
  if (count == 2 && args[1].is(Kind::kList)) {
    steps += times(args[1].parts(most / kStepsPerPrinted + 1), kStepsPerPrinted);
    if (const std::vector<Value>* items = args[1].own_items()) {
      steps += times(static_cast<std::uint64_t>(
                         std::count_if(items->begin(), items->end(),
                                       [](const Value& each) { return each.is(Kind::kDouble); })),
                     kStepsPerDouble);
    }
  }
  return steps;
}

struct Rule {
  std::string_view name;
  WorkFunction work;
};

constexpr std::array kRules = {
    Rule{"size", size},
    Rule{"first", nothing},
    Rule{"last", nothing},
    Rule{"dyn", nothing},
    Rule{"type", nothing},
    Rule{"value", nothing},
    Rule{"hasValue", nothing},
    Rule{"optional.of", nothing},
    Rule{"optional.ofNonZeroValue", nothing},
    Rule{"charAt", code_points},
    Rule{"contains", search},
    Rule{"url", parse},
    Rule{"isURL", parse},
    Rule{"getQuery", parse},
    Rule{"timestamp", parse},
    Rule{"duration", parse},
    Rule{"semver", parse},
    Rule{"isSemver", parse},
    Rule{"ip", parse},
    Rule{"isIP", parse},
    Rule{"cidr", parse},
    Rule{"isCIDR", parse},
    Rule{"quantity", parse},
    Rule{"isQuantity", parse},
    Rule{"string", parse},
    Rule{"double", parse},
    Rule{"int", parse},
    Rule{"matches", parse},
    Rule{"find", parse},
    Rule{"substring", code_points},
    Rule{"replace", code_points},
    Rule{"trim", code_points},
    Rule{"indexOf", place},
    Rule{"lastIndexOf", place},
    Rule{"startsWith", nothing},  // costs by what it compares
    Rule{"endsWith", nothing},
    Rule{"_+_", add},
    Rule{"@in", member},
    Rule{"sets.contains", pairs},
    Rule{"sets.equivalent", pairs},
    Rule{"sets.intersects", pairs},
    Rule{"distinct", pairs},
    Rule{"format", format},
};

}  // namespace

std::uint64_t pattern_work(std::size_t text, std::size_t size) noexcept {
  return times(text, size) / (text > kShortText ? 4 : 64);
}

WorkFunction work_function(std::string_view function) {
  if (function.starts_with('_') && function != "_+_") {
    return text;
  }
  const auto* found = std::find_if(kRules.begin(), kRules.end(),
                                   [&](const Rule& rule) { return rule.name == function; });
  return found == kRules.end() ? walk : found->work;
}

std::uint64_t equality_work(const Value& left, const Value& right, std::uint64_t most) {
  if (const Value* inner = left.boxed(); inner != nullptr && right.boxed() != nullptr) {
    return kStepsPerItem + (inner->has_parts() ? equality_work(*inner, *right.boxed(), most)
                                               : inner->text().size() / kBytesPerStep);
  }
  if (left.size() != right.size()) {
    return 0;
  }
  const std::uint64_t each = is_merged(left)       ? kStepsPerMerged
                             : left.is(Kind::kMap) ? kStepsPerMember
                                                   : kStepsPerItem;
  return times(left.size(), each) + times(left.parts(most / kStepsPerItem + 1), kStepsPerItem);
}

}  // namespace kintsugi::cel
