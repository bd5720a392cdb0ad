#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kintsugi::server {

/// A support bundle (OP-904): a .tar.gz whose first file, contents.txt, tells of every other one
/// what it is, and of what is not in it why. Each file is a gzip member of its own, so that one
/// that would make the bundle too large is left out whole. Threads: one.
class SupportFile {
 public:
  /// @param folder  that all files are in, in the archive. @param most  size of the bundle [bytes]
  /// @param now  of all files [s since 1970]
  SupportFile(std::string folder, std::size_t most, std::int64_t now);

  /// @param name  "proxy/metrics.txt": other bytes than letters, digits and "._-/" become "_"; what
  ///              makes the path longer than 99 bytes is cut
  /// @param about  a line for contents.txt
  void add(std::string_view name, std::string_view text, std::string_view about);
  /// It could not be had.
  void miss(std::string_view name, std::string_view why);

  /// The whole bundle. Once.
  [[nodiscard]] std::string finish();

 private:
  [[nodiscard]] std::string member(const std::string& name, std::string_view text) const;

  const std::string folder_;
  const std::size_t most_;
  const std::int64_t now_;
  std::size_t size_ = 0;
  std::vector<std::string> members_, lines_;
};

/// The last `lines` lines of a text, of these at most the last `bytes` bytes in whole lines.
[[nodiscard]] std::string_view last_lines(std::string_view text, std::size_t lines,
                                          std::size_t bytes);

}  // namespace kintsugi::server
