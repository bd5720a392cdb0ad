#include "aggregation/reviewed_read.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "aggregation/asking/shard_answer.h"
#include "aggregation/list/merged_list.h"
#include "aggregation/watch/merged_watch.h"
#include "base/strings.h"
#include "krm/status.h"
#include "serving/answer.h"
#include "shards/own_requests.h"

namespace kintsugi::aggregation {
namespace {

/// Fields of a request that its answer depends on, and those of the way here.
constexpr std::array<std::string_view, 6> kKept = {
    "accept", "accept-encoding", "user-agent", "audit-id", "via", "x-kcp-virtual-resource-hops"};

void strip_caller(http::HeaderList& headers) {
  headers.remove_if([](const http::HeaderView& field) {
    return std::find(kKept.begin(), kKept.end(), field.name) == kKept.end();
  });
}

/// Waits for the reviews, then is what it answers with.
class ReviewedRead final : public http::RequestHandler, private Permit::Holder {
 public:
  /// Answers with the proxy's own credential: nothing of the caller is in the head any more.
  using GoOn = std::function<std::unique_ptr<http::RequestHandler>(
      http::RequestHead head, const std::shared_ptr<Permit>& permit)>;
  /// @param target  of what is asked with the own credential
  ReviewedRead(MergeLoop& shared, http::RequestHead head, http::ResponseStream& stream,
               std::string target, std::shared_ptr<Permit> permit, GoOn go_on)
      : shared_(shared),
        stream_(stream),
        head_(std::move(head)),
        target_(std::move(target)),
        go_on_(std::move(go_on)),
        patience_(shared.asking.loop),
        permit_(std::move(permit)) {}
  ~ReviewedRead() override { leave(); }

  void start() {
    Permit::Holder& self = *this;
    permit_->hold(&self);
    patience_.start(shared_.asking.params.first_byte, [this] { give_up(); });
    look();
  }

  void on_data(std::string_view bytes, bool end) noexcept override {
    if (next_ != nullptr) {
      next_->on_data(bytes, end);
    } else {
      stream_.consume(bytes.size());
    }
  }
  void on_drained() noexcept override {
    if (next_ != nullptr) {
      next_->on_drained();
    }
  }
  void on_close(Errc cause) noexcept override {
    leave();
    if (next_ != nullptr) {
      next_->on_close(cause);
    }
  }

 private:
  void on_rights() noexcept override { look(); }

  void look() {
    if (permit_ == nullptr) {
      return;
    }
    permit_->update();
    Permit::Start start = permit_->begin();
    if (start.right == Right::kUnknown) {
      return;
    }
    permit_->hold(nullptr);
    if (start.right == Right::kAllowed) {
      go_on();
    } else {
      if (start.right == Right::kUnavailable) {
        ++shared_.asking.stats.failed;
      }
      next_ = serving::answer_error(head_, stream_, start.error);
    }
    leave();
  }

  void give_up() {
    if (permit_ != nullptr) {
      ++shared_.asking.stats.failed;
      next_ = serving::answer_error(head_, stream_,
                                    shards_unavailable({{"some", "no review came in time"}}, true));
      permit_->hold(nullptr);
      leave();
    }
  }

  void go_on() {
    strip_caller(head_.headers);
    http::RequestHead own;
    own.method = "GET";
    own.target = target_;
    own.headers = head_.headers;
    if (!shards::is_own_request(shards::OwnRole::kReviewed, own)) {
      next_ =
          serving::answer_error(head_, stream_, krm::internal("this cannot be read for a caller"));
      return;
    }
    next_ = go_on_(std::move(head_), permit_);
  }

  /// It may be the permit that calls: it goes in the next turn.
  void leave() noexcept {
    patience_.cancel();
    if (permit_ != nullptr) {
      if (next_ == nullptr) {
        permit_->hold(nullptr);
      }
      shared_.asking.loop.post([kept = std::move(permit_)] {});
      permit_ = nullptr;
    }
  }

  MergeLoop& shared_;
  http::ResponseStream& stream_;
  http::RequestHead head_;
  std::string target_;
  GoOn go_on_;
  net::Timer patience_;
  std::shared_ptr<Permit> permit_;
  std::unique_ptr<http::RequestHandler> next_;
};

/// The same read without those that the caller is not let in by.
void leave_out(const Permit& permit, MergeRoute& route) {
  std::vector<topology::ShardId> out;
  for (const Permit::LeftOut& one : permit.left_out()) {
    route.share_key += std::to_string(one.member.id) + ',';
    route.left_out.emplace_back(one.member.name, one.cause);
    out.push_back(one.member.id);
  }
  if (out.empty()) {
    return;
  }
  route.members = [all = std::move(route.members), out = std::move(out)] {
    std::vector<Member> members = all();
    std::erase_if(members, [&out](const Member& member) {
      return std::find(out.begin(), out.end(), member.id) != out.end();
    });
    return members;
  };
}

}  // namespace

std::unique_ptr<http::RequestHandler> answer_reviewed(MergeLoop& shared, http::RequestHead head,
                                                      http::ResponseStream& stream,
                                                      MergeRoute route, MergeQuery query,
                                                      std::string accept) {
  auto permit =
      std::make_shared<Permit>(shared.reviewer, route.reviews, route.members, query.partial);
  const std::string target = route.path;
  auto asked =
      std::make_shared<std::pair<MergeRoute, MergeQuery>>(std::move(route), std::move(query));
  auto read = std::make_unique<ReviewedRead>(
      shared, std::move(head), stream, target, std::move(permit),
      [&shared, &stream, asked, accept = std::move(accept)](
          http::RequestHead own,
          const std::shared_ptr<Permit>& given) -> std::unique_ptr<http::RequestHandler> {
        auto& [to, with] = *asked;
        with.passed_on = reviewed_query(with, to.info);
        to.reviews = nullptr;
        to.reviewed = true;
        leave_out(*given, to);
        if (!with.watch) {
          return make_merged_list(shared.lists, std::move(own), stream, std::move(to),
                                  std::move(with), accept);
        }
        given->keep();
        return make_merged_watch(shared.watches, std::move(own), stream, std::move(to),
                                 std::move(with), accept, given);
      });
  read->start();
  return read;
}

std::unique_ptr<http::RequestHandler> answer_reviewed_document(
    MergeLoop& shared, DocumentLoop& documents, http::RequestHead head,
    http::ResponseStream& stream, DocumentRoute route, std::shared_ptr<const ReviewPlan> reviews,
    std::function<std::vector<Member>()> members) {
  auto permit =
      std::make_shared<Permit>(shared.reviewer, std::move(reviews), std::move(members), false);
  const std::string target = route.sources.front().target;
  auto read = std::make_unique<ReviewedRead>(
      shared, std::move(head), stream, target, std::move(permit),
      [&documents, &stream, kept = std::make_shared<DocumentRoute>(std::move(route))](
          http::RequestHead own, const std::shared_ptr<Permit>& /*given*/) {
        kept->reviewed = true;
        return answer_document(documents, std::move(own), stream, std::move(*kept));
      });
  read->start();
  return read;
}

bool is_plain_segment(std::string_view text) noexcept {
  return !text.empty() && text != "." && text != ".." &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '-' || c == '.' || c == '_' || c == ':';
         });
}

std::string canonical_path(const krm::RequestInfo& info) {
  std::string path = info.group.empty() ? "/api" : "/apis/" + info.group;
  path += '/' + info.version;
  if (!info.ns.empty()) {
    path += "/namespaces/" + info.ns;
  }
  return path + '/' + info.resource;
}

std::string reviewed_query(const MergeQuery& query, const krm::RequestInfo& info) {
  std::string out;
  const auto add = [&out](std::string_view key, std::string_view value) {
    if (!value.empty()) {
      out += '&' + std::string(key) + '=' + percent_encode(value);
    }
  };
  add("labelSelector", query.label_selector);
  add("fieldSelector", query.field_selector);
  add("shardSelector", query.shard_selector);
  for (const std::string_view key : {"includeObject", "pretty"}) {
    add(key, info.query.get(key).value_or(""));
  }
  return out;
}

}  // namespace kintsugi::aggregation
