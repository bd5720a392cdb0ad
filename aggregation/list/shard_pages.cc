#include "aggregation/list/shard_pages.h"

#include <utility>

#include "aggregation/list/list_accept.h"
#include "aggregation/merge_query.h"
#include "base/strings.h"

namespace kintsugi::aggregation {
namespace {

constexpr std::size_t kMaxErrorBody = 64U << 10;

}  // namespace

ShardPages::ShardPages(MergeLoop& shared, Listener& listener, topology::ShardId shard,
                       const http::RequestHead& head, const MergeRoute& route, StreamShape& shape,
                       std::string query, std::string first)
    : shared_(shared),
      listener_(listener),
      shard_(shard),
      head_(head),
      route_(route),
      shape_(shape),
      query_(std::move(query)),
      first_(std::move(first)),
      call_(shared.loop, *this),
      splitter_(shared.params.max_event),
      messages_(shared.params.max_event) {}

bool ShardPages::start() { return ask({}); }

bool ShardPages::ask(const std::string& token) {
  http::RequestHead head = head_;
  std::string query = query_;
  query += token.empty() ? first_ : "&continue=" + percent_encode(token);
  if (!query.empty()) {
    query.front() = '?';
  }
  head.target = route_.path + query;
  const std::string accept = list_accept(head_.headers.get("accept"));
  head.headers.set(
      "accept", shape_.coding == nullptr ? accept : accept_only(accept, shape_.coding->media_type));
  splitter_ = ListSplitter(shared_.params.max_event);
  messages_ = ProtoListSplitter(shared_.params.max_event);
  good_ = false;
  answer_ = {};
  body_.clear();
  shards::ShardClient* client = client_of(shared_, route_, shard_);
  return client != nullptr && call_.open(*client, net::UpstreamClass::kRead, std::move(head));
}

std::uint64_t ShardPages::revision() const noexcept {
  return parse_decimal(envelope().resource_version).value_or(0);
}

void ShardPages::on_head(const http::ResponseHead& head) noexcept {
  answer_ = head;
  const WatchCoding* coding = coding_of(head.headers.get("content-type"));
  if (head.status == 200 && coding != nullptr && shape_.coding == nullptr) {
    shape_.coding = coding;
  }
  good_ = head.status == 200 && coding != nullptr && coding == shape_.coding;
}

void ShardPages::on_data(std::string_view bytes) noexcept {
  if (!good_) {
    call_.consume(bytes.size());
    if (body_.size() < kMaxErrorBody) {
      body_ += bytes;
    }
    return;
  }
  const auto taken = [this](std::string_view item) {
    if (call_.running()) {
      ++items_;
      listener_.on_item(item, envelope());
    }
  };
  const ListSplitter::Fault fault =
      is_protobuf() ? messages_.feed(bytes, taken) : splitter_.feed(bytes, taken);
  broken_ = broken_ || fault != ListSplitter::Fault::kNone;
  if (call_.running()) {
    listener_.on_bytes(bytes.size());
  }
}

void ShardPages::on_end(Errc cause) noexcept {
  if (cause == Errc::kOk && !good_) {
    listener_.on_pages_end(answer_.status == 200 ? End::kBroken : End::kRefused);
    return;
  }
  if (cause != Errc::kOk || broken_ || !(is_protobuf() ? messages_.done() : splitter_.done())) {
    listener_.on_pages_end(End::kBroken);
    return;
  }
  const std::string token = envelope().continue_token;
  if (token.empty()) {
    listener_.on_pages_end(End::kDone);
  } else if (!ask(token)) {
    listener_.on_pages_end(End::kBroken);
  }
}

}  // namespace kintsugi::aggregation
