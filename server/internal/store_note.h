#pragma once

#include <optional>
#include <string>

#include "base/error.h"
#include "krm/json.h"
#include "store/etcd/etcd_store.h"

namespace kintsugi::server {

/// Where the data of a process is that is not in its folder: in the folder it says so itself, for
/// those who make backups. Nothing secret is in it.
struct StoreNote {
  store::EtcdParams etcd;     ///< how to come to it, and the prefix; the rest is not in the note
  std::string password_file;  ///< of etcd.user
};

inline constexpr const char* kStoreNote = "store.json";

[[nodiscard]] krm::Json to_json(const StoreNote& note);
/// nullopt: it does not say where the data is.
[[nodiscard]] std::optional<StoreNote> parse_store_note(const krm::Json& object);

/// @param folder  of the process. @error kIo, kFull.
[[nodiscard]] Expected<void> write_store_note(const std::string& folder, const StoreNote& note);
/// nullopt: there is none. @error kConfig it cannot be understood; kIo.
[[nodiscard]] Expected<std::optional<StoreNote>> read_store_note(const std::string& folder);
/// With the password. @error kConfig, kIo the file of the password.
[[nodiscard]] Expected<store::EtcdParams> access_of(const StoreNote& note);

}  // namespace kintsugi::server
