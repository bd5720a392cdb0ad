#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <utility>

#include "apiserver/controllers/controller.h"
#include "base/strings.h"

namespace kintsugi::kinds {

/// Deletes Events some time after their last change (AM-327).
/// Cost: O(log n) per change; a tick looks at expired events only. Memory: two keys per event.
class EventExpiry final : public apiserver::ControllerBase {
 public:
  /// @param life [s] after the last change.
  /// @param now [s since 1970]; empty: the wall clock.
  explicit EventExpiry(const apiserver::ControllerContext& context, std::int64_t life = 3600,
                       std::function<std::int64_t()> now = {});
  void start() override;
  void add_cluster(std::string_view cluster) override;
  void remove_cluster(std::string_view cluster) override;
  /// Queues what has expired; also runs by itself every ten seconds while there are events.
  void tick();
  [[nodiscard]] std::size_t tracked() const noexcept { return due_.size(); }

 private:
  void process(const std::string& key, Finished finished) override;
  void track(const std::string& key, std::int64_t due);
  void forget(const std::string& key);
  void arm();

  std::int64_t life_;
  std::function<std::int64_t()> now_;
  StringMap<std::int64_t> due_;
  std::set<std::pair<std::int64_t, std::string>> order_;
  net::Timer timer_;
  bool armed_ = false;
};

/// Seconds since 1970 of an RFC 3339 text, with or without fraction, in UTC; nullopt otherwise.
[[nodiscard]] std::optional<std::int64_t> parse_rfc3339_utc(std::string_view text);

}  // namespace kintsugi::kinds
