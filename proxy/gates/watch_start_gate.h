#pragma once

#include <cstdint>
#include <memory>

#include "base/alive.h"
#include "base/time.h"
#include "http/handler.h"
#include "net/loop.h"
#include "proxy/routing/request.h"
#include "serving/refusals.h"

namespace kintsugi::proxy {

/// When watches may begin: so many a second in the long run, and those of ten seconds at once
/// (GR-213). Pure; one addition for each.
class WatchStartPace {
 public:
  static constexpr std::int64_t kSecondsAtOnce = 10;
  static constexpr Duration kLongestWait = seconds(1);

  /// @param per_second  0: no limit
  explicit WatchStartPace(std::uint32_t per_second) noexcept
      : between_(per_second == 0 ? Duration::zero() : Duration(seconds(1)) / per_second) {}
  /// One more is asked for. @returns how long it waits; more than kLongestWait: it does not begin,
  /// and does not count.
  [[nodiscard]] Duration next(TimePoint now) noexcept;

 private:
  Duration between_;
  TimePoint turn_{};  ///< when the next one begins that has to wait for its turn
};

/// Keeps the watches of clients that all come at once, because another replica has ended, from
/// holding up everything else of the loop: those beyond WatchStartPace wait, others are told to
/// come again (429). Threads: its loop. Cost for what is no watch: a comparison.
class WatchStartGate final : public RoutedHandler {
 public:
  /// @param inner  answers; must outlive it.
  WatchStartGate(net::Loop& loop, std::uint32_t per_second, RoutedHandler& inner)
      : loop_(loop), pace_(per_second), inner_(inner), refusals_(loop) {}
  [[nodiscard]] std::unique_ptr<http::RequestHandler> on_request(
      Request&& request, http::ResponseStream& stream) noexcept override;

 private:
  [[nodiscard]] std::unique_ptr<http::RequestHandler> hold(Request&& request,
                                                           http::ResponseStream& stream,
                                                           Duration wait);

  net::Loop& loop_;
  WatchStartPace pace_;
  RoutedHandler& inner_;
  serving::Refusals refusals_;
  Alive alive_;
};

}  // namespace kintsugi::proxy
