#pragma once

#include <optional>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/time.h"
#include "store/store.h"

namespace kintsugi::store {

/// Somebody reads a revision of a store for long: compaction leaves the history from it on. A file
/// `pin-<id>` in the store's folder, locked by who reads, so that it means nothing once he is gone,
/// however he went. Source: GR-406. Threads: one at a time.
class HistoryPin {
 public:
  /// No longer: history costs room.
  static constexpr Duration kLongest = std::chrono::hours(1);

  /// @error kIo, kFull
  [[nodiscard]] static Expected<HistoryPin> hold(const std::string& directory, Revision revision);
  HistoryPin(HistoryPin&& other) noexcept
      : path_(std::exchange(other.path_, {})), fd_(std::exchange(other.fd_, -1)) {}
  HistoryPin& operator=(HistoryPin&&) = delete;
  ~HistoryPin();

 private:
  HistoryPin(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}

  std::string path_;
  int fd_;
};

/// The lowest revision that is held, by who began at most kLongest ago; nullopt: none is. Files
/// that nobody has locked are removed.
[[nodiscard]] std::optional<Revision> lowest_pin(const std::string& directory);

}  // namespace kintsugi::store
