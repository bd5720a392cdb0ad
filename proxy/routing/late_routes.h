#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/alive.h"
#include "net/loop.h"
#include "proxy/routing/request.h"
#include "serving/held_requests.h"
#include "topology/snapshot.h"

namespace kintsugi::proxy {

/// Requests for paths that nobody knows wait a moment for the topology: a client that has just read
/// at a shard that its Workspace is Ready is here before the shard's watch has told this loop, and
/// would get a wrong 403. Threads: its loop.
class LateRoutes {
 public:
  using Answer = serving::HeldRequests::Answer;

  /// @param longest zero: nothing waits.
  LateRoutes(net::Loop& loop, std::shared_ptr<topology::SnapshotView> view, Duration longest);
  LateRoutes(const LateRoutes&) = delete;
  LateRoutes& operator=(const LateRoutes&) = delete;

  /// False when so many wait that the next is better refused at once.
  [[nodiscard]] bool has_room() const noexcept { return held_.has_room(); }
  /// Calls `then` with the request, once, as soon as `segment` (Route::wanted) is more than
  /// unknown, after `longest` at the latest; never when the stream is gone by then.
  [[nodiscard]] Answer hold(Request&& request, std::string segment,
                            std::function<Answer(Request)> then);

 private:
  std::shared_ptr<topology::SnapshotView> view_;
  serving::HeldRequests held_;
  Alive alive_;
};

}  // namespace kintsugi::proxy
