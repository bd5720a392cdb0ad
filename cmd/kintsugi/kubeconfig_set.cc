#include "cmd/kintsugi/kubeconfig_set.h"

#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <utility>

#include "base/strings.h"
#include "krm/named_entry.h"
#include "krm/yaml.h"
#include "server/files.h"

namespace kintsugi::cmd {
namespace {

using krm::Json;

constexpr unsigned kNewMode = 0600;
constexpr std::size_t kMostBytes = 16U << 20U;

/// The key under which an entry of a list keeps its content.
std::string_view content_key(std::string_view list) { return list.substr(0, list.size() - 1); }

/// Fields that name files, per list.
struct FileField {
  std::string_view list, field;
};
constexpr FileField kFileFields[] = {{"clusters", "certificate-authority"},
                                     {"users", "client-certificate"},
                                     {"users", "client-key"},
                                     {"users", "tokenFile"}};

void make_absolute(std::string_view list, Json& content, const std::string& file) {
  const std::filesystem::path folder =
      std::filesystem::path(server::absolute_path(file)).parent_path();
  for (const FileField& one : kFileFields) {
    const std::string_view name = content.text({one.field});
    if (one.list == list && !name.empty() && std::filesystem::path(name).is_relative()) {
      content[one.field] = (folder / name).lexically_normal().string();
    }
  }
}

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

unsigned mode_of(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 ? status.st_mode & 0777U : kNewMode;
}

}  // namespace

std::vector<std::string> KubeconfigSet::default_files(const std::string& flag) {
  if (!flag.empty()) {
    return {flag};
  }
  std::vector<std::string> files;
  const std::string listed = environment("KUBECONFIG");
  for (const std::string_view file : split(listed, ':')) {
    if (!file.empty()) {
      files.emplace_back(file);
    }
  }
  if (files.empty()) {
    files.push_back(environment("HOME") + "/.kube/config");
  }
  return files;
}

Expected<KubeconfigSet> KubeconfigSet::load(const std::vector<std::string>& files) {
  KubeconfigSet set;
  for (const std::string& path : files) {
    if (!server::file_exists(path) && files.size() > 1) {
      continue;
    }
    Expected<std::string> text = server::read_file(path);
    if (!text) {
      return fail(std::move(text.error()));
    }
    if (text->size() > kMostBytes) {
      return fail(Errc::kConfig, path + ": too large for a kubeconfig");
    }
    Expected<Json> document = krm::parse_yaml(*text);
    if (!document) {
      return fail(Errc::kConfig, path + ": " + std::string(document.error().message()));
    }
    if (!document->is_object() && !document->is_null()) {
      return fail(Errc::kConfig, path + ": not a kubeconfig");
    }
    if (set.current_.empty() && !document->text({"current-context"}).empty()) {
      set.current_ = document->text({"current-context"});
      set.home_ = set.files_.size();
    }
    set.files_.push_back({path, std::move(*document), false});
  }
  if (set.files_.empty()) {
    return fail(Errc::kConfig, join(files, ":") + ": none of these files exists");
  }
  if (set.current_.empty()) {
    return fail(Errc::kConfig, join(files, ":") + ": no current context; `kubectl config " +
                                   "use-context NAME` chooses one");
  }
  return set;
}

const Json* KubeconfigSet::find(std::string_view list, std::string_view name) const {
  for (const File& file : files_) {
    if (const Json* entry = krm::find_named(file.document, list, name)) {
      return entry;
    }
  }
  return nullptr;
}

std::optional<Json> KubeconfigSet::content(std::string_view list, std::string_view name) const {
  for (const File& file : files_) {
    if (const Json* entry = krm::find_named(file.document, list, name)) {
      const Json* value = entry->find(content_key(list));
      Json copy = value == nullptr ? Json::object() : *value;
      make_absolute(list, copy, file.path);
      return copy;
    }
  }
  return std::nullopt;
}

Expected<server::KubeAccess> KubeconfigSet::access() const {
  Json document = Json::object({{"current-context", Json(current_)}});
  const auto take = [&](std::string_view list, std::string_view name) {
    if (std::optional<Json> value = content(list, name)) {
      Json entry = Json::object({{"name", Json(name)}});
      entry[content_key(list)] = std::move(*value);
      document[list].push_back(std::move(entry));
    }
  };
  take("contexts", current_);
  const Json* context = find("contexts", current_);
  if (context != nullptr) {
    const std::string_view user = context->text({"context", "user"});
    take("clusters", context->text({"context", "cluster"}));
    take("users", user);
  }
  return server::kube_access(document, "", files_[home_].path);
}

void KubeconfigSet::put(std::string_view list, std::string_view name, Json value) {
  File* target = &files_[home_];
  for (File& file : files_) {
    if (krm::find_named(file.document, list, name) != nullptr) {
      target = &file;
      break;
    }
  }
  Json entry = Json::object({{"name", Json(name)}});
  entry[content_key(list)] = std::move(value);
  Json entries = Json::array();
  bool placed = false;
  if (const Json* old = target->document.find(list)) {
    for (const Json& one : old->items()) {
      const bool same = one.text({"name"}) == name;
      if (!same || !placed) {
        entries.push_back(same ? entry : one);
      }
      placed = placed || same;
    }
  }
  if (!placed) {
    entries.push_back(std::move(entry));
  }
  target->document[list] = std::move(entries);
  target->changed = true;
}

void KubeconfigSet::set_current(std::string_view context) {
  current_ = context;
  files_[home_].document["current-context"] = context;
  files_[home_].changed = true;
}

Expected<void> KubeconfigSet::enter(std::string_view server) {
  std::optional<Json> context = content("contexts", current_);
  const std::string cluster(context ? context->text({"cluster"}) : std::string_view());
  std::optional<Json> old_cluster = content("clusters", cluster);
  if (!context || !old_cluster) {
    return fail(Errc::kConfig, "the context \"" + current_ + "\" or its cluster is not there");
  }
  Json now = *context;
  now["cluster"] = kCurrentWorkspace;
  Json new_cluster = *old_cluster;
  new_cluster["server"] = server;
  if (cluster == kCurrentWorkspace) {
    (*context)["cluster"] = kPreviousWorkspace;
    put("clusters", kPreviousWorkspace, std::move(*old_cluster));
  }
  put("contexts", kPreviousWorkspace, std::move(*context));
  put("clusters", kCurrentWorkspace, std::move(new_cluster));
  put("contexts", kCurrentWorkspace, std::move(now));
  set_current(kCurrentWorkspace);
  return {};
}

Expected<void> KubeconfigSet::go_back() {
  std::optional<Json> now = content("contexts", current_);
  std::optional<Json> before = content("contexts", kPreviousWorkspace);
  if (!now || !before) {
    return fail(Errc::kConfig, "there is no previous workspace yet");
  }
  std::optional<Json> now_cluster = content("clusters", now->text({"cluster"}));
  std::optional<Json> before_cluster = content("clusters", before->text({"cluster"}));
  if (!now_cluster || !before_cluster) {
    return fail(Errc::kConfig, "the cluster of the previous workspace is not there any more");
  }
  if (now->text({"cluster"}) == kCurrentWorkspace) {
    (*now)["cluster"] = kPreviousWorkspace;
    put("clusters", kPreviousWorkspace, std::move(*now_cluster));
  }
  if (before->text({"cluster"}) == kPreviousWorkspace) {
    (*before)["cluster"] = kCurrentWorkspace;
    put("clusters", kCurrentWorkspace, std::move(*before_cluster));
  }
  put("contexts", kPreviousWorkspace, std::move(*now));
  put("contexts", kCurrentWorkspace, std::move(*before));
  set_current(kCurrentWorkspace);
  return {};
}

Expected<void> KubeconfigSet::save() const {
  for (const File& file : files_) {
    if (!file.changed) {
      continue;
    }
    std::error_code error;
    const std::filesystem::path real = std::filesystem::canonical(file.path, error);
    const std::string path = error ? file.path : real.string();
    if (auto written = server::write_file(path, krm::to_yaml(file.document), mode_of(path));
        !written) {
      return written;
    }
  }
  return {};
}

}  // namespace kintsugi::cmd
