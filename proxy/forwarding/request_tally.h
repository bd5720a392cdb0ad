#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/time.h"
#include "proxy/routing/access_note.h"

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

/// Why a request was sent again, or why it got no answer of its server, or no whole one.
enum class ForwardFault : std::uint8_t {
  kConnect,       ///< nobody took the connection
  kTls,           ///< the handshake
  kTimeout,       ///< no answer in time
  kNotProcessed,  ///< the server says that it has not looked at it
  kLost,          ///< reset or closed
  kFull,          ///< too many wait already, or the shard is taken out of use
  kRefused,       ///< by the proxy: a body over the limit, what cannot be sent on
};
inline constexpr std::size_t kForwardFaults = 7;
[[nodiscard]] ForwardFault forward_fault_of(Errc cause) noexcept;
[[nodiscard]] std::string_view forward_fault_name(ForwardFault fault) noexcept;

/// What went to one server and came from it.
struct ServerTally {
  std::uint64_t up = 0, down = 0;        ///< body bytes
  std::size_t streams = 0, watches = 0;  ///< that are open; watches are among the streams
  /// Requests by verb and code, counted with the head of the answer; 0: ended without one.
  std::map<std::pair<std::string_view, int>, std::uint64_t> requests;
  std::array<std::uint64_t, kForwardFaults> retries{}, failures{};
  void add(const ServerTally& other);
};
using TallyByServer = std::map<std::string, ServerTally, std::less<>>;

/// Of one request. The verb: "watch", "connect" (upgrades), else by its method "get", "create",
/// "update", "patch", "delete", "head", "options", "other".
class RequestTally {
 public:
  enum class Kind : std::uint8_t { kPlain, kWatch, kUpgrade };  ///< plain ones are timed
  /// @param method  must live as long as the constructor runs. The others outlive this object.
  /// @param note  for the access log; null: there is none
  RequestTally(RequestTimes& times, ServerTally& server, std::string_view method, Kind kind,
               TimePoint now, std::shared_ptr<AccessNote> note) noexcept;
  void up(std::size_t count) noexcept { server_.up += count; }
  void down(std::size_t count) noexcept {
    server_.down += count;
    down_ += count;
  }
  /// All of down().
  [[nodiscard]] std::uint64_t down() const noexcept { return down_; }
  /// The first one counts.
  void answered(int code);
  /// For the first time.
  void sent(TimePoint now) noexcept;
  void sent_again(ForwardFault why) noexcept;
  /// The answer's head, or its end.
  void came(TimePoint now) noexcept;
  void failed(ForwardFault why) noexcept;
  /// Nobody is up who could be asked.
  void found_none() noexcept;
  /// The proxy ends it, in order.
  void drained() noexcept;
  [[nodiscard]] TimePoint begun() const noexcept { return begun_; }
  /// Once, at last.
  void end(TimePoint now);

 private:
  RequestTimes& times_;
  ServerTally& server_;
  std::string_view method_, verb_;  // of tables
  TimePoint begun_;
  const std::shared_ptr<AccessNote> note_;
  std::uint64_t down_ = 0;
  int code_ = 0;
  Kind kind_;
};

}  // namespace kintsugi::proxy
