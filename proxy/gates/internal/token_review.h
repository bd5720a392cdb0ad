#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "http/handler.h"
#include "proxy/gates/workspace_issuers.h"
#include "proxy/routing/request.h"

namespace kintsugi::proxy {

/// True for the creation of a TokenReview (v1, JSON), which only the shard may judge; what it does
/// not know may be a token of the workspace's issuers.
[[nodiscard]] bool is_token_review(const Request& request);

/// A TokenReview on its way to the shard, whose "not authenticated" is asked of the workspace's own
/// issuers (FP-077). Anything else that the shard answers stays as it is. Threads: its loop.
class TokenReviewRequest final : public http::ResponseStream, public http::RequestHandler {
 public:
  using Begin = std::function<std::unique_ptr<http::RequestHandler>(Request&& request,
                                                                    http::ResponseStream& stream)>;
  static constexpr std::size_t kMaxBody = 256U << 10;  ///< larger ones are not looked at [bytes]

  /// @param begin how the request goes on; its answer comes to this.
  TokenReviewRequest(std::shared_ptr<WorkspaceTokens> tokens, std::string cluster,
                     Request&& request, http::ResponseStream& stream, const Begin& begin);
  ~TokenReviewRequest() override { *self_ = nullptr; }

  void send_head(int status, const http::HeaderList& headers, bool end) noexcept override;
  void send_data(std::string_view bytes, bool end) noexcept override;
  void send_data(SharedBytes bytes, bool end) noexcept override { send_data(bytes.view(), end); }
  void send_trailers(const http::HeaderList& trailers) noexcept override;
  void reset(Errc cause) noexcept override { stream_.reset(cause); }
  void consume(std::size_t bytes) noexcept override { stream_.consume(bytes); }
  [[nodiscard]] std::size_t unsent_bytes() const noexcept override {
    return stream_.unsent_bytes();
  }
  [[nodiscard]] const http::PeerInfo& peer() const noexcept override { return stream_.peer(); }
  void close_connection_after() noexcept override { stream_.close_connection_after(); }

  void on_data(std::string_view bytes, bool end) noexcept override;
  void on_trailers(http::HeaderList trailers) noexcept override {
    inner_->on_trailers(std::move(trailers));
  }
  void on_drained() noexcept override { inner_->on_drained(); }
  void on_close(Errc cause) noexcept override {
    closed_ = true;
    inner_->on_close(cause);
  }

 private:
  void judge();
  void finish(std::string body);

  std::shared_ptr<WorkspaceTokens> tokens_;
  std::string cluster_;
  http::ResponseStream& stream_;
  std::unique_ptr<http::RequestHandler> inner_;
  std::shared_ptr<TokenReviewRequest*> self_;
  std::string asked_, answer_;
  int status_ = 0;
  http::HeaderList headers_;
  bool held_ = false;  ///< the answer's head waits here
  bool closed_ = false;
};

}  // namespace kintsugi::proxy
