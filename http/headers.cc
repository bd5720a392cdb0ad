#include "http/headers.h"

#include <algorithm>
#include <cstring>

#include "base/strings.h"

namespace kintsugi::http {

namespace {

constexpr std::uint64_t kEach = 0x0101010101010101U;  // in every byte

/// A bit in each byte that is an upper case letter.
constexpr std::uint64_t upper_case(std::uint64_t bytes) noexcept {
  const std::uint64_t low = bytes & 0x7f * kEach;
  const std::uint64_t from_a = low + (0x80 - 'A') * kEach, past_z = low + (0x7f - 'Z') * kEach;
  return from_a & ~past_z & ~bytes & 0x80 * kEach;
}

void to_lower_case(char* text, std::size_t size) noexcept {
  for (; size >= sizeof(std::uint64_t); size -= sizeof(std::uint64_t)) {
    std::uint64_t bytes = 0;
    std::memcpy(&bytes, text, sizeof bytes);
    if (const std::uint64_t upper = upper_case(bytes); upper != 0) {
      bytes += upper >> 2U;  // 0x20
      std::memcpy(text, &bytes, sizeof bytes);
    }
    text += sizeof bytes;
  }
  for (; size > 0; --size, ++text) {
    *text = static_cast<char>(*text + (*text >= 'A' && *text <= 'Z' ? 'a' - 'A' : 0));
  }
}

/// Room for a few fields at once: a request gets some before it goes to a shard.
template <class Container>
void make_room(Container& full, std::size_t more, std::size_t usual) {
  full.reserve(std::max(full.size() + more + usual, full.capacity() * 2));
}

constexpr std::size_t kUsualBytes = 256, kUsualFields = 8;

}  // namespace

void HeaderList::add(std::string_view name, std::string_view value) {
  const std::size_t offset = arena_.size();
  if (arena_.capacity() - offset < name.size() + value.size()) {
    make_room(arena_, name.size() + value.size(), kUsualBytes);
  }
  if (fields_.size() == fields_.capacity()) {
    make_room(fields_, 1, kUsualFields);
  }
  arena_.append(name).append(value);
  to_lower_case(arena_.data() + offset, name.size());
  fields_.push_back({static_cast<std::uint32_t>(offset), static_cast<std::uint32_t>(name.size()),
                     static_cast<std::uint32_t>(value.size())});
}

void HeaderList::set(std::string_view name, std::string_view value) {
  remove_if([&](const HeaderView& field) {
    return field.name.size() == name.size() && equals_ignore_case(field.name, name);
  });
  add(name, value);
}

std::size_t HeaderList::remove(std::string_view lower_case_name) {
  return remove_if([&](const HeaderView& field) { return field.name == lower_case_name; });
}

std::string_view HeaderList::get(std::string_view lower_case_name) const noexcept {
  for (std::size_t i = 0; i < fields_.size(); ++i) {
    const HeaderView field = (*this)[i];
    if (field.name == lower_case_name) {
      return field.value;
    }
  }
  return {};
}

std::size_t HeaderList::list_size() const noexcept {
  std::size_t sum = 0;
  for (const Field& field : fields_) {
    sum += field.name_length + field.value_length + 32U;
  }
  return sum;
}

void HeaderList::clear() noexcept {
  arena_.clear();
  fields_.clear();
}

}  // namespace kintsugi::http
