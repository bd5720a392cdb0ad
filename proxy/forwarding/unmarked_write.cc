#include "proxy/forwarding/unmarked_write.h"

#include <optional>
#include <string>
#include <utility>

#include "aggregation/asking/shard_answer.h"
#include "aggregation/bytes/marker.h"
#include "base/guard.h"
#include "base/memory.h"
#include "base/strings.h"
#include "krm/request_info.h"
#include "serving/answer.h"

namespace kintsugi::proxy {
namespace {

constexpr std::string_view kProtobuf = "application/vnd.kubernetes.protobuf";

class UnmarkedWrite final : public http::RequestHandler, private net::BodyHold::Owner {
 public:
  UnmarkedWrite(ForwardLoop& shared, http::RequestHead head, http::ResponseStream& stream,
                shards::ShardClient& client)
      : shared_(shared),
        head_(std::move(head)),
        down_(stream),
        client_(client.handle()),
        hold_(std::make_unique<net::BodyHold>(shared.bodies,
                                              static_cast<net::BodyHold::Owner&>(*this))) {
    const auto length = parse_decimal(head_.headers.get("content-length"));
    if (length && *length > shared.limits.body_bytes) {
      refuse(serving::body_too_large(shared.limits.body_bytes));
    }
  }

  void on_data(std::string_view bytes, bool end) noexcept override {
    if (next_) {
      next_->on_data(bytes, end);
      return;
    }
    if (refused_) {
      down_.consume(bytes.size());
      return;
    }
    if (body_.size() + bytes.size() > shared_.limits.body_bytes) {
      down_.consume(bytes.size());
      refuse(serving::body_too_large(shared_.limits.body_bytes));
      return;
    }
    if (Expected<void> room = hold_->add(bytes.size()); !room) {
      refuse_body(room.error());
      return;
    }
    body_ += bytes;
    if (end) {
      hold_->finish();
      if (!guarded("unmarked write", [this] { go_on(); })) {
        down_.reset(Errc::kInternal);
      }
    }
  }
  void on_trailers(http::HeaderList /*trailers*/) noexcept override { on_data({}, true); }
  void on_drained() noexcept override {
    if (next_) {
      next_->on_drained();
    }
  }
  void on_close(Errc cause) noexcept override {
    refused_ = true;
    if (next_) {
      next_->on_close(cause);
    }
  }

 private:
  [[nodiscard]] net::BodyPayer body_payer() const override {
    return payer_of(shared_, down_.peer(), head_.headers);
  }
  void give_body_credit(std::size_t bytes) noexcept override { down_.consume(bytes); }
  void refuse_body(const Error& error) noexcept override {
    if (head_.version < 2) {
      down_.close_connection_after();
    }
    refuse(error);
  }

  void refuse(const Error& error) {
    refused_ = true;
    give_back(body_);
    hold_.reset();
    serving::send_error(down_, serving::AnswerForm::of(head_), error);
  }

  [[nodiscard]] bool remove_marker() {
    if (aggregation::media_type(head_.headers.get("content-type")) != kProtobuf) {
      return aggregation::remove_marker(body_);
    }
    auto bare = aggregation::protobuf_without_marker(body_);
    if (bare) {
      body_ = std::move(*bare);
    }
    return bare.has_value();
  }

  void go_on() {
    if (remove_marker() && head_.headers.contains("content-length")) {
      head_.headers.set("content-length", std::to_string(body_.size()));
    }
    if (shards::ShardClient* client = *client_) {
      next_ = forward_whole(shared_, std::move(head_), down_, *client, std::move(body_));
    } else {
      refused_ = true;
      serving::send_error(down_, serving::AnswerForm::of(head_), serving::shard_unreachable(false));
    }
  }

  ForwardLoop& shared_;
  http::RequestHead head_;
  http::ResponseStream& down_;
  shards::ShardClient::Handle client_;
  std::unique_ptr<net::BodyHold> hold_;  // until all is over: the body waits for the shard, too
  std::string body_;
  std::unique_ptr<http::RequestHandler> next_;
  bool refused_ = false;
};

}  // namespace

bool may_carry_marker(const http::RequestHead& head, std::string_view trail) {
  if ((head.method != "POST" && head.method != "PUT") || head.end_stream ||
      !head.protocol.empty()) {
    return false;
  }
  const std::string_view type = aggregation::media_type(head.headers.get("content-type"));
  if (!type.empty() && type != "application/json" && type != kProtobuf) {
    return false;
  }
  const krm::RequestInfo info = krm::parse_request_info(head.method, trail);
  return info.is_resource && info.subresource != "proxy";
}

std::unique_ptr<http::RequestHandler> forward_unmarked(ForwardLoop& shared, http::RequestHead head,
                                                       http::ResponseStream& stream,
                                                       shards::ShardClient& client) {
  return std::make_unique<UnmarkedWrite>(shared, std::move(head), stream, client);
}

}  // namespace kintsugi::proxy
