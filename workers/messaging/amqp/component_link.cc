#include "workers/messaging/amqp/component_link.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "workers/messaging/amqp/internal/reconnect_delay.h"

namespace kintsugi::workers {
namespace {

constexpr std::size_t kMostQueued = 1U << 20U, kPart = 256U << 10U;

}  // namespace

class ComponentLink::Core final : public net::Loop::Flushable {
 public:
  Core(net::Loop& loop, Params params, Callbacks callbacks)
      : loop_(loop),
        params_(std::move(params)),
        callbacks_(std::move(callbacks)),
        delay_(params_.least_wait, params_.most_wait, params_.seed),
        timer_(loop) {
    dial();
  }
  ~Core() { stop(); }
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;

  void flush() noexcept override;
  [[nodiscard]] bool is_ready() const noexcept { return ready_; }
  [[nodiscard]] std::size_t room() const noexcept { return ready_ ? attempt_->session->room() : 0; }
  std::uint64_t submit(const ManagementRequest& request, Duration deadline) {
    if (!ready_) {
      return 0;
    }
    const std::uint64_t id = attempt_->session->submit(request, loop_.now(), deadline);
    loop_.mark_dirty(*this);
    return id;
  }
  void reset(const std::string& why) {
    if (attempt_ != nullptr) {
      lose(why, false);
    }
  }
  void renew(const std::string& why) {
    if (attempt_ != nullptr) {
      delay_.succeed();
      lose(why, false);
    }
  }
  void stop() {
    stopped_ = true;
    timer_.cancel();
    loop_.unmark_dirty(*this);
    leave();
  }
  [[nodiscard]] std::uint64_t unknown() const noexcept {
    return unknown_ +
           (attempt_ != nullptr && attempt_->session ? attempt_->session->unknown_answers() : 0);
  }

 private:
  /// One connection. It lives to the end of the turn in which it is left, and calls nobody then.
  struct Attempt {
    Core* owner = nullptr;
    std::optional<ManagementSession> session;
    std::unique_ptr<net::ByteStream> stream;
  };

  void dial();
  void leave();
  void lose(std::string why, bool unauthorized);
  void on_open();
  void on_bytes(std::string_view bytes);
  void on_closed(const std::string& error);
  void after_input();
  void arm();
  void on_timer();
  static void pass_output(Attempt& attempt);

  net::Loop& loop_;
  const Params params_;
  const Callbacks callbacks_;
  ReconnectDelay delay_;
  std::shared_ptr<Attempt> attempt_;
  bool ready_ = false, stopped_ = false;
  TimePoint ready_since_{};
  std::optional<TimePoint> armed_;
  net::Timer timer_;
  std::uint64_t unknown_ = 0;
};

void ComponentLink::Core::dial() {
  armed_.reset();
  attempt_ = std::make_shared<Attempt>();
  attempt_->owner = this;
  net::ByteStream::Params to;
  to.host = params_.host;
  to.address = params_.address;
  to.port = params_.port;
  to.tls = params_.tls;
  to.open_deadline = params_.session.open_deadline;
  net::ByteStream::Callbacks calls;
  Attempt* const attempt = attempt_.get();
  const auto owned = [attempt](auto&& call) {
    if (attempt->owner != nullptr) {
      call(*attempt->owner);
    }
  };
  calls.on_open = [owned] { owned([](Core& core) { core.on_open(); }); };
  calls.on_bytes = [owned](std::string_view bytes) {
    owned([bytes](Core& core) { core.on_bytes(bytes); });
  };
  calls.on_closed = [owned](const std::string& error) {
    owned([&error](Core& core) { core.on_closed(error); });
  };
  calls.on_written = [owned] { owned([](Core& core) { core.loop_.mark_dirty(core); }); };
  attempt_->stream = std::make_unique<net::ByteStream>(loop_, std::move(to), std::move(calls));
}

void ComponentLink::Core::leave() {
  ready_ = false;
  if (attempt_ == nullptr) {
    return;
  }
  Attempt& attempt = *attempt_;
  attempt.owner = nullptr;
  if (attempt.session) {
    unknown_ += attempt.session->unknown_answers();
    attempt.session->close();
    pass_output(attempt);
  }
  attempt.stream->close();  // what it says last leaves in this turn's flush pass
  loop_.defer([left = std::move(attempt_)] {});
  attempt_.reset();
}

void ComponentLink::Core::lose(std::string why, bool unauthorized) {
  if (ready_ && loop_.now() - ready_since_ >= params_.most_wait) {
    delay_.succeed();
  }
  leave();
  armed_.reset();
  timer_.start(delay_.next(), [this] { dial(); });
  callbacks_.on_lost(why, unauthorized);
}

void ComponentLink::Core::on_open() {
  attempt_->session.emplace(params_.session, loop_.now());
  loop_.mark_dirty(*this);
  arm();
}

void ComponentLink::Core::on_bytes(std::string_view bytes) {
  attempt_->session->receive(bytes, loop_.now());
  loop_.mark_dirty(*this);
  after_input();
}

void ComponentLink::Core::on_closed(const std::string& error) {
  if (!attempt_->session) {
    lose(error.empty() ? "the peer ended the connection" : error, false);
    return;
  }
  attempt_->session->peer_closed(error);
  after_input();
}

void ComponentLink::Core::after_input() {
  // A callback may end the connection: then another one, or none, is there.
  const std::shared_ptr<Attempt> attempt = attempt_;
  ManagementSession& session = *attempt->session;
  if (!ready_ && session.state() == ManagementSession::State::kReady) {
    ready_ = true;
    ready_since_ = loop_.now();
    const AmqpPeer peer = session.peer();
    callbacks_.on_ready(peer);
  }
  while (attempt_ == attempt) {
    const auto answered = session.take();
    if (!answered) {
      break;
    }
    const bool lost = !answered->reply && session.state() == ManagementSession::State::kClosed;
    if (!lost) {
      callbacks_.on_answer(answered->id, answered->reply ? &*answered->reply : nullptr);
    }
  }
  if (attempt_ != attempt) {
    return;
  }
  if (session.state() == ManagementSession::State::kClosed) {
    lose(session.fault(), session.is_unauthorized());
    return;
  }
  if (ready_ && session.room() > 0) {
    callbacks_.on_room();
  }
  if (attempt_ == attempt) {
    arm();
  }
}

void ComponentLink::Core::arm() {
  const auto next = attempt_->session->next_timer();
  if (next && (!armed_ || *next < *armed_)) {
    armed_ = next;
    timer_.start(std::max<Duration>(*next - loop_.now(), Duration::zero()), [this] { on_timer(); });
  }
}

void ComponentLink::Core::on_timer() {
  armed_.reset();
  attempt_->session->on_timer(loop_.now());
  loop_.mark_dirty(*this);
  after_input();
}

void ComponentLink::Core::pass_output(Attempt& attempt) {
  while (attempt.stream->queued() < kMostQueued) {
    const std::string_view out = attempt.session->output().substr(0, kPart);
    if (out.empty() || !attempt.stream->write(out)) {
      return;
    }
    attempt.session->consume(out.size());
  }
}

void ComponentLink::Core::flush() noexcept {
  if (attempt_ != nullptr && attempt_->session) {
    pass_output(*attempt_);
    arm();
  }
}

ComponentLink::ComponentLink(net::Loop& loop, Params params, Callbacks callbacks)
    : core_(std::make_unique<Core>(loop, std::move(params), std::move(callbacks))) {}
ComponentLink::~ComponentLink() = default;
bool ComponentLink::is_ready() const noexcept { return core_->is_ready(); }
std::size_t ComponentLink::room() const noexcept { return core_->room(); }
std::uint64_t ComponentLink::submit(const ManagementRequest& request, Duration deadline) {
  return core_->submit(request, deadline);
}
void ComponentLink::flush_now() noexcept { core_->flush(); }
void ComponentLink::reset(const std::string& why) { core_->reset(why); }
void ComponentLink::renew(const std::string& why) { core_->renew(why); }
void ComponentLink::stop() { core_->stop(); }
std::uint64_t ComponentLink::unknown_answers() const noexcept { return core_->unknown(); }

}  // namespace kintsugi::workers
