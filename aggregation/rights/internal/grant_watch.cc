#include "aggregation/rights/internal/grant_watch.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "aggregation/asking/jitter.h"
#include "aggregation/bytes/watch_coding.h"
#include "krm/json.h"
#include "shards/own_requests.h"

namespace kintsugi::aggregation {
namespace {

constexpr std::string_view kGroup = "/apis/rbac.authorization.k8s.io/v1/";
constexpr std::array<std::string_view, 4> kKinds = {"clusterrolebindings", "rolebindings",
                                                    "clusterroles", "roles"};
constexpr Duration kLeastBackoff = milliseconds(100);
constexpr Duration kMostBackoff = seconds(30);
constexpr Duration kNotAllowed = seconds(60);  ///< between attempts where it may not read them

/// Nothing but metadata, where the server can leave the rest out.
constexpr std::string_view kMetadata =
    "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io, application/json";
constexpr std::string_view kMetadataList =
    "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io, application/json";

net::FetchRequest get(std::string target, std::string_view accept, net::UpstreamClass kind) {
  net::FetchRequest request;
  request.target = std::move(target);
  request.headers.add("accept", accept);
  request.kind = kind;
  return request;
}

}  // namespace

GrantWatch::GrantWatch(net::Loop& loop, std::function<shards::ShardClient*()> find,
                       std::string prefix, std::function<void()> changed)
    : loop_(loop), find_(std::move(find)), changed_(std::move(changed)) {
  for (std::size_t i = 0; i < kKinds.size(); ++i) {
    Line& line = lines_[i];
    line.path = prefix + std::string(kGroup) + std::string(kKinds[i]);
    line.timer = net::Timer(loop_);
    line.backoff = kLeastBackoff;
    list(line);
  }
}

net::Upstream* GrantWatch::open(Line& line, net::FetchRequest& request) {
  shards::ShardClient* client = find_();
  if (client == nullptr || client->upstream() == nullptr || !client->admit()) {
    fail(line);
    return nullptr;
  }
  client->dress(request.headers);
  return client->upstream();
}

void GrantWatch::list(Line& line) {
  net::FetchRequest request = get(line.path + "?limit=1", kMetadataList, net::UpstreamClass::kRead);
  net::Upstream* upstream = open(line, request);
  if (upstream == nullptr) {
    return;
  }
  line.call = shards::own_fetch(
      loop_, *upstream, std::move(request), [this, &line](Expected<net::FetchResponse> answer) {
        line.call.reset();
        if (!answer || answer->status == 429 || answer->status >= 500) {
          fail(line);
          return;
        }
        const auto list = krm::Json::parse(answer->body);
        const std::string revision(list ? list->text({"metadata", "resourceVersion"}) : "");
        if (answer->status != 200 || revision.empty()) {
          rest(line, about(kNotAllowed));
          return;
        }
        watch(line, revision);
        changed_();
      });
}

void GrantWatch::watch(Line& line, const std::string& revision) {
  net::FetchRequest request = get(line.path + "?watch=true&resourceVersion=" + revision, kMetadata,
                                  net::UpstreamClass::kWatch);
  net::Upstream* upstream = open(line, request);
  if (upstream == nullptr) {
    return;
  }
  net::StreamCallbacks callbacks;
  callbacks.on_head = [this, &line](const http::ResponseHead& head) {
    if (head.status == 200) {
      line.backoff = kLeastBackoff;
    } else {
      line.call.reset();
      rest(line, about(head.status == 410 || head.status >= 500 ? kMostBackoff : kNotAllowed));
    }
  };
  callbacks.on_data = [this, &line](std::string_view bytes) { take(line, bytes); };
  callbacks.on_end = [this, &line](Errc) {
    line.call.reset();
    fail(line);
  };
  line.events = EventSplitter(kMaxEvent);
  line.call = shards::own_stream(loop_, *upstream, std::move(request), std::move(callbacks));
}

void GrantWatch::take(Line& line, std::string_view bytes) {
  bool changed = false;
  const auto fault = line.events.feed(bytes, [&changed](std::string_view event) {
    const auto facts = json_coding().facts(event);
    changed = changed || !facts || facts->type != EventType::kBookmark;
  });
  if (fault != EventSplitter::Fault::kNone) {  // from the beginning
    line.call.reset();
    fail(line);
  }
  if (changed) {
    changed_();
  }
}

void GrantWatch::rest(Line& line, Duration wait) {
  line.timer.start(wait, [this, &line] { list(line); });
}

void GrantWatch::fail(Line& line) {
  rest(line, jittered(line.backoff));
  line.backoff = std::min(line.backoff * 2, kMostBackoff);
}

}  // namespace kintsugi::aggregation
