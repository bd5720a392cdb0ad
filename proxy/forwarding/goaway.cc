#include "proxy/forwarding/goaway.h"

#include <utility>

namespace kintsugi::proxy {

/// Keeps its connection from being told to go.
class GoawayHandler::LongRequest final : public http::RequestHandler {
 public:
  LongRequest(GoawayHandler& owner, const http::PeerInfo& peer) : owner_(owner), peer_(&peer) {
    ++owner_.long_[peer_];
  }
  ~LongRequest() override {
    const auto found = owner_.long_.find(peer_);
    if (--found->second == 0) {
      owner_.long_.erase(found);
    }
  }
  void begin(Request&& request, http::ResponseStream& stream) {
    inner_ = owner_.inner_.on_request(std::move(request), stream);
  }
  void on_data(std::string_view bytes, bool end) noexcept override { inner_->on_data(bytes, end); }
  void on_trailers(http::HeaderList trailers) noexcept override {
    inner_->on_trailers(std::move(trailers));
  }
  void on_drained() noexcept override { inner_->on_drained(); }
  void on_close(Errc cause) noexcept override { inner_->on_close(cause); }

 private:
  GoawayHandler& owner_;
  const http::PeerInfo* peer_;
  std::unique_ptr<http::RequestHandler> inner_;
};

GoawayHandler::GoawayHandler(double chance, RoutedHandler& inner, std::uint64_t seed)
    : inner_(inner), chance_(chance), random_(seed) {}

std::unique_ptr<http::RequestHandler> GoawayHandler::on_request(
    Request&& request, http::ResponseStream& stream) noexcept {
  if (chance_ <= 0) {
    return inner_.on_request(std::move(request), stream);
  }
  if (!request.head.protocol.empty() || request.target.is_watch) {
    auto answered = std::make_unique<LongRequest>(*this, stream.peer());
    answered->begin(std::move(request), stream);
    return answered;
  }
  if (request.head.version == 2 && dice_(random_) < chance_ && !long_.contains(&stream.peer())) {
    ++told_;
    stream.close_connection_after();  // this request runs and is the last
  }
  return inner_.on_request(std::move(request), stream);
}

}  // namespace kintsugi::proxy
