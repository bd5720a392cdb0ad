#include "proxy/unmarked_write.h"

#include <optional>
#include <string>
#include <utility>

#include "base/memory.h"
#include "krm/request_info.h"
#include "proxy/answer.h"
#include "proxy/merge/marker.h"
#include "proxy/merge/shard_answer.h"

namespace kintsugi::proxy {
namespace {

constexpr std::string_view kProtobuf = "application/vnd.kubernetes.protobuf";

class UnmarkedWrite final : public http::RequestHandler {
 public:
  UnmarkedWrite(ForwardLoop& shared, http::RequestHead head, http::ResponseStream& stream,
                shards::ShardClient& client)
      : shared_(shared), head_(std::move(head)), down_(stream), client_(client.handle()) {}

  void on_data(std::string_view bytes, bool end) noexcept override {
    if (next_) {
      next_->on_data(bytes, end);
      return;
    }
    down_.consume(bytes.size());
    if (refused_) {
      return;
    }
    if (body_.size() + bytes.size() > shared_.limits.body_bytes) {
      refused_ = true;
      give_back(body_);
      send_error(down_, AnswerForm::of(head_), body_too_large(shared_.limits.body_bytes));
      return;
    }
    body_ += bytes;
    if (end) {
      go_on();
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
  void go_on() {
    const bool binary = media_type(head_.headers.get("content-type")) == kProtobuf;
    if (auto bare = binary ? protobuf_without_marker(body_) : without_marker(body_)) {
      body_ = std::move(*bare);
      if (head_.headers.contains("content-length")) {
        head_.headers.set("content-length", std::to_string(body_.size()));
      }
    }
    if (shards::ShardClient* client = *client_) {
      next_ = forward_whole(shared_, std::move(head_), down_, *client, std::move(body_));
    } else {
      refused_ = true;
      send_error(down_, AnswerForm::of(head_), shard_unreachable(false));
    }
  }

  ForwardLoop& shared_;
  http::RequestHead head_;
  http::ResponseStream& down_;
  shards::ShardClient::Handle client_;
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
  const std::string_view type = media_type(head.headers.get("content-type"));
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
