#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "krm/json.h"

/// What `kintsugi get` can get, and how one of it looks as a line (OP-110). Pure but for fetch().
namespace kintsugi::cmd {

using GetRow = std::vector<std::string>;

struct GetKind {
  const char* name;
  const char* about;   ///< for help
  const char* target;  ///< of the admin listener
  const char* list;    ///< member of the document
  bool paged;          ///< a view of the console: asked for by pages of 500
  GetRow columns;
  std::size_t named;     ///< so many columns from the first are the name
  std::size_t usual;     ///< columns without -o wide
  bool sorted;           ///< by name; else as the proxy lists them
  const char* restless;  ///< a column that differs each time it is looked at; nullptr: none
  GetRow (*row)(const krm::Json& one);
  const char* cut = nullptr;  ///< member of the document: how many are left out of the list
};
[[nodiscard]] const std::vector<GetKind>& get_kinds();

/// "root/europe": what stands in the columns that are the name, as it is typed.
[[nodiscard]] std::string get_name(const GetKind& kind, const GetRow& row);
/// Whether `wanted` means it: the whole name, or one of its columns.
[[nodiscard]] bool is_named(const GetKind& kind, const GetRow& row, std::string_view wanted);

struct Got {
  std::vector<krm::Json> items;  ///< as the proxy lists them
  std::int64_t cut = 0;
};
/// @param socket  of admin_socket(). @error as ask_admin()
[[nodiscard]] Expected<Got> fetch(const GetKind& kind, const std::string& socket);

}  // namespace kintsugi::cmd
