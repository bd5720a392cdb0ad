#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "apiserver/internal/media.h"
#include "apiserver/served_kind.h"
#include "krm/json.h"
#include "krm/json_path.h"

/// Tables as kubectl prints them (AM-085 to AM-091, AM-316).
namespace kintsugi::apiserver::internal {

enum class IncludeObject : std::uint8_t { kMetadata, kObject, kNone };

/// The query's includeObject. @error kBadRequest (AM-088)
[[nodiscard]] Expected<IncludeObject> parse_include_object(std::optional<std::string_view> text);

/// Columns and rows of one kind, with its paths compiled once. Immutable.
class TableFormat {
 public:
  TableFormat(ServedKindPtr kind, const Form& form, IncludeObject include);
  [[nodiscard]] const krm::Json& column_definitions() const noexcept { return definitions_; }
  /// {"cells": […], "object": …} of an object in the version of the kind.
  [[nodiscard]] krm::Json row(const krm::Json& object) const;

 private:
  [[nodiscard]] krm::Json cell(std::size_t column, const krm::Json& object) const;

  ServedKindPtr kind_;
  Form form_;
  IncludeObject include_;
  std::vector<Column> columns_;
  std::vector<std::optional<krm::JsonPath>> paths_;
  krm::Json definitions_;
};

/// The metadata of an object as PartialObjectMetadata.
[[nodiscard]] krm::Json partial_object(const Form& form, const krm::Json& object);

}  // namespace kintsugi::apiserver::internal
