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

/// Why a request was sent again.
enum class RetryReason : std::uint8_t { kRefused, kTimeout, kLost };
inline constexpr std::size_t kRetryReasons = 3;
/// Label of kintsugi_retries_total.
[[nodiscard]] std::string_view retry_reason_name(RetryReason reason) noexcept;

/// What goes to one server, and comes from it.
struct ServerTraffic {
  std::uint64_t up = 0, down = 0;        ///< [bytes] of bodies
  std::size_t streams = 0, watches = 0;  ///< open now; a watch is a stream, too
  std::array<std::uint64_t, kRetryReasons> retries{};
  /// Answers, also those that the proxy gave for it: by verb and code. The verb is "watch",
  /// "connect" for an upgrade, else that of the method; lists are "get" here.
  std::map<std::pair<std::string_view, int>, std::uint64_t> requests;
  void add(const ServerTraffic& other);
};
using TrafficByServer = std::map<std::string, ServerTraffic, std::less<>>;

/// How long requests were at the proxy before they were sent the first time.
class OverheadTimes {
 public:
  /// [seconds]
  static constexpr std::array<double, 11> kBounds = {0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005,
                                                     0.01,   0.025,   0.1,    1,     10};
  std::array<std::uint64_t, kBounds.size() + 1> counts{};  ///< the last one: longer ones
  double sum = 0;                                          ///< [seconds]
  void add(Duration took) noexcept;
  void add(const OverheadTimes& other) noexcept;
};

/// Of one request.
class RequestTally {
 public:
  enum class Kind : std::uint8_t { kPlain, kWatch, kUpgrade };
  /// @param method  must live as long as the constructor runs
  RequestTally(RequestTimes& times, ServerTraffic& server, std::string_view method, Kind kind,
               TimePoint now) noexcept;
  void up(std::size_t count) noexcept { server_.up += count; }
  void down(std::size_t count) noexcept { server_.down += count; }
  void again(RetryReason why) noexcept { ++server_.retries[static_cast<std::size_t>(why)]; }
  void answered(int code);
  [[nodiscard]] TimePoint begun() const noexcept { return begun_; }
  void end(TimePoint now);

 private:
  RequestTimes& times_;
  ServerTraffic& server_;
  std::string_view method_, verb_;  // of a table
  TimePoint begun_;
  int code_ = 0;
  Kind kind_;
};

}  // namespace kintsugi::proxy
