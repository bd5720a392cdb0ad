#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "krm/config_table.h"

/// What a table of keys says to others: editors, charts, those who fill in environments.
namespace kintsugi::krm {

/// The documents that a table reads, and the variables that set its keys.
struct ConfigDescription {
  Json schema;                         ///< JSON Schema 2020-12 (OP-108)
  std::vector<std::string> variables;  ///< in alphabetical order (OP-107)
};

/// @param table  of targets that have the defaults, and that nobody needs: sections with free names
/// and lists of sections get an element each, so that its keys can be told. Named sections that
/// there are already are all that there may be.
[[nodiscard]] ConfigDescription describe_config(std::string_view kind, const ConfigTable& table);

}  // namespace kintsugi::krm
