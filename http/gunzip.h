#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>

namespace kintsugi::http {

/// Takes a body in the gzip format apart, piece by piece. A body may be several members one after
/// another, as senders make them that compress each flush by itself. Memory: about 44 KiB while it
/// lives; what comes out is bounded by `out` alone, whatever goes in.
class Gunzip {
 public:
  Gunzip();
  ~Gunzip();
  Gunzip(const Gunzip&) = delete;
  Gunzip& operator=(const Gunzip&) = delete;

  struct Step {
    std::size_t read = 0;     ///< bytes of `in`
    std::size_t written = 0;  ///< bytes of `out`; all of them: more may come without input
    bool good = true;         ///< false: this is not gzip; nothing more can be read
  };
  /// Reads as much of `in` as has room in `out`, which is not empty.
  [[nodiscard]] Step next(std::string_view in, std::span<char> out);
  /// No member is incomplete: the body may end here.
  [[nodiscard]] bool at_boundary() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace kintsugi::http
