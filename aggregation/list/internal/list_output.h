#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "http/gzip.h"
#include "http/handler.h"
#include "http/headers.h"

namespace kintsugi::aggregation {

/// The answer with a list in it: compressed when it is large and the client likes that (AGG-1402).
/// Memory: kGzipThreshold, or what a compressor takes. Threads: the stream's loop.
class ListOutput {
 public:
  explicit ListOutput(http::ResponseStream& down) noexcept : down_(down) {}
  /// A 200 with these fields is decided; it is held back only while it is open whether the body
  /// will be compressed.
  void start(http::HeaderList headers, bool may_compress);
  [[nodiscard]] bool started() const noexcept { return started_; }
  /// More of the body; `end`: all of it.
  void write(std::string_view bytes, bool end);
  /// The body ends where it must not (RST_STREAM).
  void abort() noexcept;

 private:
  void send_head();

  http::ResponseStream& down_;
  http::HeaderList headers_;
  std::string held_;
  std::unique_ptr<http::Gzip> gzip_;
  bool started_ = false, sent_ = false, may_compress_ = false;
};

}  // namespace kintsugi::aggregation
