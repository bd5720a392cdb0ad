#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "server/internal/store_note.h"
#include "server/layout.h"

namespace kintsugi::server {

/// The stores of an installation and what else there is of it (GR-404).
struct StoreFolder {
  std::string name;                              ///< "proxy", "shard/root"
  std::string directory;                         ///< of its data, where that is in a folder
  std::optional<StoreNote> note = std::nullopt;  ///< of where it is, when it is in etcd
  /// Data folders of the processes that serve it, which tell of its backups.
  std::vector<std::string> served_in = {};
};

/// All of the installation. @error kNotFound there is none; kConfig one has moved, is in etcd and
/// does not say where, or is damaged.
[[nodiscard]] Expected<std::vector<StoreFolder>> stores_of(const Layout& layout);

/// Where a store of that name is; "": there is no such name.
[[nodiscard]] std::string data_folder_of(const Layout& layout, std::string_view name);
/// Of a store in etcd: where its process has the note, and where the mirror.
[[nodiscard]] std::string note_folder_of(const Layout& layout, std::string_view name);
[[nodiscard]] std::string mirror_folder_of(const Layout& layout, std::string_view name);

/// Files that are no data: PKI, kubeconfigs, configuration, ports; as paths in the folder. Neither
/// logs nor what only a running process needs.
[[nodiscard]] std::vector<std::string> files_of(const Layout& layout);

}  // namespace kintsugi::server
