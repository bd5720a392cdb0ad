#include "store/etcd/internal/client.h"

#include <chrono>
#include <utility>

#include "base/guard.h"
#include "http/handler.h"

namespace kintsugi::store::etcd {
namespace {

constexpr std::size_t kMostAnswer = std::size_t{32} << 20U;
constexpr std::size_t kMostWatchMessage = std::size_t{8} << 20U;
constexpr std::string_view kWatchMethod = "/etcdserverpb.Watch/Watch";

http::RequestHead make_head(std::string method, const std::string& token) {
  http::RequestHead head;
  head.method = "POST";
  head.target = std::move(method);
  head.headers.add("content-type", "application/grpc");
  head.headers.add("te", "trailers");
  head.headers.add("user-agent", "kintsugi");
  if (!token.empty()) {
    head.headers.add("token", token);
  }
  return head;
}

/// Keeps itself while a callback runs; whoever made it lets go with abandon().
class Exchange : public http::ResponseHandler, public std::enable_shared_from_this<Exchange> {
 public:
  Exchange(net::Loop& loop, std::size_t limit, std::function<void(Reply)> done)
      : loop_(loop), timer_(loop), frames_(limit), done_(std::move(done)) {}

  void start(net::Upstream& upstream, net::UpstreamClass kind, const http::RequestHead& head,
             std::string_view first, bool ends) {
    stream_ = &upstream.open(kind, head, *this);
    std::string frame;
    put_frame(frame, first);
    stream_->send_data(frame, ends);
  }
  void limit_to(Duration timeout) {
    timer_.start(timeout, [this] { give_up(Errc::kDeadline); });
  }
  void abandon() {
    abandoned_ = true;
    timer_.cancel();
    drop();
  }

  void on_head(http::ResponseHead head, bool end) noexcept final {
    if (head.status != 200) {
      give_up(Errc::kProtocol);
      return;
    }
    take_status(head.headers);
    if (end) {
      finish();
    }
  }
  void on_trailers(http::HeaderList trailers) noexcept final { take_status(trailers); }
  void on_data(std::string_view bytes, bool end) noexcept final {
    const auto self = shared_from_this();
    Expected<void> fed;
    if (!guarded("answer of etcd", [&] {
          fed = frames_.feed(bytes, [this](std::string_view message) {
            if (!abandoned_ && !ended_) {
              on_message(message);
            }
          });
        })) {
      give_up(Errc::kInternal);
    } else if (!fed) {
      give_up(fed.error().code());
    }
    unconsumed_ += bytes.size();
    credit();
    if (end) {
      finish();
    }
  }
  void on_close(Errc cause) noexcept final {
    stream_ = nullptr;
    reply_.transport = cause == Errc::kOk ? Errc::kProtocol : cause;
    end();
  }

 protected:
  virtual void on_message(std::string_view message) = 0;
  [[nodiscard]] virtual bool is_held() const { return false; }

  void credit() {
    if (stream_ != nullptr && unconsumed_ > 0 && !is_held()) {
      stream_->consume(std::exchange(unconsumed_, 0));
    }
  }
  void take_status(const http::HeaderList& fields) {
    if (const auto code = fields.get("grpc-status"); !code.empty()) {
      reply_.status = parse_status(code, fields.get("grpc-message"));
    }
  }
  void give_up(Errc cause) {
    drop();
    reply_.status.reset();
    reply_.transport = cause;
    end();
  }
  void finish() {
    if (!reply_.status) {
      reply_.transport = Errc::kProtocol;
    }
    end();
  }
  void end() {
    timer_.cancel();
    if (abandoned_ || std::exchange(ended_, true)) {
      return;
    }
    loop_.defer([weak = weak_from_this()] {
      if (const auto self = weak.lock(); self != nullptr && !self->abandoned_) {
        const auto done = std::exchange(self->done_, nullptr);
        done(std::move(self->reply_));
      }
    });
  }
  void drop() {
    if (stream_ != nullptr) {
      std::exchange(stream_, nullptr)->detach();
    }
  }

  net::Loop& loop_;
  net::Timer timer_;
  FrameReader frames_;
  std::function<void(Reply)> done_;
  http::RequestStream* stream_ = nullptr;
  Reply reply_;
  std::size_t unconsumed_ = 0;
  bool abandoned_ = false;
  bool ended_ = false;
};

class Unary final : public Exchange {
 public:
  Unary(net::Loop& loop, std::function<void(Reply)> done)
      : Exchange(loop, kMostAnswer, std::move(done)) {}

 private:
  void on_message(std::string_view message) override { reply_.message = message; }
};

class Watch final : public Exchange {
 public:
  Watch(net::Loop& loop, std::function<void(std::string_view)> on_message,
        std::function<void(Reply)> done)
      : Exchange(loop, kMostWatchMessage, std::move(done)), on_message_(std::move(on_message)) {}

  void send(std::string_view message) {
    if (stream_ != nullptr) {
      std::string frame;
      put_frame(frame, message);
      stream_->send_data(frame, false);
    }
  }
  void hold(bool held) {
    held_ = held;
    credit();
  }

 private:
  void on_message(std::string_view message) override { on_message_(message); }
  [[nodiscard]] bool is_held() const override { return held_; }

  std::function<void(std::string_view)> on_message_;
  bool held_ = false;
};

class CallHandle final : public net::Call {
 public:
  explicit CallHandle(std::shared_ptr<Exchange> exchange) : exchange_(std::move(exchange)) {}
  CallHandle(const CallHandle&) = delete;
  CallHandle& operator=(const CallHandle&) = delete;
  ~CallHandle() override { exchange_->abandon(); }

 private:
  std::shared_ptr<Exchange> exchange_;
};

class WatchHandle final : public WatchCall {
 public:
  explicit WatchHandle(std::shared_ptr<Watch> watch) : watch_(std::move(watch)) {}
  WatchHandle(const WatchHandle&) = delete;
  WatchHandle& operator=(const WatchHandle&) = delete;
  ~WatchHandle() override { watch_->abandon(); }
  void send(std::string_view message) override { watch_->send(message); }
  void hold(bool held) override { watch_->hold(held); }

 private:
  std::shared_ptr<Watch> watch_;
};

}  // namespace

std::string Reply::text() const {
  if (status) {
    return status->message.empty() ? "code " + std::to_string(static_cast<int>(status->code))
                                   : status->message;
  }
  return std::string(errc_name(transport));
}

Client::Client(net::Loop& loop, ClientParams params) : loop_(loop) {
  for (net::Url& url : params.endpoints) {
    net::UpstreamParams upstream;
    upstream.url = std::move(url);
    upstream.tls = params.tls;
    upstream.prior_knowledge = upstream.url.scheme == "http";
    upstream.max_connections = 1;
    upstream.queue_timeout = seconds(2);
    upstream.connect_timeout = seconds(2);
    upstream.tls_timeout = seconds(2);
    upstreams_.push_back(net::Upstream::make(loop, std::move(upstream)));
  }
}

Client::~Client() = default;

std::string Client::name(std::size_t member) const {
  return upstreams_[member]->params().url.authority();
}

std::unique_ptr<net::Call> Client::call(std::size_t member, CallRequest request,
                                        std::function<void(Reply)> done) {
  auto exchange = std::make_shared<Unary>(loop_, std::move(done));
  http::RequestHead head = make_head(std::move(request.method), token_);
  head.headers.add("grpc-timeout",
                   timeout_text(std::chrono::duration_cast<milliseconds>(request.timeout).count()));
  exchange->start(*upstreams_[member], request.kind, head, request.message, true);
  exchange->limit_to(request.timeout);
  return std::make_unique<CallHandle>(std::move(exchange));
}

std::unique_ptr<WatchCall> Client::watch(std::size_t member, std::string first,
                                         std::function<void(std::string_view)> on_message,
                                         std::function<void(Reply)> on_end) {
  auto watch = std::make_shared<Watch>(loop_, std::move(on_message), std::move(on_end));
  http::RequestHead head = make_head(std::string(kWatchMethod), token_);
  head.headers.add("hasleader", "true");
  watch->start(*upstreams_[member], net::UpstreamClass::kWatch, head, first, false);
  return std::make_unique<WatchHandle>(std::move(watch));
}

}  // namespace kintsugi::store::etcd
