#include "aggregation/list/list_probe.h"

#include <utility>

#include "aggregation/list/list_accept.h"
#include "aggregation/watch/jitter.h"

namespace kintsugi::aggregation {
namespace {

constexpr std::string_view kProtobuf = "application/vnd.kubernetes.protobuf";

}  // namespace

ListProbe::ListProbe(MergeLoop& shared, const http::RequestHead& head, const MergeRoute& route,
                     std::string passed_on, std::optional<topology::ShardId> shard,
                     std::function<void(const ListEnvelope&)> known)
    : shared_(shared),
      head_(head),
      route_(route),
      passed_on_(std::move(passed_on)),
      shard_(shard),
      known_(std::move(known)),
      call_(shared.loop, *this),
      splitter_(shared.params.max_event),
      retry_(shared.loop) {}

void ListProbe::start() {
  splitter_ = ListSplitter(shared_.params.max_event);
  good_ = false;
  const std::vector<Member> members = route_.members();
  http::RequestHead head = head_;
  head.target = route_.path + "?limit=1" + passed_on_;
  std::string accept =
      list_accept(head_.headers.get("accept"));  // the same representation, as JSON
  for (std::size_t at; (at = accept.find(kProtobuf)) != std::string::npos;) {
    accept.replace(at, kProtobuf.size(), "application/json");
  }
  head.headers.set("accept", accept);
  if (!shard_ && members.empty()) {
    retry_.start(about(seconds(2)), [this] { start(); });
    return;
  }
  shards::ShardClient* client =
      client_of(shared_, route_, shard_ ? *shard_ : members[next_++ % members.size()].id);
  if (client == nullptr || !call_.open(*client, net::UpstreamClass::kRead, std::move(head))) {
    retry_.start(about(seconds(2)), [this] { start(); });
  }
}

void ListProbe::on_data(std::string_view bytes) noexcept {
  call_.consume(bytes.size());
  good_ = good_ && splitter_.feed(bytes, [](std::string_view) {}) == ListSplitter::Fault::kNone;
}

void ListProbe::on_end(Errc cause) noexcept {
  const ListEnvelope& list = splitter_.envelope();
  if (cause != Errc::kOk || !good_ || !splitter_.done() || list.kind.empty()) {
    retry_.start(about(seconds(2)), [this] { start(); });
    return;
  }
  known_(list);
}

}  // namespace kintsugi::aggregation
