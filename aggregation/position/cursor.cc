#include "aggregation/position/cursor.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "base/digest.h"

namespace kintsugi::aggregation {
namespace {

constexpr std::string_view kLayout = "120";  ///< layout 1, components of 20 digits
constexpr std::size_t kWidth = 20;
constexpr std::size_t kHeadDigits = 15;
constexpr std::size_t kMaxDigits = 2'048;
constexpr std::size_t kMaxNativeDigits = 20;

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
  char digits[kWidth];
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
  std::string out;
  out.reserve(kHeadDigits + kWidth * components.size());
  out += kLayout;
  append_padded(out, generation, 6);
  append_padded(out, check, 6);
  for (const std::uint64_t component : components) {
    append_padded(out, component, kWidth);
  }
  return out;
}

/// Of the scope in the book.
ScopeId id_of(const Scope& scope, std::uint32_t era) {
  const auto digest =
      sha256(scope.route + '#' + std::to_string(era) + '\n' + scope.group + '\n' + scope.resource);
  return ScopeId(reinterpret_cast<const char*>(digest.data()), kScopeIdBytes);
}

bool is_malformed(std::string_view text) {
  return text.size() > kMaxDigits || text.front() == '0' ||
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
  if (text.size() <= kHeadDigits || text.size() > kMaxDigits || !text.starts_with(kLayout) ||
      (text.size() - kHeadDigits) % kWidth != 0) {
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
  for (const std::string& uid : table->uids) {
    const std::optional<std::size_t> slot = history_->slot_of(uid);
    then.push_back(slot ? components[*slot] : 0);
  }
  return write(*table, cursor_check(scope_, table->uids, history_->era()), then);
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
    const std::optional<std::size_t> slot = history_->slot_of(uid);
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
  const std::size_t slots = (text.size() - kHeadDigits) / kWidth;
  const std::uint64_t check = *number(text.substr(9, 6));
  const SlotTable* table = history_->find(*generation);
  if (table == nullptr) {
    const bool later = *generation > history_->current().generation;
    DecodedVersion out =
        of_kind(later ? VersionClass::kFuture : VersionClass::kUnknown, "generation");
    out.generation = *generation;
    return out;
  }
  if (table->uids.size() != slots || cursor_check(scope_, table->uids, history_->era()) != check) {
    return unknown;
  }
  Components components;
  for (std::size_t i = 0; i < slots; ++i) {
    const std::optional<std::uint64_t> component =
        number(text.substr(kHeadDigits + i * kWidth, kWidth));
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
