#include "workers/delivery/hub/hub_files.h"

#include <dirent.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>

#include "krm/yaml.h"
#include "krm/yaml_documents.h"

namespace kintsugi::workers {
namespace {

constexpr std::size_t kMostFile = std::size_t{16} << 20;

bool is_manifest_file(std::string_view name) {
  return !name.starts_with('.') &&
         (name.ends_with(".json") || name.ends_with(".yaml") || name.ends_with(".yml"));
}

/// nullopt: it cannot be read.
std::optional<std::string> text_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::string out((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  return in.good() || in.eof() ? std::optional(std::move(out)) : std::nullopt;
}

}  // namespace

Expected<std::vector<krm::Json>> parse_manifests(std::string_view text) {
  std::vector<krm::Json> out;
  for (const std::string_view one : krm::yaml_documents(text)) {
    auto object = krm::Json::parse(one);
    if (!object) {
      object = krm::parse_yaml(one);
    }
    if (!object) {
      return fail(Errc::kConfig, std::string(object.error().message()));
    }
    if (object->is_null()) {
      continue;
    }
    if (object->text({"apiVersion"}).empty() || object->text({"kind"}).empty() ||
        object->text({"metadata", "name"}).empty()) {
      return fail(Errc::kConfig, "an object has no apiVersion, no kind or no metadata.name");
    }
    out.push_back(std::move(*object));
  }
  return out;
}

Expected<HubFolder::Seen> HubFolder::look() {
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir(path_.c_str()), &::closedir);
  if (folder == nullptr) {
    return fail(Errc::kIo, path_ + ": " + std::strerror(errno));  // NOLINT: one thread's
  }
  Seen out;
  std::map<std::string, File> now;
  while (const dirent* const entry = ::readdir(folder.get())) {  // NOLINT: one thread's
    const std::string name = entry->d_name;
    const std::string path = path_ + "/" + name;
    struct stat facts {};
    if (!is_manifest_file(name) || ::stat(path.c_str(), &facts) != 0 || !S_ISREG(facts.st_mode)) {
      continue;
    }
    File file;
    file.time = facts.st_mtim.tv_sec * std::int64_t{1'000'000'000} + facts.st_mtim.tv_nsec;
    file.size = static_cast<std::uint64_t>(facts.st_size);
    file.inode = facts.st_ino;
    if (const auto had = files_.find(name); had != files_.end() && had->second.time == file.time &&
                                            had->second.size == file.size &&
                                            had->second.inode == file.inode) {
      now[name] = std::move(had->second);
      continue;
    }
    out.changed = true;
    const auto text = file.size > kMostFile ? std::nullopt : text_of(path);
    auto objects = text ? parse_manifests(*text)
                        : Expected<std::vector<krm::Json>>(
                              fail(Errc::kIo, "it cannot be read, or has more than 16 MiB"));
    file.readable = objects.has_value();
    if (objects) {
      file.objects = std::move(*objects);
    } else {
      out.faults.push_back(path + ": " + std::string(objects.error().message()));
    }
    now[name] = std::move(file);
  }
  out.changed = out.changed || now.size() != files_.size();
  out.changed = out.changed || !std::exchange(looked_, true);
  files_ = std::move(now);
  if (!out.changed) {
    return out;
  }
  for (const auto& [name, file] : files_) {
    if (!file.readable) {
      out.unreadable.insert(name);
    }
    for (const krm::Json& object : file.objects) {
      out.wishes.push_back({name, object});
    }
  }
  return out;
}

}  // namespace kintsugi::workers
