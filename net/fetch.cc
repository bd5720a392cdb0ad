#include <algorithm>
#include <charconv>
#include <utility>

#include "base/guard.h"
#include "base/strings.h"
#include "base/trace.h"
#include "net/upstream.h"

namespace kintsugi::net {
namespace {

constexpr std::size_t kMaxBody = 64U << 20;
constexpr unsigned kMostRepeats = 2;
constexpr Duration kRepeatPause = milliseconds(25);

http::RequestHead make_head(const Upstream& upstream, const FetchRequest& request) {
  const Url& url = upstream.params().url;
  http::RequestHead head;
  head.method = request.method;
  head.scheme = url.scheme;
  head.authority = url.authority();
  head.target = url.path + (request.target.empty() ? "/" : request.target);
  head.headers = request.headers;
  head.end_stream = request.body.empty();
  if (!head.end_stream && !head.headers.contains("content-length")) {
    head.headers.add("content-length", std::to_string(request.body.size()));
  }
  return head;
}

/// Owns itself together with the Call: callbacks keep it alive while they run, the user's Call lets
/// go of it.
class Exchange : public http::ResponseHandler, public std::enable_shared_from_this<Exchange> {
 public:
  explicit Exchange(Loop& loop) : loop_(loop), timer_(loop) {}

  void start(Upstream& upstream, FetchRequest request) {
    name_ = request.method + " " + upstream.params().url.authority() + request.target;
    upstream_ = &upstream;
    if (const TraceParent* const trace = is_tracing() ? current_trace() : nullptr;
        trace != nullptr && !request.headers.contains("traceparent")) {
      request.headers.add("traceparent", trace_parent_text(*trace));
    }
    timer_.start(request.timeout + upstream.round_trip(), [this] { abort(Errc::kDeadline); });
    send(request);
    if (collects() && (request.repeatable || request.method == "GET" || request.method == "HEAD")) {
      repeat_ = std::make_unique<Repeat>(loop_, std::move(request));
    }
  }

  /// The Call died: nothing is reported any more.
  void abandon() {
    abandoned_ = true;
    timer_.cancel();
    repeat_.reset();
    drop();
    release_user();
  }

  void on_close(Errc cause) noexcept final {
    stream_ = nullptr;
    if (!finished_ && goes_elsewhere(cause)) {
      return;
    }
    if (cause != Errc::kOk && !finished_ && upstream_ != nullptr &&
        (cause == Errc::kTls || cause == Errc::kUnreachable || cause == Errc::kRefused)) {
      why_ = upstream_->last_failure();
    }
    end(finished_ ? Errc::kOk : cause == Errc::kOk ? Errc::kProtocol : cause);
  }

 protected:
  virtual void report(Errc cause) = 0;
  virtual void release_user() = 0;
  /// The user gets the answer when it is whole: what has come of one may be forgotten.
  [[nodiscard]] virtual bool collects() const { return false; }
  virtual void forget() {}

  void abort(Errc cause) {
    repeat_.reset();
    drop();
    end(cause);
  }
  void end(Errc cause) {
    timer_.cancel();
    if (abandoned_ || std::exchange(ended_, true)) {
      return;
    }
    // After the turn's callbacks, so that the user may destroy anything.
    loop_.defer([weak = weak_from_this(), cause] {
      if (const auto self = weak.lock(); self != nullptr && !self->abandoned_) {
        self->report(cause);
      }
    });
  }
  void drop() {
    if (stream_ != nullptr) {
      std::exchange(stream_, nullptr)->detach();
    }
  }
  [[nodiscard]] std::string describe(Errc cause) const {
    return name_ + ": " + (why_.empty() ? std::string(errc_name(cause)) : why_);
  }

  /// What may be sent again.
  struct Repeat {
    Repeat(Loop& loop, FetchRequest asked) : request(std::move(asked)), timer(loop) {}
    FetchRequest request;
    Timer timer;
    unsigned count = 0;
  };

  void send(const FetchRequest& request) {
    stream_ = &upstream_->open(request.kind, make_head(*upstream_, request), *this);
    if (!request.body.empty()) {
      stream_->send_data(request.body, true);
    }
  }

  /// True: the request is sent again a little later.
  [[nodiscard]] bool goes_elsewhere(Errc cause) {
    const bool lost = cause != Errc::kOk && cause != Errc::kCancelled && cause != Errc::kBadRequest;
    if (!lost || repeat_ == nullptr || abandoned_ || ended_ || repeat_->count == kMostRepeats) {
      return false;
    }
    Upstream::Handle others = upstream_->elsewhere();
    if (others == nullptr) {
      return false;
    }
    repeat_->timer.start(kRepeatPause * ++repeat_->count, [this, others = std::move(others)] {
      upstream_ = *others;
      if (upstream_ == nullptr) {
        end(Errc::kCancelled);
        return;
      }
      forget();
      send(repeat_->request);
    });
    return true;
  }

  Loop& loop_;
  Timer timer_;
  std::unique_ptr<Repeat> repeat_;
  Upstream* upstream_ = nullptr;
  http::RequestStream* stream_ = nullptr;
  std::string name_, why_;
  bool finished_ = false;  // the response is complete
  bool abandoned_ = false;
  bool ended_ = false;
};

class Fetch final : public Exchange {
 public:
  Fetch(Loop& loop, std::function<void(Expected<FetchResponse>)> done)
      : Exchange(loop), done_(std::move(done)) {}

  void on_head(http::ResponseHead head, bool end) noexcept override {
    response_.status = head.status;
    response_.headers = std::move(head.headers);
    const auto length = parse_decimal<std::size_t>(response_.headers.get("content-length"));
    response_.body.reserve(std::min(length.value_or(0), kMaxBody));
    finished_ = end;
  }
  void on_data(std::string_view bytes, bool end) noexcept override {
    if (response_.body.size() + bytes.size() > kMaxBody) {
      abort(Errc::kRequestEntityTooLarge);
      return;
    }
    response_.body.append(bytes);
    finished_ = finished_ || end;
    if (!bytes.empty() && stream_ != nullptr) {
      stream_->consume(bytes.size());
    }
  }

 private:
  bool collects() const override { return true; }
  void forget() override { response_ = {}; }
  void report(Errc cause) override {
    const auto done = std::exchange(done_, nullptr);
    if (cause == Errc::kOk) {
      done(std::move(response_));
    } else {
      done(fail(cause, describe(cause)));
    }
  }
  void release_user() override { done_ = nullptr; }

  std::function<void(Expected<FetchResponse>)> done_;
  FetchResponse response_;
};

class StreamExchange final : public Exchange {
 public:
  StreamExchange(Loop& loop, StreamCallbacks callbacks)
      : Exchange(loop), callbacks_(std::move(callbacks)) {}

  void on_head(http::ResponseHead head, bool end) noexcept override {
    const auto self = shared_from_this();
    timer_.cancel();
    finished_ = end;
    if (callbacks_.on_head && !guarded("answer's head", [&] { callbacks_.on_head(head); })) {
      abort(Errc::kInternal);
    }
  }
  void on_data(std::string_view bytes, bool end) noexcept override {
    const auto self = shared_from_this();
    finished_ = finished_ || end;
    if (!bytes.empty() && callbacks_.on_data &&
        !guarded("answer's body", [&] { callbacks_.on_data(bytes); })) {
      abort(Errc::kInternal);
    }
    if (!bytes.empty() && stream_ != nullptr) {
      stream_->consume(bytes.size());
    }
  }

 private:
  void report(Errc cause) override {
    const auto on_end = callbacks_.on_end;
    if (on_end) {
      on_end(cause);
    }
  }
  // A callback may be what is running: the functions stay until this object goes.
  void release_user() override {}

  StreamCallbacks callbacks_;
};

class CallImpl final : public Call {
 public:
  explicit CallImpl(std::shared_ptr<Exchange> exchange) : exchange_(std::move(exchange)) {}
  ~CallImpl() override { exchange_->abandon(); }

 private:
  std::shared_ptr<Exchange> exchange_;
};

}  // namespace

std::unique_ptr<Call> fetch(Loop& loop, Upstream& upstream, FetchRequest request,
                            std::function<void(Expected<FetchResponse>)> done) {
  auto exchange = std::make_shared<Fetch>(loop, std::move(done));
  exchange->start(upstream, std::move(request));
  return std::make_unique<CallImpl>(std::move(exchange));
}

std::unique_ptr<Call> stream(Loop& loop, Upstream& upstream, FetchRequest request,
                             StreamCallbacks callbacks) {
  auto exchange = std::make_shared<StreamExchange>(loop, std::move(callbacks));
  exchange->start(upstream, std::move(request));
  return std::make_unique<CallImpl>(std::move(exchange));
}

}  // namespace kintsugi::net
