#include "server/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/secret_file.h"

namespace kintsugi::server {

Expected<std::string> read_file(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    return fail(Errc::kConfig, path + ": " + std::strerror(errno));
  }
  std::string text;
  std::array<char, 16384> chunk{};
  while (true) {
    const ssize_t got = ::read(fd, chunk.data(), chunk.size());
    if (got < 0) {
      const int cause = errno;
      ::close(fd);
      return fail(Errc::kConfig, path + ": " + std::strerror(cause));
    }
    if (got == 0) {
      break;
    }
    text.append(chunk.data(), static_cast<std::size_t>(got));
  }
  ::close(fd);
  return text;
}

Expected<void> write_file(const std::string& path, std::string_view text, unsigned mode) {
  return replace_file(path, text, mode);
}

Expected<void> make_directories(const std::string& path) {
  std::error_code error;
  std::filesystem::path built;
  for (const auto& part : std::filesystem::path(path)) {
    built /= part;
    if (std::filesystem::exists(built, error)) {
      continue;
    }
    if (::mkdir(built.c_str(), 0700) != 0 && errno != EEXIST) {
      return fail(Errc::kIo, built.string() + ": " + std::strerror(errno));
    }
  }
  return {};
}

bool file_exists(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

std::string absolute_path(const std::string& path) {
  std::error_code error;
  const auto full = std::filesystem::absolute(path, error);
  return error ? path : full.lexically_normal().string();
}

}  // namespace kintsugi::server
