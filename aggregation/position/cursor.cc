#include "aggregation/position/cursor.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "base/digest.h"

namespace kintsugi::aggregation {
namespace {

constexpr std::size_t kMaxWidth = 20;
constexpr std::size_t kHeadDigits = 15;
constexpr std::size_t kMaxDigits = 2'048;  ///< of what is no cursor of many slots
constexpr std::size_t kMaxNativeDigits = 20;

/// How vectors are written.
struct Layout {
  std::string_view mark;     ///< layout 1, and the digits of a component
  std::size_t width;         ///< the same
  std::size_t least_digits;  ///< of all; zeros follow the components where they are fewer
  std::size_t most_slots;

  [[nodiscard]] std::size_t digits(std::size_t slots) const noexcept {
    return std::max(least_digits, kHeadDigits + width * slots);
  }
  /// Some number of slots is written with as many digits.
  [[nodiscard]] bool fits(std::size_t digits) const noexcept {
    return digits == least_digits ||
           (digits > std::max(least_digits, kHeadDigits) && (digits - kHeadDigits) % width == 0 &&
            digits <= this->digits(most_slots));
  }
};
constexpr Layout kFull{"120", 20, 0, kMaxFullSlots};
constexpr Layout kShort{"114", 14, kHeadDigits + 20 * (kMaxFullSlots + 1), kMaxVectorSlots};

const Layout& layout_of(std::size_t slots) noexcept {
  return slots <= kMaxFullSlots ? kFull : kShort;
}

/// nullptr: no vector.
const Layout* layout_of(std::string_view text) noexcept {
  for (const Layout* each : {&kFull, &kShort}) {
    if (text.starts_with(each->mark) && each->fits(text.size())) {
      return each;
    }
  }
  return nullptr;
}

std::optional<std::uint64_t> number(std::string_view digits) {
  std::uint64_t value = 0;
  const char* end = digits.data() + digits.size();
  const auto [stop, code] = std::from_chars(digits.data(), end, value);
  if (code != std::errc() || stop != end) {
    return std::nullopt;
  }
  return value;
}

void append_padded(std::string& out, std::uint64_t value, std::size_t width) {
  char digits[kMaxWidth];
  const auto [end, code] = std::to_chars(digits, digits + sizeof digits, value);
  const auto size = static_cast<std::size_t>(end - digits);
  static_cast<void>(code);  // twenty digits hold every value
  out.append(width - size, '0');
  out.append(digits, size);
}

DecodedVersion of_kind(VersionClass kind, std::string_view reason = {}) {
  DecodedVersion out;
  out.kind = kind;
  out.reason = reason;
  return out;
}

std::string cursor_text(std::uint32_t generation, std::uint32_t check,
                        const Components& components) {
  const Layout& layout = layout_of(components.size());
  const std::size_t digits = layout.digits(components.size());
  const bool has_room = layout.width == kMaxWidth;
  std::string out;
  out.reserve(digits);
  out += layout.mark;
  append_padded(out, generation, 6);
  append_padded(out, check, 6);
  for (const std::uint64_t component : components) {
    // Its shard is refused now; whoever comes back with this has to list (AGG-517).
    append_padded(out, has_room || component < kFirstSequence ? component : kBegun, layout.width);
  }
  out.append(digits - out.size(), '0');
  return out;
}

/// Of the scope in the book.
ScopeId id_of(const Scope& scope, std::uint32_t era) {
  const auto digest =
      sha256(scope.route + '#' + std::to_string(era) + '\n' + scope.group + '\n' + scope.resource);
  return ScopeId(reinterpret_cast<const char*>(digest.data()), kScopeIdBytes);
}

bool is_malformed(std::string_view text) {
  return (text.size() > kMaxDigits && layout_of(text) == nullptr) || text.front() == '0' ||
         !std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

std::uint32_t cursor_check(const Scope& scope, const std::vector<std::string>& uids,
                           std::uint32_t era) {
  std::string text = "kintsugi-cursor/1\n" + scope.route;
  if (era > 0) {
    (text += '#') += std::to_string(era + 1);
  }
  text += '\n' + scope.group + '\n' + scope.resource;
  for (const std::string& uid : uids) {
    (text += '\n') += uid;
  }
  const auto bytes = sha256(text);
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < 8; ++i) {
    value = value << 8 | bytes[i];
  }
  return static_cast<std::uint32_t>(value % 1'000'000);
}

std::optional<std::uint32_t> named_generation(std::string_view text) noexcept {
  if (layout_of(text) == nullptr) {
    return std::nullopt;
  }
  const std::optional<std::uint64_t> generation = number(text.substr(3, 6));
  if (!generation) {
    return std::nullopt;
  }
  return static_cast<std::uint32_t>(*generation);
}

CursorCodec::CursorCodec(Scope scope, SlotHistoryPtr history, std::shared_ptr<SequenceBook> book,
                         bool sequence)
    : scope_(std::move(scope)),
      history_(std::move(history)),
      book_(std::move(book)),
      sequence_(sequence),
      check_(cursor_check(scope_, history_->current().uids, history_->era())),
      id_(is_sequence() ? id_of(scope_, history_->era()) : ScopeId()) {}

bool CursorCodec::uses_numbers(const SlotTable& table) const noexcept {
  return book_ != nullptr && (sequence_ || table.uids.size() > kMaxVectorSlots);
}

std::uint32_t CursorCodec::check_of(const SlotTable& table) const {
  return &table == &history_->current() ? check_
                                        : cursor_check(scope_, table.uids, history_->era());
}

std::string CursorCodec::write(const SlotTable& table, std::uint32_t check,
                               const Components& components) const {
  if (!uses_numbers(table)) {
    return cursor_text(table.generation, check, components);
  }
  const TimePoint now = Clock::now();
  return std::to_string(
      id_.empty()  // of an earlier table that was larger
          ? book_->mint(id_of(scope_, history_->era()), table.generation, components, now)
          : book_->mint(id_, table.generation, components, now));
}

std::string CursorCodec::format(const Components& components) const {
  return write(history_->current(), check_, components);
}

std::string CursorCodec::format_as_of(std::uint32_t generation,
                                      const Components& components) const {
  const SlotTable* table = history_->find(generation);
  if (table == nullptr || generation == history_->current().generation) {
    return format(components);
  }
  Components then;
  for (std::size_t old = 0; old < table->uids.size(); ++old) {
    const std::optional<std::size_t> slot = history_->slot_of(table->uids[old], old);
    then.push_back(slot ? components[*slot] : 0);
  }
  return write(*table, check_of(*table), then);
}

std::optional<SequenceBook::Vector> CursorCodec::find(std::uint64_t sequence) const {
  return is_sequence() ? book_->find(id_, sequence) : std::nullopt;
}

DecodedVersion CursorCodec::decode_sequence(std::uint64_t number,
                                            const std::vector<bool>& members) const {
  const std::optional<SequenceBook::Vector> vector = find(number);
  const SlotTable* table = vector ? history_->find(vector->generation) : nullptr;
  if (table == nullptr || table->uids.size() != vector->components.size()) {
    return of_kind(VersionClass::kUnknown, "sequence");
  }
  return translate(*table, vector->components, members);
}

DecodedVersion CursorCodec::translate(const SlotTable& table, const Components& components,
                                      const std::vector<bool>& members) const {
  DecodedVersion out = of_kind(VersionClass::kCursor);
  out.generation = table.generation;
  out.components.resize(history_->current().uids.size());
  for (std::size_t i = 0; i < components.size(); ++i) {
    const std::uint64_t component = components[i];
    if (component == kBegun) {
      return of_kind(VersionClass::kUnknown, "check");
    }
    if (component == 0) {
      continue;
    }
    const std::string& uid = table.uids[i];
    if (history_->rolled_back_since(uid, table.generation)) {
      return of_kind(VersionClass::kUnknown, "rollback");
    }
    const std::optional<std::size_t> slot = history_->slot_of(uid, i);
    if (slot && members[*slot]) {
      out.components[*slot] = component;
    } else {
      out.departed.push_back(uid);
      out.reason = "removed";
    }
  }
  return out;
}

DecodedVersion CursorCodec::decode(std::string_view text, const std::vector<bool>& members) const {
  if (text.empty()) {
    return of_kind(VersionClass::kUnset);
  }
  if (text == "0") {
    return of_kind(VersionClass::kZero);
  }
  if (is_malformed(text)) {
    return of_kind(VersionClass::kMalformed);
  }
  if (text.size() <= kMaxNativeDigits) {
    const std::optional<std::uint64_t> value = number(text);
    if (value && *value >= kFirstSequence && is_sequence()) {
      return decode_sequence(*value, members);
    }
    DecodedVersion out = of_kind(value ? VersionClass::kNative : VersionClass::kUnknown, "native");
    out.native = value.value_or(0);
    return out;
  }
  const DecodedVersion unknown = of_kind(VersionClass::kUnknown, "check");
  const std::optional<std::uint32_t> generation = named_generation(text);
  if (!generation || is_sequence()) {
    return unknown;
  }
  const std::uint64_t check = *number(text.substr(9, 6));
  const SlotTable* table = history_->find(*generation);
  if (table == nullptr) {
    const bool later = *generation > history_->current().generation;
    DecodedVersion out =
        of_kind(later ? VersionClass::kFuture : VersionClass::kUnknown, "generation");
    out.generation = *generation;
    return out;
  }
  const std::size_t slots = table->uids.size();
  const Layout& layout = layout_of(slots);
  if (!text.starts_with(layout.mark) || text.size() != layout.digits(slots) ||
      check_of(*table) != check) {
    return unknown;
  }
  Components components;
  components.reserve(slots);
  for (std::size_t i = 0; i < slots; ++i) {
    const std::optional<std::uint64_t> component =
        number(text.substr(kHeadDigits + i * layout.width, layout.width));
    if (!component) {
      return unknown;
    }
    components.push_back(*component);
  }
  return translate(*table, components, members);
}

bool is_newer_version(std::string_view a, std::string_view b) noexcept {
  return a.size() != b.size() ? a.size() > b.size() : a > b;
}

}  // namespace kintsugi::aggregation
