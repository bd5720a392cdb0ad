#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace kintsugi {

/// In a data folder: when it was backed up last [s since 1970], as `kintsugi backup` leaves it.
inline constexpr const char* kBackedUpFile = "/backed-up";

/// What metrics tell of the folder where this process keeps its data.
struct DataFolderFacts {
  std::uint64_t room = 0;                 ///< [bytes] that it may still write there
  std::uint64_t disk = 0;                 ///< [bytes] of the file system
  std::optional<std::int64_t> backed_up;  ///< nullopt: never
};

/// Of the process, once; none is said of a process without. Threads: any.
void set_data_folder(const std::string& path);
/// Cost: a system call, and reading a small file.
[[nodiscard]] std::optional<DataFolderFacts> data_folder_facts();

}  // namespace kintsugi
