#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kintsugi::cmd {

/// What a build knows of itself (OP-109). All texts live as long as the program.
struct BuildData {
  std::string_view version;         ///< "0.2.0", "0.2.0~dev.15+g539b29e", with "+dirty"
  std::string_view git_commit;      ///< 40 hex digits, or "unknown"
  std::string_view git_tree_state;  ///< "clean", "dirty" or "unknown"
  std::string_view build_date;      ///< "2026-01-02T03:04:05Z", of the commit or SOURCE_DATE_EPOCH
  std::string_view compiler;        ///< "GNU 12.2.0"
  std::string_view platform;        ///< "linux/amd64"
  struct Library {
    std::string_view name, version;
  };
  std::vector<Library> libraries;  ///< as they were when this was compiled, by name
};

/// Of the source that cmake/build_data.cmake writes at each build; in the program alone, so that a
/// commit links one file anew.
[[nodiscard]] BuildData generated_build_data();

/// @{ What the commands tell. Before it is set: the version of the release, else "unknown".
void set_build_data(BuildData data);
[[nodiscard]] const BuildData& build_data();
/// As `kintsugi version -o json` prints them.
[[nodiscard]] std::string version_json();
/// @}

}  // namespace kintsugi::cmd
