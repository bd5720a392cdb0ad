#pragma once

#include <cstddef>
#include <functional>
#include <list>
#include <memory>
#include <string>

#include "http/handler.h"
#include "net/loop.h"
#include "proxy/waiting_request.h"
#include "topology/snapshot.h"

namespace kintsugi::proxy {

/// Requests for paths that nobody knows wait a moment for the topology: a client that has just read
/// at a shard that its Workspace is Ready is here before the shard's watch has told this loop, and
/// would get a wrong 403. Threads: its loop.
class LateRoutes {
 public:
  using Answer = std::unique_ptr<http::RequestHandler>;

  /// @param longest zero: nothing waits.
  LateRoutes(net::Loop& loop, const std::shared_ptr<topology::SnapshotView>& view,
             Duration longest);
  LateRoutes(const LateRoutes&) = delete;
  LateRoutes& operator=(const LateRoutes&) = delete;

  /// False when so many wait that the next is better refused at once.
  [[nodiscard]] bool has_room() const noexcept;
  /// Calls `then` with the head, once, as soon as `segment` (krm::ClusterPath::segment) is more
  /// than unknown, after `longest` at the latest; never when the stream is gone by then.
  [[nodiscard]] Answer hold(http::RequestHead head, std::string segment,
                            std::function<Answer(http::RequestHead)> then);

 private:
  struct Held {
    http::RequestHead head;
    std::string segment;
    std::shared_ptr<WaitingRequest*> request;
    std::function<Answer(http::RequestHead)> then;
  };
  using List = std::list<std::shared_ptr<Held>>;
  void look(const topology::Snapshot& now);
  static void go_on(Held& held);

  net::Loop& loop_;
  Duration longest_;
  List held_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace kintsugi::proxy
