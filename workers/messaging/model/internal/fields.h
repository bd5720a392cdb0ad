#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "krm/json.h"

namespace kintsugi::workers {

/// What is wrong with an object's fields, in the order in which they were read. The first 8 are
/// kept.
class FieldProblems {
 public:
  void add(std::string_view field, std::string_view what);
  [[nodiscard]] bool empty() const noexcept { return list_.empty(); }
  /// "spec.a: must be …; spec.b: …".
  [[nodiscard]] std::string text() const;

 private:
  std::vector<std::string> list_;
};

/// One JSON object being read: a wrong member is noted with its path and reads as its default.
/// Null counts as absent. Lifetime: a view of the JSON and of the problems. Threads: one.
class Fields {
 public:
  /// @param object  null for an absent one: all of its members are absent.
  Fields(const krm::Json* object, std::string path, FieldProblems& problems);

  [[nodiscard]] const krm::Json* member(std::string_view key) const noexcept;
  [[nodiscard]] bool present() const noexcept { return object_ != nullptr; }
  [[nodiscard]] bool has(std::string_view key) const noexcept { return member(key) != nullptr; }
  [[nodiscard]] Fields object(std::string_view key) const;
  /// The elements of a list, each of which must be an object; at most `most` of them.
  [[nodiscard]] std::vector<Fields> objects(std::string_view key, std::size_t most) const;
  [[nodiscard]] std::vector<std::string> texts(std::string_view key, std::size_t most) const;
  [[nodiscard]] std::string text(std::string_view key, std::string_view otherwise = {}) const;
  [[nodiscard]] std::string required_text(std::string_view key) const;
  [[nodiscard]] bool boolean(std::string_view key, bool otherwise) const;
  [[nodiscard]] std::optional<std::int64_t> integer(std::string_view key, std::int64_t least,
                                                    std::int64_t most) const;
  /// Bytes or a count, rounded up; neither negative nor 2^63-1 or more.
  [[nodiscard]] std::optional<std::int64_t> quantity(std::string_view key) const;
  /// A Go duration of at least 1 ms, in ms, rounded down.
  [[nodiscard]] std::optional<std::int64_t> duration_ms(std::string_view key) const;
  /// Place of the text among `values`; `otherwise` when absent or none of them.
  [[nodiscard]] std::size_t choice(std::string_view key,
                                   std::initializer_list<std::string_view> values,
                                   std::size_t otherwise) const;
  /// A copy of a member of the wanted type, null when absent.
  [[nodiscard]] krm::Json copy(std::string_view key, krm::Json::Type type) const;

  /// The same object, its problems noted elsewhere.
  [[nodiscard]] Fields with(FieldProblems& problems) const { return {object_, path_, problems}; }
  [[nodiscard]] std::string path_of(std::string_view key) const;
  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  void problem(std::string_view key, std::string_view what) const;

 private:
  [[nodiscard]] const krm::Json* typed(std::string_view key, krm::Json::Type type,
                                       std::string_view name) const;

  const krm::Json* object_;
  std::string path_;
  FieldProblems* problems_;
};

}  // namespace kintsugi::workers
