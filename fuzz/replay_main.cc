// Runs one fuzz target over every file of a corpus folder, and over each file cut short and with
// single bytes changed; with a number of seconds also over changes of the files by chance, until
// they are over. What ends the program is printed.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
extern "C" [[gnu::weak]] std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                                             std::size_t most, unsigned seed);

namespace {

constexpr std::size_t kMostBytes = 1U << 14;  // of an input made by chance

std::string current;  // what runs now
double slowest = 0;   // [s of CPU]
std::string slowest_input;

double cpu_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

void show_input(int signal) {
  constexpr char kSays[] = "\nthis input ended it:\n";
  (void)!::write(STDERR_FILENO, kSays, sizeof(kSays) - 1);
  (void)!::write(STDERR_FILENO, current.data(), current.size());
  (void)!::write(STDERR_FILENO, "\n", 1);
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

void run(const std::string& bytes) {
  current = bytes;
  const double before = cpu_seconds();
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
  if (const double taken = cpu_seconds() - before; taken > slowest) {
    slowest = taken;
    slowest_input = bytes;
  }
}

/// A few bytes changed, added, removed, copied.
void change_bytes(std::string& bytes, std::mt19937& random) {
  for (std::size_t changes = 1 + random() % 4; changes > 0; --changes) {
    const std::size_t at = bytes.empty() ? 0 : random() % bytes.size();
    const std::size_t length = std::min<std::size_t>(1 + random() % 16, bytes.size() - at);
    switch (random() % 5) {
      case 0:
        bytes.insert(at, 1, static_cast<char>(random()));
        break;
      case 1:
        bytes.erase(at, length);
        break;
      case 2:
        bytes.insert(random() % (bytes.size() + 1), std::string(bytes, at, length));
        break;
      default:
        if (!bytes.empty()) {
          bytes[at] = static_cast<char>(random());
        }
    }
  }
  bytes.resize(std::min(bytes.size(), kMostBytes));
}

void change(std::string& bytes, std::mt19937& random) {
  if (LLVMFuzzerCustomMutator == nullptr) {
    change_bytes(bytes, random);
    return;
  }
  std::vector<std::uint8_t> room(kMostBytes);
  const std::size_t size = std::min(bytes.size(), room.size());
  std::copy_n(bytes.begin(), size, room.begin());
  const std::size_t changed =
      LLVMFuzzerCustomMutator(room.data(), size, room.size(), static_cast<unsigned>(random()));
  bytes.assign(reinterpret_cast<const char*>(room.data()), changed);
}

std::size_t run_by_chance(const std::vector<std::string>& corpus, int seconds, unsigned seed) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::seconds(seconds);
  std::mt19937 random(seed);
  std::size_t runs = 0;
  for (; Clock::now() < end; ++runs) {
    std::string bytes = corpus[random() % corpus.size()];
    for (std::size_t rounds = 1 + random() % 8; rounds > 0; --rounds) {
      change(bytes, random);
    }
    run(bytes);
  }
  return runs;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2 || argc > 4 || !std::filesystem::is_directory(argv[1])) {
    std::fprintf(stderr, "usage: %s <corpus folder> [seconds [seed]]\n", argv[0]);
    return 2;
  }
  std::signal(SIGABRT, show_input);
  std::signal(SIGSEGV, show_input);
  std::vector<std::string> corpus;
  std::size_t runs = 0;
  for (const auto& entry : std::filesystem::directory_iterator(argv[1])) {
    std::ifstream file(entry.path(), std::ios::binary);
    corpus.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  std::sort(corpus.begin(), corpus.end());
  for (const std::string& bytes : corpus) {
    run(bytes);
    const std::size_t step = bytes.size() / 64 + 1;
    for (std::size_t at = 0; at < bytes.size(); at += step) {
      run(bytes.substr(0, at));
      std::string changed = bytes;
      changed[at] = static_cast<char>(changed[at] ^ 0x55);
      run(changed);
      runs += 2;
    }
  }
  std::printf("%zu files, %zu variations\n", corpus.size(), runs);
  if (corpus.empty()) {
    return 1;
  }
  if (argc > 2) {
    const unsigned seed = argc > 3 ? static_cast<unsigned>(std::atoi(argv[3]))
                                   : static_cast<unsigned>(std::random_device{}());
    slowest = 0;
    const std::size_t by_chance = run_by_chance(corpus, std::atoi(argv[2]), seed);
    std::printf("%zu by chance with seed %u; the slowest took %.1f ms of CPU:\n%s\n", by_chance,
                seed, slowest * 1e3, slowest_input.substr(0, 400).c_str());
  }
  return 0;
}
