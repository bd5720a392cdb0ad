#include "aggregation/list/shard_pages.h"

#include <utility>

#include "base/strings.h"

namespace kintsugi::aggregation {
namespace {

constexpr std::size_t kMaxErrorBody = 64U << 10;

}  // namespace

ShardPages::ShardPages(Asking& shared, Listener& listener, topology::ShardId shard,
                       ShardQuestion& question, ListQuery query)
    : shared_(shared),
      listener_(listener),
      shard_(shard),
      question_(question),
      query_(std::move(query)),
      call_(shared.loop, *this),
      reader_(shared.params.max_event) {}

bool ShardPages::start() { return ask({}); }

bool ShardPages::ask(const std::string& token) {
  http::RequestHead head =
      query_.probe
          ? question_.probe()
          : question_.list(query_.query,
                           token.empty() ? query_.first : "&continue=" + percent_encode(token),
                           query_.path);
  reader_.begin(false);
  good_ = false;
  answer_ = {};
  body_.clear();
  return ask_shard(shared_, question_.route, shard_, net::UpstreamClass::kRead, std::move(head),
                   call_)
      .empty();
}

std::uint64_t ShardPages::revision() const noexcept {
  return parse_decimal(envelope().resource_version).value_or(0);
}

void ShardPages::on_head(const http::ResponseHead& head) {
  answer_ = head;
  const WatchCoding* coding = coding_of(head.headers.get("content-type"));
  if (head.status != 200 || coding == nullptr) {
    return;
  }
  if (query_.probe) {
    good_ = !coding->protobuf;
    return;
  }
  if (question_.shape.coding == nullptr) {
    question_.shape.coding = coding;
  }
  good_ = coding == question_.shape.coding;
  reader_.begin(coding->protobuf);
}

void ShardPages::on_data(std::string_view bytes) {
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
  broken_ = reader_.feed(bytes, taken) != ListReader::Fault::kNone || broken_;
  if (call_.running()) {
    listener_.on_bytes(bytes.size());
  }
}

void ShardPages::on_end(Errc cause) {
  if (cause == Errc::kOk && !good_) {
    listener_.on_pages_end(answer_.status == 200 ? End::kBroken : End::kRefused);
    return;
  }
  if (cause != Errc::kOk || broken_ || !reader_.done()) {
    listener_.on_pages_end(End::kBroken);
    return;
  }
  const std::string token = envelope().continue_token;
  if (token.empty() || query_.probe) {
    listener_.on_pages_end(End::kDone);
  } else if (!ask(token)) {
    listener_.on_pages_end(End::kBroken);
  }
}

}  // namespace kintsugi::aggregation
