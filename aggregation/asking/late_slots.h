#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "aggregation/position/positions.h"
#include "http/handler.h"
#include "net/loop.h"
#include "serving/held_requests.h"
#include "topology/snapshot.h"

namespace kintsugi::aggregation {

/// Requests that come before a new shard has its slot, or whose cursor or token is of a generation
/// that another replica, or another loop, made a moment ago: they wait for the record (AGG-511).
/// Threads: its loop.
class LateSlots {
 public:
  LateSlots(net::Loop& loop, Duration longest, const Positions& positions,
            const topology::SnapshotView& view)
      : positions_(positions), view_(view), held_(loop, longest) {}

  using Ask = std::function<std::unique_ptr<http::RequestHandler>()>;
  /// Asks as soon as every shard has its slot, and the generation that the request names, if any,
  /// is known here. What is not known yet is worth to be waited for. @param head  lives until it
  /// asks
  [[nodiscard]] std::unique_ptr<http::RequestHandler> when_known(
      std::shared_ptr<const http::RequestHead> head, http::ResponseStream& stream,
      std::optional<std::uint32_t> generation, Ask ask);
  /// The slots have changed.
  void look() { held_.look(); }

 private:
  [[nodiscard]] bool all_have_slots() const;

  const Positions& positions_;
  const topology::SnapshotView& view_;
  serving::HeldRequests held_;
};

}  // namespace kintsugi::aggregation
