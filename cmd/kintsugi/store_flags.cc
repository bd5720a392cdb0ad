#include "cmd/kintsugi/store_flags.h"

#include <string_view>
#include <utility>

#include "base/strings.h"
#include "net/upstream.h"
#include "server/files.h"

namespace kintsugi::cmd {
namespace {

constexpr std::string_view kEtcd = "etcd=";

std::string absolute(const std::string& file) {
  return file.empty() ? file : server::absolute_path(file);
}

/// The first flag of etcd that was given; nullptr: none.
const char* flag_of_etcd(const StoreFlags& flags) {
  if (!flags.prefix.empty()) {
    return "--prefix";
  }
  if (!flags.ca_file.empty() || !flags.cert_file.empty() || !flags.key_file.empty()) {
    return "--etcd-ca-file, --etcd-cert-file, --etcd-key-file";
  }
  if (!flags.user.empty() || !flags.password_file.empty()) {
    return "--etcd-user, --etcd-password-file";
  }
  return flags.insecure ? "--etcd-insecure" : nullptr;
}

}  // namespace

std::vector<Flag> etcd_flags(StoreFlags& flags, const std::string& whose,
                             const std::string& prefix) {
  return {
      {"prefix", "PREFIX", prefix, "of the " + whose + "'s keys in etcd", into(flags.prefix)},
      {"etcd-ca-file", "FILE", "", "CA of etcd's members", into(flags.ca_file)},
      {"etcd-cert-file", "FILE", "", "client certificate for etcd", into(flags.cert_file)},
      {"etcd-key-file", "FILE", "", "its key", into(flags.key_file)},
      {"etcd-user", "NAME", "", "user of etcd, where its authentication is on", into(flags.user)},
      {"etcd-password-file", "FILE", "", "file with the user's password",
       into(flags.password_file)},
      {"etcd-insecure", "", "", "http to members on other machines is taken",
       into(flags.insecure)}};
}

FlagGroup store_flags(StoreFlags& flags, const std::string& whose, const std::string& prefix) {
  FlagGroup group{
      "Store",
      {{"store", "lmdb|etcd=URL,…", flags.store,
        "where objects are: in the folder of the " + whose + ", or in the etcd with these members",
        into(flags.store)}}};
  for (Flag& flag : etcd_flags(flags, whose, prefix)) {
    group.flags.push_back(std::move(flag));
  }
  group.flags.push_back(
      {"etcd-compaction", "own|none", "none",
       "own: the " + whose + " compacts etcd's history, keeping 5 minutes and 10,000 revisions",
       into(flags.compaction)});
  return group;
}

Expected<store::EtcdParams> understood_store(const StoreFlags& flags) {
  store::EtcdParams params;
  if (flags.compaction != "own" && flags.compaction != "none") {
    return fail(Errc::kConfig,
                "--etcd-compaction: must be own or none, not \"" + flags.compaction + "\"");
  }
  if (flags.store == "lmdb" || flags.store.empty()) {
    if (const char* const flag = flag_of_etcd(flags)) {
      return fail(Errc::kConfig, std::string(flag) + ": for --store etcd=… only");
    }
    return params;
  }
  if (!flags.store.starts_with(kEtcd) || flags.store.size() == kEtcd.size()) {
    return fail(Errc::kConfig, "--store: must be lmdb or etcd=URL,…, not \"" + flags.store + "\"");
  }
  for (const std::string_view url :
       split(std::string_view(flags.store).substr(kEtcd.size()), ',')) {
    if (!net::Url::parse(url)) {
      return fail(Errc::kConfig, "--store: \"" + std::string(url) + "\" is no URL");
    }
    params.endpoints.emplace_back(url);
  }
  if (!flags.prefix.empty() && (!flags.prefix.starts_with('/') ||
                                flags.prefix.find_first_not_of('/') == std::string::npos)) {
    return fail(Errc::kConfig, "--prefix: must begin with / and name something");
  }
  if (flags.cert_file.empty() != flags.key_file.empty()) {
    return fail(Errc::kConfig, "--etcd-cert-file and --etcd-key-file belong together");
  }
  if (flags.user.empty() != flags.password_file.empty()) {
    return fail(Errc::kConfig, "--etcd-user and --etcd-password-file belong together");
  }
  params.prefix = flags.prefix;
  params.ca_file = absolute(flags.ca_file);
  params.cert_file = absolute(flags.cert_file);
  params.key_file = absolute(flags.key_file);
  params.user = flags.user;
  params.insecure = flags.insecure;
  params.compacts = flags.compaction == "own";
  params.opens_moved = flags.force;
  return params;
}

}  // namespace kintsugi::cmd
