#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "net/loop.h"

namespace kintsugi::server {

/// One GET over a Unix socket of this machine. Threads: the loop's. Destroying it ends it, and
/// `done` is not called any more.
class SocketFetch final : public net::FdHandler {
 public:
  static constexpr std::size_t kMostBytes = std::size_t{64} << 20;
  /// @param done  once, in a later turn; status 0: nobody listens there, or what came is no answer.
  ///              It may destroy this object.
  SocketFetch(net::Loop& loop, const std::string& path, std::string_view target,
              std::function<void(int status, std::string body)> done);
  ~SocketFetch();
  SocketFetch(const SocketFetch&) = delete;
  SocketFetch& operator=(const SocketFetch&) = delete;

  void on_ready(bool readable, bool writable) noexcept override;

 private:
  void finish();
  void close() noexcept;

  net::Loop& loop_;
  int fd_;
  std::string text_;
  std::function<void(int, std::string)> done_;
  net::Timer turn_;
};

/// Status and body of a whole answer of HTTP/1.1 after which the connection was closed; 0, "" for
/// what is none or was cut.
[[nodiscard]] std::pair<int, std::string> read_answer(std::string_view text);

}  // namespace kintsugi::server
