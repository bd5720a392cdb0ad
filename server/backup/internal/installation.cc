#include "server/backup/internal/installation.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "server/files.h"
#include "store/lmdb/source.h"

namespace kintsugi::server {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDataFile = "/data.mdb";
constexpr const char* kMirror = "/mirror";
constexpr const char* kProxy = "proxy";
constexpr std::string_view kShard = "shard/";
/// What stands in the folder of an installation and is no data; other people's files stay theirs.
constexpr const char* kParts[] = {"pki", "proxy", "shards", "workers", "admin.kubeconfig"};
constexpr std::string_view kLeftOut[] = {"lock", "data", "mirror", kStoreNote};

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

/// Of all processes that serve a store in etcd.
std::vector<std::string> mirrors_of(const Layout& layout, const std::string& name) {
  std::vector<std::string> out = {mirror_folder_of(layout, name)};
  if (name == kProxy) {
    for (const std::string& other : names_in(layout.dir)) {
      if (other.starts_with("proxy-")) {
        out.push_back(layout.proxy_data(other) + kMirror);
      }
    }
  } else {
    const std::string replicas = note_folder_of(layout, name) + "/replicas";
    for (const std::string& replica : names_in(replicas)) {
      out.push_back(replicas + '/' + replica + kMirror);
    }
  }
  std::erase_if(out, [](const std::string& mirror) { return !file_exists(mirror); });
  return out;
}

/// nullopt: a folder without a store. A folder with data of its own stays with that, as where it is
/// served.
Expected<std::optional<StoreFolder>> look_at(const Layout& layout, const std::string& name) {
  const std::string data = data_folder_of(layout, name);
  const bool has_data = file_exists(data + kDataFile);
  if (has_data && !store::has_moved(data)) {
    if (file_exists(data + "/rescued")) {
      return fail(Errc::kConfig, data +
                                     ": was damaged when it was opened (`kintsugi store check`); "
                                     "once it is mended, remove the folder `rescued` in it");
    }
    return std::optional(StoreFolder{name, data, std::nullopt, {data}});
  }
  auto note = read_store_note(note_folder_of(layout, name));
  if (!note) {
    return fail(std::move(note.error()));
  }
  if (*note) {
    return std::optional(StoreFolder{name, "", std::move(*note), mirrors_of(layout, name)});
  }
  if (has_data || file_exists(mirror_folder_of(layout, name))) {
    return fail(Errc::kConfig, note_folder_of(layout, name) +
                                   ": its data is in etcd, and no process has noted where: start "
                                   "it once");
  }
  return std::optional<StoreFolder>();
}

}  // namespace

Expected<std::vector<StoreFolder>> stores_of(const Layout& layout) {
  std::vector<StoreFolder> out;
  std::vector<std::string> names = {kProxy};
  for (const std::string& shard : names_in(layout.dir + "/shards")) {
    names.push_back(std::string(kShard) + shard);
  }
  for (const std::string& name : names) {
    auto store = look_at(layout, name);
    if (!store) {
      return fail(std::move(store.error()));
    }
    if (*store) {
      out.push_back(std::move(**store));
    }
  }
  if (out.empty()) {
    return fail(Errc::kNotFound, layout.dir + ": no installation is there");
  }
  return out;
}

std::string data_folder_of(const Layout& layout, std::string_view name) {
  if (name == kProxy) {
    return layout.proxy_data();
  }
  const std::string_view shard =
      name.starts_with(kShard) ? name.substr(kShard.size()) : std::string_view();
  const bool is_name = !shard.empty() && shard.find('/') == std::string_view::npos && shard != "..";
  return is_name ? layout.shard_data(std::string(shard)) : std::string();
}

std::string note_folder_of(const Layout& layout, std::string_view name) {
  const std::string data = data_folder_of(layout, name);
  return name == kProxy ? data : fs::path(data).parent_path().string();
}

std::string mirror_folder_of(const Layout& layout, std::string_view name) {
  return note_folder_of(layout, name) + kMirror;
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
