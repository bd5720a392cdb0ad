#include <string>
#include <utility>
#include <vector>

#include "cmd/kintsugi/commands.h"
#include "cmd/kintsugi/flags.h"
#include "cmd/kintsugi/progress.h"
#include "cmd/kintsugi/store_flags.h"
#include "server/backup/backup_program.h"
#include "server/files.h"

namespace kintsugi::cmd {
namespace {

constexpr const char* kRootPrefix = "/kintsugi";

/// As typed.
struct BackupWords {
  std::string dir = ".kintsugi", verify, list, merge, at;
  server::BackupOptions options;
};

FlagTable backup_flags(BackupWords& words) {
  return {
      {"Backup",
       {{"dir", "DIR", ".kintsugi", "folder of the installation, which may be running",
         into(words.dir)},
        {"to", "DIR", "", "folder of backups: each is a folder in it, named by its time",
         into(words.options.to)},
        {"incremental", "", "",
         "only what has changed since the newest backup in it; a full one where that is no use",
         into(words.options.incremental)},
        {"keep", "N", "", "removes all but the newest N and those that they add to",
         into(words.options.keep)},
        {"key-file", "FILE", "",
         "file with a key of at least 32 bytes that encrypts it; as secret as the backup",
         into(words.options.key_file)}}},
      {"Instead",
       {{"list", "DIR", "", "shows the backups of a folder", into(words.list)},
        {"verify", "DIR", "", "reads all of the newest backup of a folder, or of --at",
         into(words.verify)},
        {"merge", "DIR", "",
         "makes a full backup of the newest of a folder, or of --at, and those that it adds to",
         into(words.merge)},
        {"at", "NAME", "", "of a backup", into(words.at)}}},
  };
}

struct RestoreWords {
  std::string to, check;
  server::RestoreOptions options;
  StoreFlags store;
};

FlagGroup etcd_of_restore(StoreFlags& flags) {
  FlagGroup group{"Store",
                  {{"store", "lmdb|etcd=URL,…", flags.store,
                    "where objects are from then on: in the folder, or in the etcd with these "
                    "members, in prefixes that are empty",
                    into(flags.store)}}};
  for (Flag& flag : etcd_flags(flags, "installation", kRootPrefix)) {
    group.flags.push_back(std::move(flag));
  }
  return group;
}

FlagTable restore_flags(RestoreWords& words) {
  return {{"Restore",
           {{"from", "DIR", "", "folder of backups", into(words.options.from)},
            {"at", "NAME", "", "which one; the newest", into(words.options.at)},
            {"to", "DIR", "",
             "folder of the new installation, which must be empty; with --only of the one that is "
             "there",
             into(words.to)},
            {"only", "STORE", "",
             "one store, \"shard/NAME\" or \"proxy\", whose data folder is empty or not there",
             into(words.options.only)},
            {"key-file", "FILE", "", "the key that the backup was made with",
             into(words.options.key_file)}}},
          etcd_of_restore(words.store),
          {"Instead",
           {{"check", "DIR", "",
             "says what does not fit together in an installation, as after --only: Workspaces "
             "without logical cluster and the reverse, bindings without export; ends with 3 then",
             into(words.check)}}}};
}

}  // namespace

CommandAbout backup_about() {
  BackupWords words;
  return {"kintsugi backup --to DIR [options]",
          "Copies a whole installation, running or not: the data of its proxy and shards as of one "
          "moment, its PKI,\nkubeconfigs and configuration. Nobody waits for it. What is there is "
          "whole: a backup that did not end has no\nname. Ends with 1 when none was made, with 3 "
          "when one was made and something is to be said against it.",
          {},
          without_setters(backup_flags(words))};
}

int run_backup(const std::vector<std::string>& arguments) {
  BackupWords words;
  if (const auto status = take_options("backup", backup_flags(words), backup_about, arguments)) {
    return *status;
  }
  const int asked = (words.options.to.empty() ? 0 : 1) + (words.list.empty() ? 0 : 1) +
                    (words.verify.empty() ? 0 : 1) + (words.merge.empty() ? 0 : 1);
  if (asked != 1) {
    return wrong_usage("backup", "say one of --to, --list, --verify, --merge");
  }
  Progress progress("backup");
  const auto tell = [&progress](const std::string& state) { progress.show(state); };
  if (!words.list.empty()) {
    return server::run_backup_list_program(words.list, words.options.key_file);
  }
  if (!words.verify.empty()) {
    return server::run_backup_verify_program(words.verify, words.at, words.options.key_file, tell);
  }
  if (!words.merge.empty()) {
    return server::run_backup_merge_program(
        {server::absolute_path(words.merge), words.at, words.options.key_file, words.options.keep},
        tell);
  }
  words.options.layout = {server::absolute_path(words.dir)};
  return server::run_backup_program(words.options, tell);
}

CommandAbout restore_about() {
  RestoreWords words;
  return {"kintsugi restore --from DIR --to DIR [options]",
          "Makes an installation of a backup: all of the backup is read first, then the new folder "
          "is made beside its\nname, which it gets when it is whole. Objects and UIDs are those of "
          "the backup; revisions go on so much later\nthat no client takes old for new: each lists "
          "once more. Then `kintsugi up --dir DIR`.",
          {},
          without_setters(restore_flags(words))};
}

int run_restore(const std::vector<std::string>& arguments) {
  RestoreWords words;
  if (const auto status = take_options("restore", restore_flags(words), restore_about, arguments)) {
    return *status;
  }
  if (!words.check.empty()) {
    return server::run_restore_check_program({server::absolute_path(words.check)});
  }
  if (words.options.from.empty() || words.to.empty()) {
    return wrong_usage("restore", "--from and --to are required");
  }
  auto etcd = understood_store(words.store);
  if (!etcd) {
    return wrong_usage("restore", std::string(etcd.error().message()));
  }
  words.options.etcd = std::move(*etcd);
  if (words.options.etcd.prefix.empty()) {
    words.options.etcd.prefix = kRootPrefix;
  }
  words.options.etcd_password_file = words.store.password_file;
  words.options.layout = {server::absolute_path(words.to)};
  Progress progress("restore");
  return server::run_restore_program(
      words.options, [&progress](const std::string& state) { progress.show(state); });
}

}  // namespace kintsugi::cmd
