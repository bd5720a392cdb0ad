#include "apiserver/shard/shard_handler.h"

#include <optional>
#include <string_view>
#include <utility>

namespace kintsugi::apiserver {
namespace {

/// A request that is answered already; its body is thrown away.
class Answered final : public http::RequestHandler {
 public:
  explicit Answered(http::ResponseStream& stream) : stream_(stream) {}
  void on_data(std::string_view bytes, bool) noexcept override { stream_.consume(bytes.size()); }
  void on_close(Errc) noexcept override {}

 private:
  http::ResponseStream& stream_;
};

void send_text(http::ResponseStream& stream, const TextAnswer& answer) {
  http::HeaderList headers;
  headers.add("content-type", "text/plain; charset=utf-8");
  headers.add("x-content-type-options", "nosniff");
  headers.add("cache-control", "no-cache, private");
  headers.add("content-length", std::to_string(answer.text.size()));
  if (answer.retry_after > 0) {
    headers.add("retry-after", std::to_string(answer.retry_after));
  }
  stream.send_head(answer.status, headers, false);
  stream.send_data(answer.text, true);
}

}  // namespace

std::unique_ptr<http::RequestHandler> ShardHandler::on_request(
    http::RequestHead head, http::ResponseStream& stream) noexcept {
  if (!hides_existence_) {
    if (const std::optional<TextAnswer> answer = text_answer(index_, head.target)) {
      send_text(stream, *answer);
      return std::make_unique<Answered>(stream);
    }
    if (std::optional<std::string> health = health_target(index_, head.target)) {
      head.target = std::move(*health);
      return server_.on_request(std::move(head), stream);
    }
  }
  if (std::optional<std::string> plain = without_identity(head.target, is_identity_)) {
    head.target = std::move(*plain);
  }
  return server_.on_request(std::move(head), stream);
}

}  // namespace kintsugi::apiserver
