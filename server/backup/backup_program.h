#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "server/layout.h"
#include "store/etcd/etcd_store.h"

/// Backups of a whole installation and back (GR-401 to GR-412). Blocking, for commands.
namespace kintsugi::server {

/// Told what is being done, for people who wait.
using TellProgress = std::function<void(const std::string& state)>;

/// What ends a command besides 0 and 1.
inline constexpr int kBackupWithReservations = 3;

struct BackupOptions {
  Layout layout;             ///< of the installation, which may be running
  std::string to;            ///< folder of backups
  bool incremental = false;  ///< only what has changed since the newest one in it
  std::string key_file;      ///< "": nothing is encrypted
  std::uint32_t keep = 0;    ///< how many to keep, with those that they add to; 0: all
};

/// Makes one and prints what it is. @returns 0; 1 none was made; 3 one was, but the stores are not
/// of one moment, or something could not be had.
int run_backup_program(const BackupOptions& options, const TellProgress& tell);

/// Prints the backups of a folder.
int run_backup_list_program(const std::string& folder, const std::string& key_file);

/// Reads all of a backup, and of those that it adds to. @param at  its name; "": the newest
int run_backup_verify_program(const std::string& folder, const std::string& at,
                              const std::string& key_file, const TellProgress& tell);

struct MergeOptions {
  std::string folder;      ///< of backups
  std::string at;          ///< the newest of a row; "": the newest of all
  std::string key_file;    ///< that they were made with
  std::uint32_t keep = 0;  ///< as of BackupOptions
};
/// Makes a full backup of one and those that it adds to, and prints what it is: of the same moment,
/// the newest of the folder. @returns 0; 1 nothing has changed.
int run_backup_merge_program(const MergeOptions& options, const TellProgress& tell);

struct RestoreOptions {
  std::string from;  ///< folder of backups
  std::string at;    ///< which one; "": the newest
  Layout layout;     ///< of the new installation
  std::string only;  ///< one store of it, "shard/<name>" or "proxy", into one that is there
  std::string key_file;
  /// The etcd that the stores are made in, under prefixes below `prefix`; no endpoints: in folders.
  store::EtcdParams etcd{};
  std::string etcd_password_file{};  ///< of etcd.user
};

/// Reads all of the backup, makes the new installation and prints what clients see of it. Until it
/// is whole nothing has its name, and what is in etcd is no store. @returns 0; 1 nothing has
/// changed, but for what is left in etcd, which the next one replaces.
int run_restore_program(const RestoreOptions& options, const TellProgress& tell);

/// Reads all stores of an installation, running or not, and prints what does not fit together, as
/// after the restore of one of them: Workspaces without logical cluster and the reverse, bindings
/// without export. Changes nothing. @returns 0; 1 it could not be read; 3 something is to be looked
/// at.
int run_restore_check_program(const Layout& layout);

}  // namespace kintsugi::server
