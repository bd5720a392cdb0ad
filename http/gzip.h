#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace kintsugi::http {

/// Compresses a body piece by piece into the gzip format. Memory: about 260 KiB while it lives.
class Gzip {
 public:
  Gzip();
  ~Gzip();
  Gzip(const Gzip&) = delete;
  Gzip& operator=(const Gzip&) = delete;
  /// Appends to `out` what comes out for `in`; `last` finishes the stream.
  void write(std::string_view in, bool last, std::string& out);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Bodies above this size are compressed for clients that accept it (AM-098) [bytes].
inline constexpr std::size_t kGzipThreshold = 131'072;

/// True when an Accept-Encoding header value allows gzip.
[[nodiscard]] bool accepts_gzip(std::string_view accept_encoding);

}  // namespace kintsugi::http
