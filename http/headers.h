#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kintsugi::http {

struct HeaderView {
  std::string_view name;  ///< lower case
  std::string_view value;
};

/// Header fields in order of arrival, duplicates kept. Names are stored in lower case.
/// Shape: one character arena and one index vector, so a request costs two allocations however many
/// fields it has. Views stay valid until the next add or clear. Threads: one at a time.
class HeaderList {
 public:
  void add(std::string_view name, std::string_view value);
  /// Removes every field of that name, then adds one.
  void set(std::string_view name, std::string_view value);
  /// Number of fields removed.
  std::size_t remove(std::string_view lower_case_name);
  /// Removes every field for which `predicate(HeaderView)` is true; returns how many.
  template <class Predicate>
  std::size_t remove_if(Predicate predicate) {
    std::size_t kept = 0;
    for (std::size_t i = 0; i < fields_.size(); ++i) {
      if (!predicate((*this)[i])) {
        fields_[kept++] = fields_[i];
      }
    }
    const std::size_t removed = fields_.size() - kept;
    fields_.resize(kept);
    return removed;
  }
  /// First value of that name, empty view with nullptr data when absent.
  [[nodiscard]] std::string_view get(std::string_view lower_case_name) const noexcept;
  [[nodiscard]] bool contains(std::string_view lower_case_name) const noexcept {
    return get(lower_case_name).data() != nullptr;
  }
  [[nodiscard]] std::size_t size() const noexcept { return fields_.size(); }
  [[nodiscard]] bool empty() const noexcept { return fields_.empty(); }
  [[nodiscard]] HeaderView operator[](std::size_t index) const noexcept {
    const Field& field = fields_[index];
    return {{arena_.data() + field.offset, field.name_length},
            {arena_.data() + field.offset + field.name_length, field.value_length}};
  }
  /// Sum of name, value and 32 per field, as HTTP/2 counts a header list [bytes].
  [[nodiscard]] std::size_t list_size() const noexcept;
  void clear() noexcept;

 private:
  struct Field {
    std::uint32_t offset;
    std::uint32_t name_length;
    std::uint32_t value_length;
  };
  std::string arena_;
  std::vector<Field> fields_;
};

}  // namespace kintsugi::http
