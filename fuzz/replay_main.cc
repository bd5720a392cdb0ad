// Runs one fuzz target over every file of a corpus folder, and over each file cut short and with
// single bytes changed.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

void run(const std::string& bytes) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2 || !std::filesystem::is_directory(argv[1])) {
    std::fprintf(stderr, "usage: %s <corpus folder>\n", argv[0]);
    return 2;
  }
  std::size_t files = 0;
  std::size_t runs = 0;
  for (const auto& entry : std::filesystem::directory_iterator(argv[1])) {
    std::ifstream file(entry.path(), std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    run(bytes);
    ++files;
    const std::size_t step = bytes.size() / 64 + 1;
    for (std::size_t at = 0; at < bytes.size(); at += step) {
      run(bytes.substr(0, at));
      std::string changed = bytes;
      changed[at] = static_cast<char>(changed[at] ^ 0x55);
      run(changed);
      runs += 2;
    }
  }
  std::printf("%zu files, %zu variations\n", files, runs);
  return files == 0 ? 1 : 0;
}
