#include "proxy/gates/bind_check.h"

#include <algorithm>
#include <string_view>

#include "base/strings.h"
#include "krm/names.h"
#include "krm/status.h"
#include "net/upstream.h"
#include "shards/own_requests.h"
#include "topology/resolver.h"

namespace kintsugi::proxy {
namespace {

Error refused(const BindCheck::Question& question) {
  const std::string reference =
      question.path.empty() ? question.name : question.path + ":" + question.name;
  return krm::forbidden(
      "apis.kcp.io", "apiexportendpointslices", question.slice_name,
      "unable to create APIExportEndpointSlice: no permission to bind to export " + reference);
}

/// Of some object: what a path may name.
bool is_name(std::string_view text) noexcept {
  return krm::is_path_segment_name(text) &&
         std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < '\x7f'; });
}

Error not_knowable() { return krm::unavailable("the export cannot be looked up now", 1); }

}  // namespace

struct BindCheck::Running {
  Question question;
  std::string export_cluster;
  std::function<void(Expected<void>)> done;
  std::unique_ptr<net::Call> call;
};

BindCheck::BindCheck(net::Loop& loop, std::shared_ptr<topology::SnapshotView> view,
                     FindReviewTarget find, ShardReviews& reviews)
    : loop_(loop), view_(std::move(view)), find_(std::move(find)), reviews_(reviews) {}
BindCheck::~BindCheck() = default;

void BindCheck::check(Question question, std::function<void(Expected<void>)> done) {
  const topology::Resolution target =
      topology::resolve(view_->current(), question.path.empty() ? question.cluster : question.path);
  if (!target.resolved()) {
    const bool unknown = target.kind == topology::Resolution::Kind::kNotKnown;
    done(fail(unknown ? not_knowable() : refused(question)));
    return;
  }
  if (!is_name(question.name)) {  // nobody is asked for what cannot be
    question.path.empty() ? done({}) : done(fail(refused(question)));
    return;
  }
  auto where = find_(target.cluster);
  if (!where) {
    done(fail(not_knowable()));
    return;
  }
  auto running = std::make_shared<Running>();
  running->question = std::move(question);
  running->export_cluster = target.cluster;
  running->done = std::move(done);
  running_.emplace(running.get(), running);
  net::FetchRequest request;
  request.target = where->base_target + "/apis/apis.kcp.io/v1alpha2/apiexports/" +
                   percent_encode(running->question.name);
  request.headers.add("accept", "application/json");
  request.timeout = seconds(5);
  Running* raw = running.get();
  running->call = shards::own_fetch(
      loop_, *where->upstream, std::move(request),
      [this, raw](Expected<net::FetchResponse> response) {
        const auto found = running_.find(raw);
        const std::shared_ptr<Running> self = found->second;
        running_.erase(found);
        if (!response || response->status >= 500 || response->status == 429) {
          self->done(fail(not_knowable()));
        } else if (response->status == 200) {
          review(self);
        } else if (response->status == 404 && self->question.path.empty()) {
          self->done({});  // a slice may come before the export of its own cluster
        } else {
          self->done(fail(refused(self->question)));
        }
        // The call is running: it dies with the last reference, outside of this
        // callback.
        loop_.defer([self] { (void)self; });
      });
}

void BindCheck::review(const std::shared_ptr<Running>& running) {
  auth::Attributes attributes;
  attributes.user = running->question.user;
  attributes.cluster = running->export_cluster;
  attributes.verb = "bind";
  attributes.group = "apis.kcp.io";
  attributes.version = "v1alpha1";
  attributes.resource = "apiexports";
  attributes.name = running->question.name;
  reviews_.authorize_deep(attributes, [running](Expected<auth::Decision> decision) {
    if (decision && decision->allowed) {
      running->done({});
    } else if (!decision && decision.error().code() == Errc::kUnavailable) {
      running->done(fail(not_knowable()));
    } else {
      running->done(fail(refused(running->question)));
    }
  });
}

}  // namespace kintsugi::proxy
