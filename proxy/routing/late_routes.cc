#include "proxy/routing/late_routes.h"

#include <utility>

#include "topology/resolver.h"

namespace kintsugi::proxy {
namespace {

bool is_unknown(const topology::Snapshot& snapshot, std::string_view segment) {
  const topology::Resolution found = topology::resolve(snapshot, segment);
  return found.kind == topology::Resolution::Kind::kNotFound &&
         found.reason == topology::NotFoundReason::kUnknown;
}

}  // namespace

LateRoutes::LateRoutes(net::Loop& loop, std::shared_ptr<topology::SnapshotView> view,
                       Duration longest)
    : view_(std::move(view)), held_(loop, longest) {
  if (longest > Duration::zero()) {
    view_->on_change(
        [this, alive = alive_.weak()](const topology::Snapshot&, const topology::Snapshot&) {
          if (alive) {
            held_.look();
          }
        });
  }
}

LateRoutes::Answer LateRoutes::hold(Request&& request, std::string segment,
                                    std::function<Answer(Request)> then) {
  auto kept = std::make_shared<Request>(std::move(request));
  return held_.hold(
      [this, segment = std::move(segment)] { return is_unknown(view_->current(), segment); },
      [kept, then = std::move(then)] { return then(std::move(*kept)); });
}

}  // namespace kintsugi::proxy
