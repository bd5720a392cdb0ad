#include "proxy/merge/cursor.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "base/sha256.h"

namespace kintsugi::proxy {
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

CursorCodec::CursorCodec(Scope scope, SlotHistoryPtr history)
    : scope_(std::move(scope)),
      history_(std::move(history)),
      check_(cursor_check(scope_, history_->current().uids, history_->era())) {}

std::string CursorCodec::format(const Components& components) const {
  return cursor_text(history_->current().generation, check_, components);
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
  return cursor_text(generation, cursor_check(scope_, table->uids, history_->era()), then);
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
    const std::optional<std::uint64_t> native = number(text);
    DecodedVersion out = of_kind(native ? VersionClass::kNative : VersionClass::kUnknown, "native");
    out.native = native.value_or(0);
    return out;
  }
  const DecodedVersion unknown = of_kind(VersionClass::kUnknown, "check");
  if (!text.starts_with(kLayout) || text.size() < kHeadDigits ||
      (text.size() - kHeadDigits) % kWidth != 0) {
    return unknown;
  }
  const std::size_t slots = (text.size() - kHeadDigits) / kWidth;
  const auto generation = static_cast<std::uint32_t>(*number(text.substr(3, 6)));
  const std::uint64_t check = *number(text.substr(9, 6));
  const SlotTable* table = history_->find(generation);
  if (table == nullptr) {
    const bool later = generation > history_->current().generation;
    DecodedVersion out =
        of_kind(later ? VersionClass::kFuture : VersionClass::kUnknown, "generation");
    out.generation = generation;
    return out;
  }
  if (table->uids.size() != slots || cursor_check(scope_, table->uids, history_->era()) != check) {
    return unknown;
  }
  DecodedVersion out = of_kind(VersionClass::kCursor);
  out.generation = generation;
  out.components.resize(history_->current().uids.size());
  for (std::size_t i = 0; i < slots; ++i) {
    const std::optional<std::uint64_t> component =
        number(text.substr(kHeadDigits + i * kWidth, kWidth));
    if (!component || *component == kBegun) {
      return unknown;
    }
    if (*component == 0) {
      continue;
    }
    const std::string& uid = table->uids[i];
    if (history_->rolled_back_since(uid, generation)) {
      return of_kind(VersionClass::kUnknown, "rollback");
    }
    const std::optional<std::size_t> slot = history_->slot_of(uid);
    if (slot && members[*slot]) {
      out.components[*slot] = *component;
    } else {
      out.departed.push_back(uid);
      out.reason = "removed";
    }
  }
  return out;
}

bool is_newer_version(std::string_view a, std::string_view b) noexcept {
  return a.size() != b.size() ? a.size() > b.size() : a > b;
}

}  // namespace kintsugi::proxy
