#include "aggregation/merge_loop.h"

#include <utility>

#include "aggregation/asking/merge_query.h"
#include "aggregation/list/merged_list.h"
#include "aggregation/reviewed_read.h"
#include "aggregation/rights/reviewer.h"
#include "aggregation/watch/merged_watch.h"
#include "aggregation/watch/watch_group.h"
#include "aggregation/watch/watch_socket.h"
#include "http/web_socket.h"
#include "krm/status.h"
#include "serving/answer.h"

namespace kintsugi::aggregation {

MergeLoop::MergeLoop(net::Loop& loop, topology::ShardPool& pool,
                     std::shared_ptr<topology::SnapshotView> view, serving::WatchDrain& drain,
                     const MergeOptions& options, const MergeParams& params)
    : positions(options.sequence),
      asking(loop, pool, std::move(view), positions, options, params),
      late_slots(loop, params.future_wait, positions, *asking.view),
      lists(asking, positions),
      watches(asking, positions, drain),
      follow_timer_(loop) {}

MergeLoop::~MergeLoop() = default;

void MergeLoop::start_reviews() { reviewer = std::make_shared<Reviewer>(asking); }

void MergeLoop::set_slots(SlotHistoryPtr history) {
  positions.slots = std::move(history);
  follow(true);
  late_slots.look();
}

void MergeLoop::follow(bool shards_changed) {
  if (!shards_changed) {
    // Who holds what changes with every binding: a hundredth of a second of them is one change.
    if (!watches.groups.empty() && !follows_) {
      follows_ = true;
      follow_timer_.start(milliseconds(10), [this] { follow(true); });
    }
    return;
  }
  follows_ = false;
  if (reviewer != nullptr) {
    reviewer->follow_shards();
  }
  watches.follow();
}

namespace {

/// What the request names and nobody here knows yet.
std::optional<std::uint32_t> named_by(const Positions& positions, const MergeRoute& route,
                                      const MergeQuery& query) {
  if (query.watch || query.continue_token.empty()) {
    return named_generation(query.resource_version);
  }
  const Expected<MergedContinue> token =
      decode_continue(query.continue_token, question_of(route, query), positions.keys);
  return token ? std::optional(token->generation) : std::nullopt;
}

std::unique_ptr<http::RequestHandler> answer_query(MergeLoop& shared, http::RequestHead head,
                                                   http::ResponseStream& stream, MergeRoute route,
                                                   MergeQuery query, std::string accept) {
  if (query.watch) {
    const bool socket = http::asks_for_web_socket(head);
    const MakeWatch make = [&](http::RequestHead asked, http::ResponseStream& to) {
      return route.reviews != nullptr
                 ? answer_reviewed(shared, std::move(asked), to, std::move(route), std::move(query),
                                   std::move(accept))
                 : make_merged_watch(shared.watches, std::move(asked), to, std::move(route),
                                     std::move(query), std::move(accept));
    };
    return socket ? answer_over_socket(shared.asking.loop, std::move(head), stream, make)
                  : make(std::move(head), stream);
  }
  head.protocol.clear();  // lists ignore it, as servers do
  if (route.reviews != nullptr) {
    return answer_reviewed(shared, std::move(head), stream, std::move(route), std::move(query),
                           std::move(accept));
  }
  return make_merged_list(shared.lists, std::move(head), stream, std::move(route), std::move(query),
                          std::move(accept));
}

}  // namespace

std::unique_ptr<http::RequestHandler> answer_merged(MergeLoop& shared, http::RequestHead head,
                                                    http::ResponseStream& stream,
                                                    MergeRoute route) {
  if (head.method != "GET") {
    return serving::answer_error(head, stream, krm::method_not_allowed());
  }
  const bool socket = http::asks_for_web_socket(head);
  const std::optional<std::string> accept = mergeable_accept(head.headers.get("accept"), !socket);
  if (!accept) {
    return serving::answer_error(head, stream, not_mergeable(!socket));
  }
  if (!head.protocol.empty() && !socket) {
    Error error(Errc::kMethodNotAllowed, "merged reads are offered over no such protocol");
    error.edit().http_status = 501;
    return serving::answer_error(head, stream, error);
  }
  Expected<MergeQuery> query = parse_merge_query(route.info);
  if (!query) {
    return serving::answer_error(head, stream, query.error());
  }
  query->partial = asks_partial(shared.asking.options, head.headers);
  if (query->watch) {
    if (query->initial_events && !shared.asking.options.watch_list) {  // AGG-805
      return serving::answer_error(
          head, stream,
          krm::invalid("meta.k8s.io", "ListOptions", "",
                       {krm::field_forbidden("sendInitialEvents",
                                             "sendInitialEvents is forbidden for watch unless the "
                                             "WatchList feature gate is enabled")}));
    }
  }
  const std::optional<std::uint32_t> named = named_by(shared.positions, route, *query);
  struct Question {
    http::RequestHead head;
    MergeRoute route;
    MergeQuery query;
    std::string accept;
  };
  auto kept = std::make_shared<Question>(
      Question{std::move(head), std::move(route), std::move(*query), *accept});
  const std::shared_ptr<const http::RequestHead> asked(kept, &kept->head);
  return shared.late_slots.when_known(asked, stream, named, [&shared, &stream, kept] {
    return answer_query(shared, std::move(kept->head), stream, std::move(kept->route),
                        std::move(kept->query), std::move(kept->accept));
  });
}

}  // namespace kintsugi::aggregation
