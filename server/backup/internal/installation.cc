#include "server/backup/internal/installation.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "server/files.h"

namespace kintsugi::server {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDataFile = "/data.mdb";
constexpr std::string_view kShard = "shard/";
/// What stands in the folder of an installation and is no data; other people's files stay theirs.
constexpr const char* kParts[] = {"pki", "proxy", "shards", "workers", "admin.kubeconfig"};
constexpr std::string_view kLeftOut[] = {"lock", "data", "mirror"};

bool is_left_out(const std::string& name) {
  return std::find(std::begin(kLeftOut), std::end(kLeftOut), name) != std::end(kLeftOut);
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> out;
  std::error_code code;
  for (fs::directory_iterator at(folder, code), end; !code && at != end; at.increment(code)) {
    out.push_back(at->path().filename().string());
  }
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace

Expected<std::vector<StoreFolder>> stores_of(const Layout& layout) {
  std::vector<StoreFolder> out;
  if (file_exists(layout.proxy_data() + "/mirror")) {
    return fail(Errc::kConfig,
                layout.proxy() + ": its data is in etcd, which has backups of its own");
  }
  if (file_exists(layout.proxy_data() + kDataFile)) {
    out.push_back({"proxy", layout.proxy_data()});
  }
  for (const std::string& name : names_in(layout.dir + "/shards")) {
    if (file_exists(layout.shard(name) + "/mirror")) {
      return fail(Errc::kConfig,
                  layout.shard(name) + ": its data is in etcd, which has backups of its own");
    }
    if (file_exists(layout.shard_data(name) + kDataFile)) {
      out.push_back({std::string(kShard) + name, layout.shard_data(name)});
    }
  }
  if (out.empty()) {
    return fail(Errc::kConfig, layout.dir + ": no installation is there");
  }
  for (const StoreFolder& store : out) {
    if (file_exists(store.directory + "/rescued")) {
      return fail(Errc::kConfig, store.directory +
                                     ": was damaged when it was opened (`kintsugi store check`); "
                                     "once it is mended, remove the folder `rescued` in it");
    }
  }
  return out;
}

std::string data_folder_of(const Layout& layout, std::string_view name) {
  if (name == "proxy") {
    return layout.proxy_data();
  }
  const std::string_view shard =
      name.starts_with(kShard) ? name.substr(kShard.size()) : std::string_view();
  const bool is_name = !shard.empty() && shard.find('/') == std::string_view::npos && shard != "..";
  return is_name ? layout.shard_data(std::string(shard)) : std::string();
}

std::vector<std::string> files_of(const Layout& layout) {
  std::vector<std::string> out;
  for (const char* part : kParts) {
    const std::string path = layout.dir + '/' + part;
    std::error_code code;
    if (fs::is_regular_file(fs::symlink_status(path, code))) {
      out.emplace_back(part);
    }
    for (fs::recursive_directory_iterator at(path, code), end; !code && at != end;
         at.increment(code)) {
      if (is_left_out(at->path().filename().string())) {
        at.disable_recursion_pending();
      } else if (at->is_regular_file(code) && !at->is_symlink(code)) {
        out.push_back(at->path().lexically_relative(layout.dir).string());
      }
    }
  }
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace kintsugi::server
