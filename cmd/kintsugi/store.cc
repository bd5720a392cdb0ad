#include <algorithm>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>

#include "base/strings.h"
#include "cmd/kintsugi/commands.h"
#include "cmd/kintsugi/flags.h"
#include "cmd/kintsugi/store_copy.h"
#include "cmd/kintsugi/store_flags.h"
#include "cmd/kintsugi/store_key.h"
#include "controlplane/quotas/workspace_books.h"
#include "server/encryption.h"
#include "store/lmdb/backup.h"
#include "store/lmdb/check.h"
#include "store/lmdb/lmdb_store.h"
#include "store/lmdb/repair.h"
#include "store/lmdb/rewrite.h"

namespace kintsugi::cmd {
namespace {

struct Options {
  std::string from, to, dir, remove, encryption, key, after;
  bool repair = false, online = false;
  StoreFlags etcd;
};

FlagGroup copy_flags(Options& options) {
  FlagGroup group{"Copy", etcd_flags(options.etcd, "shard", "")};
  group.flags.push_back({"online", "", "",
                         "copy: of a store that is served, which goes on in the new place",
                         into(options.online)});
  group.flags.push_back(
      {"force", "", "", "copy: also a store that has moved elsewhere", into(options.etcd.force)});
  return group;
}

FlagTable flag_table(Options& options) {
  return {
      {"Copies",
       {{"from", "DIR", "",
         "backup: the store; restore: the backup; copy: lmdb:DIR or etcd=URL,…; all others: "
         "etcd=URL,…",
         into(options.from)},
        {"to", "DIR", "",
         "where the copy is made; must not exist or be empty; copy: lmdb:DIR or etcd=URL,…",
         into(options.to)}}},
      copy_flags(options),
      {"Look",
       {{"key", "KEY", "",
         "get: of the object, as list shows it; list, events: what keys begin with",
         into(options.key)},
        {"after", "REVISION", "", "events: only later ones; all that etcd has when not given",
         into(options.after)}}},
      {"Check",
       {{"dir", "DIR", "", "check, rewrite: the store; no shard may be using it",
         into(options.dir)},
        {"delete", "KEY", "", "deletes this object, damaged or not, as check shows its key",
         into(options.remove)},
        {"repair", "", "",
         "makes the store whole where no object is lost by that; the old file stays as "
         "data.mdb.damaged",
         into(options.repair)}}},
      {"Rewrite",
       {{"encryption-provider-config", "FILE", "",
         "rewrite: the EncryptionConfiguration; all its keys read, the first one writes",
         into(options.encryption)}}},
  };
}

int run_backup(const Options& options) {
  const auto report = store::backup_store(options.from, options.to);
  if (!report) {
    return complain("store backup", report.error());
  }
  std::printf("%s: %llu objects at revision %llu\n", options.to.c_str(),
              static_cast<unsigned long long>(report->keys),
              static_cast<unsigned long long>(report->revision));
  if (report->problems > 0) {
    std::printf("%llu damaged records; `kintsugi store check` lists them\n",
                static_cast<unsigned long long>(report->problems));
  }
  return 0;
}

int run_restore(const Options& options) {
  const auto report = store::restore_store(options.from, options.to);
  if (!report) {
    return complain("store restore", report.error());
  }
  std::printf("%s: %llu objects, the next revision is %llu\n", options.to.c_str(),
              static_cast<unsigned long long>(report->keys),
              static_cast<unsigned long long>(report->revision + 1));
  for (const std::string& key : report->damaged) {
    std::printf("left out, damaged: %s\n", shown_key(key).c_str());
  }
  return 0;
}

constexpr int kNothingToCheck = 2;  // no store, or one that is in use

void print_lines(std::string_view before, const std::vector<std::string>& lines) {
  for (const std::string& line : lines) {
    std::printf("%s%s\n", std::string(before).c_str(), shown_key(line).c_str());
  }
}

/// Nothing is read by LMDB before the pages are known to hold.
Expected<store::CheckReport> look_at(const Options& options) {
  return store::check_store(options.dir, controlplane::workspace_books());
}

Expected<void> delete_key(const Options& options) {
  store::LmdbParams params;
  params.directory = options.dir;
  params.books = controlplane::workspace_books();
  auto opened = store::LmdbStore::open(std::move(params));
  if (!opened) {
    return fail(std::move(opened.error()));
  }
  std::string key = stored_key(options.remove);
  if (const auto found = (*opened)->get(key); !found && found.error().code() == Errc::kNotFound) {
    return fail(Errc::kNotFound, "--delete: there is no object " + options.remove);
  }
  return (*opened)
      ->commit_wait({{store::EventType::kDelete, std::move(key), {}, std::nullopt}})
      .map([](const auto&) {});
}

/// Says what was done.
Expected<void> repair(const Options& options) {
  const auto repaired = store::repair_store(options.dir, controlplane::workspace_books());
  if (!repaired) {
    return fail(repaired.error().clone());
  }
  if (repaired->rewritten) {
    std::printf(
        "repaired: made anew of %llu objects, none is lost; revisions go on at %llu, clients "
        "list once more\n",
        static_cast<unsigned long long>(repaired->objects),
        static_cast<unsigned long long>(repaired->revision));
  }
  if (repaired->counted > 0) {
    std::printf("%llu sums of quotas were wrong and have been counted anew\n",
                static_cast<unsigned long long>(repaired->counted));
  }
  return {};
}

int run_check(const Options& options) {
  auto report = look_at(options);
  if (report && options.repair) {
    print_lines("", report->pages.problems);
    print_lines("", report->rows.problems);
    if (const auto repaired = repair(options); !repaired) {
      return complain("store check --repair", repaired.error());
    }
    report = look_at(options);
  }
  if (report && !options.remove.empty()) {
    if (!report->pages.sound()) {
      print_lines("", report->pages.problems);
      return complain("store check", "--delete: the store's pages are damaged");
    }
    if (const auto deleted = delete_key(options); !deleted) {
      return complain("store check", deleted.error());
    }
    std::printf("deleted: %s\n", options.remove.c_str());
    report = look_at(options);
  }
  if (!report) {
    const Errc code = report.error().code();
    if (code == Errc::kNotFound) {
      return complain("store check", options.dir + ": no store is there", kNothingToCheck);
    }
    return complain("store check", report.error(), code == Errc::kConfig ? kNothingToCheck : 1);
  }
  print_lines("", report->pages.problems);
  print_lines("", report->rows.problems);
  print_lines("quota ", report->rows.miscounted);
  const std::uint64_t problems = report->problems() + report->rows.miscounted.size();
  std::printf("%s: %llu objects, %llu old versions, %llu events, revision %llu: %s\n",
              options.dir.c_str(), static_cast<unsigned long long>(report->rows.live),
              static_cast<unsigned long long>(report->rows.history),
              static_cast<unsigned long long>(report->rows.events),
              static_cast<unsigned long long>(report->rows.revision),
              problems == 0 ? "ok" : (std::to_string(problems) + " problems").c_str());
  return problems == 0 ? 0 : 1;
}

int run_rewrite(const Options& options) {
  const auto codec = server::read_encryption_config(options.encryption);
  if (!codec) {
    return complain("store rewrite", codec.error());
  }
  const auto report = store::rewrite_store(
      options.dir, [&](std::string_view key, std::string_view value) -> Expected<std::string> {
        auto opened = (*codec)->open(key, value);
        if (!opened) {
          return fail(std::move(opened.error()));
        }
        if (!opened->stale) {
          return std::string(value);
        }
        return (*codec)->seal(key,
                              opened->is_sealed ? std::move(opened->plain) : std::string(value));
      });
  if (!report) {
    return complain("store rewrite", report.error());
  }
  for (const std::string& kept : report->kept) {
    std::printf("stays as it is: %s\n", shown_key(kept).c_str());
  }
  std::printf("%s: %llu values, %llu of them rewritten, revision %llu\n", options.dir.c_str(),
              static_cast<unsigned long long>(report->values),
              static_cast<unsigned long long>(report->rewritten),
              static_cast<unsigned long long>(report->revision));
  return report->kept_count == 0 ? 0 : 1;
}

}  // namespace

CommandAbout store_about() {
  Options options;
  return {
      "kintsugi store "
      "backup|restore|copy|renew|finish-upgrade|get|list|events|defrag|check|rewrite [options]",
      "backup --from DIR --to DIR   copies the data of a shard that may be running, as of one "
      "revision.\n"
      "restore --from DIR --to DIR  makes the data folder of a shard from a backup; revisions "
      "go on\n"
      "                             1,000,000,000 later, so clients list anew.\n"
      "copy --from lmdb:DIR --to etcd=URL,… --prefix PREFIX\n"
      "                             moves a store that nobody serves into etcd, or back; "
      "revisions go on 1,000,000\n                             later; the source opens with "
      "--force only from then on. May be killed and repeated. With --online\n"
      "                             its shard serves it until writes stop for a moment, and "
      "goes on at the new place.\n"
      "renew --from etcd=URL,… --prefix PREFIX\n"
      "                             lets the revisions of a store in etcd go on 1,000,000,000 "
      "later: after a restore of\n                             etcd that no shard has noticed, "
      "because its mirror was lost, too.\n"
      "finish-upgrade --from etcd=URL,… --prefix PREFIX\n"
      "                             ends an upgrade: only this release and later ones open the "
      "store from then on.\n                             Refused while an older one is at "
      "work.\n"
      "get|list|events --from etcd=URL,… --prefix PREFIX\n"
      "                             prints an object as it is stored, revision, bytes and key "
      "of all objects, or what\n                             happened to them; whoever serves "
      "the store goes on.\n"
      "defrag --from etcd=URL,…     lets the members of an etcd write their files anew, one "
      "after the other, the leader\n                             last; a member does nothing "
      "else meanwhile. Refused while one does not answer.\n"
      "check --dir DIR              reads every page and record of a store that is not in use "
      "and says what is\n                             damaged; ends with 1 then, with 2 when "
      "no store is there or it is in use. --repair mends it\n                             "
      "where nothing is lost by that.\n"
      "rewrite --dir DIR --encryption-provider-config FILE\n"
      "                             writes the values of a store that is not in use with the "
      "first key of FILE,\n                             old versions too; may be killed and "
      "repeated.\nThe data of a shard of `kintsugi up` is in <dir>/shards/<name>/data.",
      {"backup", "restore", "copy", "renew", "finish-upgrade", "get", "list", "events", "defrag",
       "check", "rewrite"},
      without_setters(flag_table(options))};
}

int run_store(const std::vector<std::string>& arguments) {
  Options options;
  const auto words = take_arguments("store", flag_table(options), store_about, arguments);
  if (!words) {
    return words.error();
  }
  const std::string action = words->size() == 1 ? words->front() : "";
  const std::vector<std::string> known = store_about().words;
  if (std::find(known.begin(), known.end(), action) == known.end()) {
    return complain("store", "say one of " + join(known, ", "), 2);
  }
  if (action == "finish-upgrade") {
    return run_store_finish_upgrade(options.from, options.etcd);
  }
  if (action == "get" || action == "list" || action == "events") {
    return run_store_look(action, {options.from, options.key, options.after, options.etcd});
  }
  if (action == "defrag") {
    return run_store_defrag(options.from, options.etcd);
  }
  if (action == "renew") {
    return run_store_renew(options.from, options.etcd);
  }
  const bool copies = action == "backup" || action == "restore" || action == "copy";
  if (copies ? options.from.empty() || options.to.empty() : options.dir.empty()) {
    return complain("store " + action,
                    copies ? "--from and --to are required" : "--dir is required", 2);
  }
  if (action == "copy") {
    return run_store_copy({options.from, options.to, options.etcd, options.online});
  }
  if (action == "rewrite") {
    return options.encryption.empty()
               ? complain("store rewrite", "--encryption-provider-config is required", 2)
               : run_rewrite(options);
  }
  return action == "backup" ? run_backup(options)
                            : (action == "restore" ? run_restore(options) : run_check(options));
}

}  // namespace kintsugi::cmd
