#include "store/lmdb/internal/map_guard.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <mutex>
#include <optional>
#include <string_view>

#include "base/strings.h"

namespace kintsugi::store {
namespace {

constexpr int kDamagedExit = 70;
constexpr std::size_t kMostMaps = 16;
constexpr std::size_t kMostPath = 512;
constexpr std::uintptr_t kPage = 4096;

struct Map {
  std::atomic<std::uintptr_t> begin{0}, end{0};  // 0: free
  std::array<char, kMostPath> file{};
};
std::array<Map, kMostMaps> maps;
std::mutex maps_mutex;
struct sigaction before {};

/// A line in parts, with what a signal handler may call.
class Line {
 public:
  void add(std::string_view text) noexcept {
    const std::size_t size = std::min(text.size(), text_.size() - size_);
    std::memcpy(text_.data() + size_, text.data(), size);
    size_ += size;
  }
  void add(std::uint64_t number) noexcept {
    std::array<char, 20> digits{};
    std::size_t at = digits.size();
    do {
      digits[--at] = static_cast<char>('0' + number % 10);
      number /= 10;
    } while (number > 0);
    add({digits.data() + at, digits.size() - at});
  }
  void print() const noexcept {
    if (::write(STDERR_FILENO, text_.data(), size_) < 0) {
      return;  // nobody reads it
    }
  }

 private:
  std::array<char, kMostPath + 256> text_{};
  std::size_t size_ = 0;
};

void on_bus_error(int, siginfo_t* info, void*) {
  const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
  for (const Map& map : maps) {
    const std::uintptr_t begin = map.begin.load(std::memory_order_acquire);
    if (begin == 0 || address < begin || address >= map.end.load(std::memory_order_acquire)) {
      continue;
    }
    Line line;
    line.add(
        R"({"level":"error","msg":"a page of the store cannot be read, the process ends; its next )"
        R"(start says what is left","file":")");
    line.add(map.file.data());
    line.add(R"(","page":)");
    line.add((address - begin) / kPage);
    line.add("}\n");
    line.print();
    ::_exit(kDamagedExit);
  }
  ::sigaction(SIGBUS, &before, nullptr);  // and once more, without this
}

void listen_once() {
  static const bool listens = [] {
    struct sigaction action {};
    action.sa_sigaction = &on_bus_error;
    action.sa_flags = SA_SIGINFO;
    sigemptyset(&action.sa_mask);
    return ::sigaction(SIGBUS, &action, &before) == 0;
  }();
  (void)listens;
}

struct Span {
  std::uintptr_t begin = 0, end = 0;
};

/// Where the begin of a file is mapped.
std::optional<Span> find_map(const std::string& file) {
  std::ifstream lines("/proc/self/maps");
  for (std::string line; std::getline(lines, line);) {
    // "begin-end perms offset device inode      path"
    const std::size_t path = line.find('/');
    const auto parts = split(std::string_view(line).substr(0, path), ' ');
    if (path == std::string::npos || line.compare(path, std::string::npos, file) != 0 ||
        parts.size() < 3 || parts[2].find_first_not_of('0') != std::string_view::npos) {
      continue;
    }
    char* dash = nullptr;
    const std::uintptr_t begin = std::strtoull(line.c_str(), &dash, 16);
    return Span{begin, std::strtoull(dash + 1, nullptr, 16)};
  }
  return std::nullopt;
}

}  // namespace

MapGuard::MapGuard(const std::string& file) {
  char* const whole = ::realpath(file.c_str(), nullptr);
  const std::string path = whole == nullptr ? "" : whole;
  std::free(whole);
  const auto span = path.empty() || path.size() >= kMostPath ? std::nullopt : find_map(path);
  if (!span) {
    return;
  }
  listen_once();
  const std::lock_guard lock(maps_mutex);
  for (std::size_t i = 0; i < maps.size() && slot_ < 0; ++i) {
    if (maps[i].begin == 0) {
      path.copy(maps[i].file.data(), path.size());
      maps[i].file[path.size()] = '\0';
      maps[i].end.store(span->end, std::memory_order_release);
      maps[i].begin.store(span->begin, std::memory_order_release);
      slot_ = static_cast<int>(i);
    }
  }
}

MapGuard::~MapGuard() {
  if (slot_ >= 0) {
    const std::lock_guard lock(maps_mutex);
    maps[static_cast<std::size_t>(slot_)].begin.store(0, std::memory_order_release);
  }
}

}  // namespace kintsugi::store
