#include "http/headers.h"

#include "base/strings.h"

namespace kintsugi::http {

void HeaderList::add(std::string_view name, std::string_view value) {
  const auto offset = static_cast<std::uint32_t>(arena_.size());
  arena_.append(name);
  for (std::size_t i = offset; i < arena_.size(); ++i) {
    if (arena_[i] >= 'A' && arena_[i] <= 'Z') {
      arena_[i] = static_cast<char>(arena_[i] + ('a' - 'A'));
    }
  }
  arena_.append(value);
  fields_.push_back(
      {offset, static_cast<std::uint32_t>(name.size()), static_cast<std::uint32_t>(value.size())});
}

void HeaderList::set(std::string_view name, std::string_view value) {
  remove_if([&](const HeaderView& field) { return equals_ignore_case(field.name, name); });
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
