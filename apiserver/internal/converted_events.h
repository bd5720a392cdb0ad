#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "apiserver/internal/conversions.h"
#include "apiserver/internal/live_event.h"
#include "base/alive.h"
#include "base/bytes.h"
#include "base/error.h"
#include "krm/json.h"
#include "net/loop.h"

namespace kintsugi::apiserver::internal {

/// Events of one watch in their order, while some of them wait for the conversion webhook. Those of
/// one turn go into one review. Threads: its loop.
class ConvertedEvents {
 public:
  /// @param emit   gets the bytes in order; whether they are an event (else a bookmark).
  /// @param drained some of what waited has been emitted.
  /// @param failed  the webhook failed; nothing is emitted any more.
  ConvertedEvents(net::Loop& loop, Conversions& conversions, std::string cluster,
                  WatchEncodingPtr encoding,
                  std::function<void(const SharedBytes&, bool is_event)> emit,
                  std::function<void()> drained, std::function<void(const Error&)> failed);

  /// What needs no conversion.
  void push(SharedBytes bytes, bool is_event);
  /// @param object as ServedKind::decode gives it.
  void convert(WatchType type, krm::Json object, bool with_columns);
  [[nodiscard]] bool is_empty() const noexcept { return slots_.empty(); }
  /// Roughly what waits here.
  [[nodiscard]] std::size_t waiting_bytes() const noexcept { return waiting_bytes_; }

 private:
  struct Slot {
    bool ready = false;
    bool is_event = true;
    WatchType type = WatchType::kAdded;
    bool with_columns = false;
    std::size_t size = 0;
    SharedBytes bytes;
  };
  void send_batch();
  void take(const std::vector<std::shared_ptr<Slot>>& slots, const std::vector<krm::Json>& objects);
  void drain();

  net::Loop& loop_;
  Conversions& conversions_;
  std::string cluster_;  ///< as asked for
  WatchEncodingPtr encoding_;
  std::function<void(const SharedBytes&, bool)> emit_;
  std::function<void()> drained_;
  std::function<void(const Error&)> failed_;
  std::deque<std::shared_ptr<Slot>> slots_;
  std::vector<std::shared_ptr<Slot>> batch_slots_;
  std::vector<krm::Json> batch_;
  std::size_t waiting_bytes_ = 0;
  Alive alive_;
};

}  // namespace kintsugi::apiserver::internal
