#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "base/time.h"

/// What kcp's front proxy counts of requests.
namespace kintsugi::proxy {

/// Until the end of the answer, without watches and upgrades: by method, in lower case, and code.
/// Bounds: methods that nobody knows are one.
class RequestTimes {
 public:
  /// [seconds]
  static constexpr std::array<double, 21> kBounds = {
      0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1, 1.25, 1.5, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 45, 60};
  struct Times {
    std::array<std::uint64_t, kBounds.size() + 1> counts{};  ///< the last one: longer ones
    double sum = 0;                                          ///< [seconds]
  };
  using Rows = std::map<std::pair<std::string_view, int>, Times>;
  void add(std::string_view method, int code, Duration took);
  void add(const RequestTimes& other);
  [[nodiscard]] const Rows& rows() const noexcept { return rows_; }

 private:
  Rows rows_;
};

/// Body bytes to and from one server.
struct ServerBytes {
  std::uint64_t up = 0, down = 0;
};
using BytesByServer = std::map<std::string, ServerBytes, std::less<>>;

/// Of one request.
class RequestTally {
 public:
  /// @param method  must live as long as the constructor runs. @param timed  false: a watch or an
  /// upgrade
  RequestTally(RequestTimes& times, ServerBytes& bytes, std::string_view method, bool timed,
               TimePoint now) noexcept;
  void up(std::size_t count) noexcept { bytes_.up += count; }
  void down(std::size_t count) noexcept { bytes_.down += count; }
  void answered(int code) noexcept { code_ = code; }
  void end(TimePoint now);

 private:
  RequestTimes& times_;
  ServerBytes& bytes_;
  std::string_view method_;  // of a table
  TimePoint begun_;
  int code_ = 0;
  bool timed_;
};

}  // namespace kintsugi::proxy
