#include "base/data_folder.h"

#include <sys/statvfs.h>

#include <cstdio>
#include <memory>
#include <mutex>

#include "base/strings.h"

namespace kintsugi {
namespace {

std::mutex path_mutex;
std::string& path_of_process() {
  static std::string path;
  return path;
}

std::optional<std::int64_t> number_in(const std::string& path) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "re"),
                                                             &std::fclose);
  if (file == nullptr) {
    return std::nullopt;
  }
  char text[32];
  const std::size_t size = std::fread(text, 1, sizeof(text), file.get());
  std::string_view number(text, size);
  number = number.substr(0, number.find('\n'));
  return parse_decimal<std::int64_t>(number);
}

}  // namespace

void set_data_folder(const std::string& path) {
  const std::lock_guard lock(path_mutex);
  path_of_process() = path;
}

std::optional<DataFolderFacts> data_folder_facts() {
  std::string path;
  {
    const std::lock_guard lock(path_mutex);
    path = path_of_process();
  }
  struct statvfs space {};
  if (path.empty() || ::statvfs(path.c_str(), &space) != 0) {
    return std::nullopt;
  }
  DataFolderFacts facts;
  facts.room = std::uint64_t{space.f_bavail} * space.f_frsize;
  facts.disk = std::uint64_t{space.f_blocks} * space.f_frsize;
  facts.backed_up = number_in(path + kBackedUpFile);
  return facts;
}

}  // namespace kintsugi
