#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "http/handler.h"
#include "net/loop.h"
#include "net/upstream.h"
#include "shards/shard_client.h"

namespace kintsugi::proxy {

/// A GET to one shard on behalf of a merged read; the other half of flow control is the caller's.
/// Threads: its loop.
class MemberCall final : private http::ResponseHandler {
 public:
  /// Gets what comes back. None of these may destroy the call; they may close() it.
  class Listener {
   public:
    virtual void on_head(const http::ResponseHead& head) noexcept = 0;
    /// The caller gives credit for the bytes (consume) when it is done with them.
    virtual void on_data(std::string_view bytes) noexcept = 0;
    /// Once, last. kOk: the body is complete.
    virtual void on_end(Errc cause) noexcept = 0;

   protected:
    ~Listener() = default;
  };

  explicit MemberCall(Listener& listener) : listener_(listener) {}
  ~MemberCall() override { close(); }
  MemberCall(const MemberCall&) = delete;
  MemberCall& operator=(const MemberCall&) = delete;

  /// Sends the request; on_end comes later if it cannot be sent. @param head its target is below
  /// the shard's base URL. @return false: the shard is down, nothing comes.
  [[nodiscard]] bool open(shards::ShardClient& client, net::UpstreamClass kind,
                          http::RequestHead head);
  /// Nothing comes any more.
  void close() noexcept;
  [[nodiscard]] bool running() const noexcept { return stream_ != nullptr; }
  void consume(std::size_t bytes) noexcept {
    if (stream_ != nullptr && bytes > 0) {
      stream_->consume(bytes);
    }
  }

 private:
  void on_head(http::ResponseHead head, bool end) noexcept override;
  void on_data(std::string_view bytes, bool end) noexcept override;
  void on_close(Errc cause) noexcept override;

  Listener& listener_;
  shards::ShardClient* client_ = nullptr;
  http::RequestStream* stream_ = nullptr;
  bool complete_ = false;  // END_STREAM was seen
};

}  // namespace kintsugi::proxy
