// The file of an LMDB store: whatever bytes there are, the walk ends, reads nothing outside of
// them, believes no page twice and says what is wrong.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include "store/lmdb/internal/page_walk.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using kintsugi::Expected;
  std::uint64_t read_bytes = 0;
  const kintsugi::store::ReadAt read = [&](std::uint64_t offset, char* out,
                                           std::size_t wanted) -> Expected<std::size_t> {
    if (offset >= size) {
      return std::size_t{0};
    }
    const std::size_t count =
        std::min<std::size_t>(wanted, size - static_cast<std::size_t>(offset));
    std::memcpy(out, data + offset, count);
    read_bytes += count;
    return count;
  };
  std::uint64_t rows = 0, bytes = 0;
  const auto report = kintsugi::store::walk_pages(
      read, size, [&](std::string_view table, std::string_view key, std::string_view value) {
        ++rows;
        bytes += table.size() + key.size() + value.size();
      });
  const bool holds = report.problems.size() <= report.problem_count &&
                     report.problems.size() <= 100 && rows <= report.rows &&
                     (report.is_store || rows == 0) && report.lost.size() <= 10'010 &&
                     read_bytes <= 3 * size + 1'000'000;
  if (!holds) {
    std::abort();
  }
  return 0;
}
