#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "bench/link.h"

namespace kintsugi::bench {

/// What the events of a stream look like, and what must be so of their order.
enum class EventForm : std::uint8_t {
  kNumbered,  ///< of event_source without --objects: a number per stream, next by next
  kShards,    ///< of event_source with --objects: resourceVersions of each shard next by next;
              ///< bookmarks may come at any time
  kRising,    ///< of a real shard: resourceVersions rise
  kEtcd,      ///< messages of etcd's Watch, whose values have a send time
};

/// One stream that is being received.
struct Watched {
  static constexpr std::size_t kHead = 1024;
  static constexpr std::size_t kShardsMax = 10;

  std::array<char, kHead> head;  ///< of the line or message that is being received
  std::size_t have = 0;
  std::size_t left = 0;  ///< of a message
  std::uint64_t next = 0;
  std::array<std::uint64_t, kShardsMax> due{};     ///< next version by shard; 0: any
  std::array<std::uint64_t, kShardsMax> marked{};  ///< `due` at the last bookmark
  std::string cursor;                              ///< of the last bookmark
  std::uint64_t opened_at = 0;                     ///< [ns]
  std::uint64_t seen = 0;                          ///< events since the tool began
};

/// Reads the streams of a load; a gap or a repeat ends the tool.
class EventCheck {
 public:
  explicit EventCheck(EventForm form) : form_(form) {}

  void take(Watched& watch, std::string_view bytes);
  /// The stream will go on at its last bookmark.
  void resume(Watched& watch) const;

  /// Events by their latency [µs]; those sent before their stream was opened are not in it.
  [[nodiscard]] Histogram& latency() noexcept { return latency_; }
  [[nodiscard]] const Histogram& latency() const noexcept { return latency_; }
  [[nodiscard]] std::uint64_t events() const noexcept { return events_; }
  [[nodiscard]] std::uint64_t bookmarks() const noexcept { return bookmarks_; }
  [[nodiscard]] std::uint64_t errors() const noexcept { return errors_; }

 private:
  void take_messages(Watched& watch, std::string_view bytes);
  void take_one(Watched& watch, std::string_view head);
  void take_numbered(Watched& watch, std::string_view head);
  void take_kube(Watched& watch, std::string_view head);
  void took(Watched& watch, std::string_view head);

  EventForm form_;
  Histogram latency_;
  std::uint64_t events_ = 0, bookmarks_ = 0, errors_ = 0;
};

/// numbered, shards, rising, etcd.
[[nodiscard]] EventForm event_form(std::string_view name);

}  // namespace kintsugi::bench
