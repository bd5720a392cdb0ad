#include "workers/messaging/amqp/management_session.h"

#include <proton/condition.h>
#include <proton/connection.h>
#include <proton/connection_driver.h>
#include <proton/delivery.h>
#include <proton/disposition.h>
#include <proton/engine.h>
#include <proton/link.h>
#include <proton/session.h>
#include <proton/terminus.h>
#include <proton/transport.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <deque>
#include <limits>
#include <utility>
#include <vector>

#include "workers/messaging/amqp/internal/amqp_codec.h"
#include "workers/messaging/amqp/internal/amqp_frames.h"
#include "workers/messaging/amqp/internal/flight_table.h"
#include "workers/messaging/amqp/internal/proton_text.h"
#include "workers/messaging/amqp/internal/sasl_client.h"

namespace kintsugi::workers {
namespace {

constexpr std::uint32_t kMaxFrame = 1U << 20U;
constexpr std::size_t kMostAddress = 1024;
constexpr std::size_t kKeptBuffer = 256 * 1024;
constexpr std::size_t kSpareCredit = 10;
constexpr std::string_view kUnauthorized = "amqp:unauthorized-access";

/// Proton takes 0 for "no time".
std::int64_t ticks(TimePoint now) noexcept {
  return std::chrono::duration_cast<milliseconds>(now.time_since_epoch()).count() + 1;
}
TimePoint time_of(std::int64_t tick) noexcept { return TimePoint(milliseconds(tick - 1)); }

SaslClient::Mechanism mechanism_of(ManagementSession::Sasl sasl) noexcept {
  switch (sasl) {
    case ManagementSession::Sasl::kExternal:
      return SaslClient::Mechanism::kExternal;
    case ManagementSession::Sasl::kPlain:
      return SaslClient::Mechanism::kPlain;
    case ManagementSession::Sasl::kAnonymous:
      break;
  }
  return SaslClient::Mechanism::kAnonymous;
}

}  // namespace

class ManagementSession::Engine {
 public:
  Engine(Params params, TimePoint now);
  ~Engine() { pn_connection_driver_destroy(&driver_); }
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  void receive(std::string_view bytes, TimePoint now);
  [[nodiscard]] std::string_view output();
  void consume(std::size_t bytes);
  std::uint64_t submit(const ManagementRequest& request, TimePoint now, Duration deadline);
  [[nodiscard]] std::size_t room() const noexcept;
  [[nodiscard]] std::optional<TimePoint> next_timer() const noexcept;
  void on_timer(TimePoint now);
  /// Ends it; proton says so to the peer if it still can.
  void end(std::string why, bool unauthorized = false, const char* condition = nullptr);
  void close();

  const Params params;
  State state = State::kOpening;
  std::string fault;
  bool unauthorized = false;
  AmqpPeer peer;
  std::deque<Answered> answers;
  FlightTable flights;
  std::uint64_t unknown = 0;

 private:
  void on_whole(std::string_view whole);
  void push(std::string_view bytes);
  void pump();
  void on_event(pn_event_t* event);
  void on_link_open(pn_link_t* link);
  void on_peer_condition(pn_condition_t* condition, const char* what);
  void on_delivery(pn_delivery_t* delivery);
  void on_bytes_of_answer(pn_delivery_t* delivery);
  void on_answer();
  void on_disposition(pn_delivery_t* delivery);
  void finish(std::size_t slot, std::optional<ManagementReply> reply);
  void top_up();
  void tick();

  const TimePoint open_until_;
  TimePoint now_;
  std::optional<TimePoint> tick_at_;
  pn_connection_driver_t driver_{};
  pn_link_t* receiver_ = nullptr;
  pn_link_t* sender_ = nullptr;
  AmqpFrames frames_{kMaxFrame};
  std::string sasl_out_;
  std::size_t sasl_written_ = 0;
  SaslClient sasl_;
  bool heard_header_ = false;
  std::string reply_to_;
  std::string request_, answer_;  // buffers that are used again
};

ManagementSession::Engine::Engine(Params the_params, TimePoint now)
    : params(std::move(the_params)),
      flights(std::max<std::size_t>(params.window, 1)),
      open_until_(now + params.open_deadline),
      now_(now),
      sasl_(mechanism_of(params.sasl), params.user, params.password, params.hostname, sasl_out_) {
  if (pn_connection_driver_init(&driver_, nullptr, nullptr) != 0) {
    end("no memory");
    return;
  }
  pn_transport_t* transport = driver_.transport;
  pn_transport_set_max_frame(transport, kMaxFrame);
  (void)pn_transport_set_channel_max(transport, 0);
  const auto idle = std::chrono::duration_cast<milliseconds>(params.heartbeat).count();
  pn_transport_set_idle_timeout(transport, static_cast<pn_millis_t>(idle));
  pn_connection_t* connection = driver_.connection;
  pn_connection_set_container(connection, params.container.c_str());
  pn_connection_set_hostname(connection, params.hostname.c_str());
  (void)pn_connection_driver_bind(&driver_);
  pn_connection_open(connection);
  pn_session_t* session = pn_session(connection);
  pn_session_open(session);

  receiver_ = pn_receiver(session, "answers");
  (void)pn_terminus_set_dynamic(pn_link_source(receiver_), true);
  pn_link_set_max_message_size(receiver_, params.max_message);
  pn_link_open(receiver_);
  top_up();

  const bool broker = params.kind == ComponentKind::kBroker;
  sender_ = pn_sender(session, "requests");
  (void)pn_terminus_set_address(pn_link_target(sender_),
                                broker ? "activemq.management" : "$management");
  // A broker says of each message whether it takes it.
  pn_link_set_snd_settle_mode(sender_, broker ? PN_SND_UNSETTLED : PN_SND_SETTLED);
  pn_link_open(sender_);
  pump();
}

void ManagementSession::Engine::top_up() {
  const std::size_t least = flights.size() + kSpareCredit;
  const auto credit = static_cast<std::size_t>(std::max(pn_link_credit(receiver_), 0));
  if (credit < least) {
    pn_link_flow(receiver_, static_cast<int>(2 * least - credit));
  }
}

void ManagementSession::Engine::end(std::string why, bool is_unauthorized, const char* condition) {
  if (state == State::kClosed) {
    return;
  }
  state = State::kClosed;
  fault = why.empty() ? std::string() : ascii_text(why);
  unauthorized = is_unauthorized;
  tick_at_.reset();
  for (std::size_t slot = 0; slot < flights.size(); ++slot) {
    if (flights.is_used(slot)) {
      finish(slot, std::nullopt);
    }
  }
  if (driver_.connection == nullptr) {
    return;
  }
  if (condition != nullptr) {
    (void)pn_condition_set_name(pn_connection_condition(driver_.connection), condition);
    (void)pn_condition_set_description(pn_connection_condition(driver_.connection), fault.c_str());
  }
  pn_connection_close(driver_.connection);
}

void ManagementSession::Engine::close() {
  end({});
  pump();
}

void ManagementSession::Engine::receive(std::string_view bytes, TimePoint now) {
  now_ = now;
  if (state == State::kClosed) {
    return;
  }
  frames_.feed(bytes);
  while (state != State::kClosed) {
    const auto whole = frames_.next();
    if (!whole) {
      break;
    }
    on_whole(*whole);
  }
  if (frames_.fault()) {
    end("a frame of the peer has no length, or is above 1 MiB", false,
        "amqp:connection:framing-error");
  }
  tick();
  pump();
}

void ManagementSession::Engine::on_whole(std::string_view whole) {
  const bool header = !std::exchange(heard_header_, true);
  const bool sasl = sasl_.state() != SaslClient::State::kDone;
  if (header) {
    sasl ? sasl_.on_header(whole) : push(whole);
  } else {
    const auto frame = parse_frame(whole);
    if (!frame || frame->sasl != sasl || !is_shallow(*frame)) {
      end("malformed frame", false, "amqp:connection:framing-error");
      return;
    }
    sasl ? sasl_.on_frame(frame->body, sasl_out_) : push(whole);
  }
  if (sasl_.state() == SaslClient::State::kFailed) {
    end(sasl_.fault(), sasl_.is_refused());
  } else if (sasl && sasl_.state() == SaslClient::State::kDone) {
    heard_header_ = false;
    frames_.expect_header();
  }
}

void ManagementSession::Engine::push(std::string_view bytes) {
  while (!bytes.empty()) {
    const pn_rwbytes_t room = pn_connection_driver_read_buffer_sized(&driver_, bytes.size());
    if (room.size == 0) {
      break;  // closed for input: the events say why
    }
    const std::size_t size = std::min(room.size, bytes.size());
    std::memcpy(room.start, bytes.data(), size);
    pn_connection_driver_read_done(&driver_, size);
    bytes.remove_prefix(size);
    pump();
  }
  pump();
}

void ManagementSession::Engine::pump() {
  if (driver_.connection == nullptr) {
    return;
  }
  while (pn_event_t* event = pn_connection_driver_next_event(&driver_)) {
    on_event(event);
  }
}

void ManagementSession::Engine::on_event(pn_event_t* event) {
  if (state == State::kClosed) {
    return;
  }
  switch (pn_event_type(event)) {
    case PN_CONNECTION_REMOTE_OPEN:
      peer = peer_of(driver_.connection);
      tick();
      return;
    case PN_LINK_REMOTE_OPEN:
      on_link_open(pn_event_link(event));
      return;
    case PN_DELIVERY:
      on_delivery(pn_event_delivery(event));
      return;
    case PN_CONNECTION_REMOTE_CLOSE:
      on_peer_condition(pn_connection_remote_condition(driver_.connection), "closed");
      return;
    case PN_SESSION_REMOTE_OPEN:
      if ((pn_session_state(pn_event_session(event)) & PN_LOCAL_UNINIT) != 0) {
        end("the peer begins sessions", false, "amqp:not-allowed");
      }
      return;
    case PN_SESSION_REMOTE_CLOSE:
      on_peer_condition(pn_session_remote_condition(pn_event_session(event)), "ended the session");
      return;
    case PN_LINK_REMOTE_DETACH:
    case PN_LINK_REMOTE_CLOSE:
      on_peer_condition(pn_link_remote_condition(pn_event_link(event)), "detached a link");
      return;
    case PN_TRANSPORT_ERROR:
      on_peer_condition(pn_transport_condition(driver_.transport), "broke the protocol");
      return;
    case PN_TRANSPORT_TAIL_CLOSED:
    case PN_TRANSPORT_CLOSED:
      on_peer_condition(pn_transport_condition(driver_.transport), "ended the connection");
      return;
    default:
      return;
  }
}

void ManagementSession::Engine::on_peer_condition(pn_condition_t* condition, const char* what) {
  const std::string text = condition_text(condition);
  end(text.empty() ? "the peer " + std::string(what) : text, text.starts_with(kUnauthorized));
}

void ManagementSession::Engine::on_link_open(pn_link_t* link) {
  if (link == receiver_) {
    const char* address = pn_terminus_get_address(pn_link_remote_source(link));
    reply_to_ = address == nullptr ? "" : address;
  } else if (link != sender_) {
    end("the peer attaches links", false, "amqp:not-allowed");
    return;
  }
  if (reply_to_.size() > kMostAddress) {
    end("the peer's address for answers is too long", false, "amqp:not-allowed");
    return;
  }
  // A refused link is attached without an address, and detached with the reason.
  const bool open = (pn_link_state(receiver_) & PN_REMOTE_ACTIVE) != 0 &&
                    (pn_link_state(sender_) & PN_REMOTE_ACTIVE) != 0 && !reply_to_.empty() &&
                    pn_terminus_get_type(pn_link_remote_target(sender_)) == PN_TARGET;
  if (open && state == State::kOpening) {
    state = State::kReady;
  }
}

void ManagementSession::Engine::on_delivery(pn_delivery_t* delivery) {
  pn_link_t* link = pn_delivery_link(delivery);
  if (link == receiver_) {
    on_bytes_of_answer(delivery);
  } else if (link == sender_) {
    on_disposition(delivery);
  }
}

void ManagementSession::Engine::on_bytes_of_answer(pn_delivery_t* delivery) {
  if (pn_delivery_aborted(delivery)) {
    answer_.clear();
    pn_delivery_settle(delivery);
    top_up();
    return;
  }
  const std::size_t waiting = pn_delivery_pending(delivery);
  const std::size_t before = answer_.size();
  if (waiting > params.max_message - std::min(params.max_message, before)) {
    end("an answer is longer than " + std::to_string(params.max_message) + " bytes", false,
        "amqp:link:message-size-exceeded");
    return;
  }
  if (waiting > 0) {
    answer_.resize(before + waiting);
    const ssize_t count = pn_link_recv(receiver_, answer_.data() + before, waiting);
    answer_.resize(before + static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
  }
  if (pn_delivery_partial(delivery)) {
    return;
  }
  if (!pn_delivery_settled(delivery)) {
    pn_delivery_update(delivery, PN_ACCEPTED);
  }
  pn_delivery_settle(delivery);
  top_up();
  on_answer();
  answer_.clear();
  if (answer_.capacity() > kKeptBuffer) {
    answer_.shrink_to_fit();
  }
}

void ManagementSession::Engine::on_answer() {
  const auto parts = split_reply(answer_);
  const auto slot = parts ? flights.find(parts->correlation) : std::nullopt;
  if (!slot) {
    ++unknown;
    return;
  }
  finish(*slot, decode_reply(*parts));
}

void ManagementSession::Engine::on_disposition(pn_delivery_t* delivery) {
  const auto slot = reinterpret_cast<std::uintptr_t>(pn_delivery_get_context(delivery)) - 1;
  if (slot >= flights.size() || flights.at(slot).delivery != delivery) {
    return;
  }
  const std::uint64_t outcome = pn_delivery_remote_state(delivery);
  std::optional<ManagementReply> refusal;
  if (outcome == PN_REJECTED) {
    const std::string text = condition_text(pn_disposition_condition(pn_delivery_remote(delivery)));
    refusal.emplace();
    refusal->properties = krm::Json::object({{"_AMQ_OperationSucceeded", false}});
    const krm::Json told = krm::Json::array({text.empty() ? "the message is rejected" : text});
    refusal->body = told.dump();
  }
  if (outcome == PN_REJECTED || outcome == PN_RELEASED || outcome == PN_MODIFIED) {
    finish(slot, std::move(refusal));
  } else if (pn_delivery_settled(delivery) || outcome == PN_ACCEPTED) {
    flights.at(slot).delivery = nullptr;
    pn_delivery_settle(delivery);
  }
}

void ManagementSession::Engine::finish(std::size_t slot, std::optional<ManagementReply> reply) {
  SessionFlight& flight = flights.at(slot);
  if (flight.delivery != nullptr) {
    pn_delivery_settle(std::exchange(flight.delivery, nullptr));
  }
  answers.push_back({flight.id, std::move(reply)});
  flights.release(slot);
}

std::string_view ManagementSession::Engine::output() {
  if (sasl_written_ < sasl_out_.size()) {
    return std::string_view(sasl_out_).substr(sasl_written_);
  }
  if (sasl_.state() != SaslClient::State::kDone || driver_.connection == nullptr) {
    return {};
  }
  const pn_bytes_t bytes = pn_connection_driver_write_buffer(&driver_);
  return bytes.size == 0 ? std::string_view() : std::string_view(bytes.start, bytes.size);
}

void ManagementSession::Engine::consume(std::size_t bytes) {
  if (sasl_written_ < sasl_out_.size()) {
    sasl_written_ += std::min(bytes, sasl_out_.size() - sasl_written_);
    if (sasl_written_ == sasl_out_.size()) {
      wipe(sasl_out_);  // a password may be in it
      sasl_out_.clear();
      sasl_written_ = 0;
    }
    return;
  }
  if (bytes > 0) {
    (void)pn_connection_driver_write_done(&driver_, bytes);
    pump();
  }
}

std::size_t ManagementSession::Engine::room() const noexcept {
  if (state != State::kReady) {
    return 0;
  }
  const auto credit = static_cast<std::size_t>(std::max(pn_link_credit(sender_), 0));
  return std::min(flights.size() - flights.used(), credit);
}

std::uint64_t ManagementSession::Engine::submit(const ManagementRequest& request, TimePoint now,
                                                Duration deadline) {
  now_ = now;
  if (room() == 0) {
    return 0;
  }
  const Duration wait = deadline == Duration::zero() ? params.request_deadline : deadline;
  const std::size_t slot = flights.take(now + wait);
  SessionFlight& flight = flights.at(slot);
  FlightTable::Text correlation{};
  encode_request(request_, request, reply_to_, flights.correlation(slot, correlation));
  pn_delivery_t* delivery =
      pn_delivery(sender_, pn_dtag(reinterpret_cast<const char*>(&flight.id), sizeof flight.id));
  pn_delivery_set_context(delivery, reinterpret_cast<void*>(slot + 1));
  (void)pn_link_send(sender_, request_.data(), request_.size());
  (void)pn_link_advance(sender_);
  const std::uint64_t id = flight.id;
  if (params.kind == ComponentKind::kRouter) {
    pn_delivery_settle(delivery);
  } else {
    flight.delivery = delivery;
  }
  if (request_.capacity() > kKeptBuffer) {
    request_ = {};
  }
  pump();
  return id;
}

std::optional<TimePoint> ManagementSession::Engine::next_timer() const noexcept {
  if (state == State::kClosed) {
    return std::nullopt;
  }
  std::optional<TimePoint> first = flights.first_deadline();
  const auto take = [&first](std::optional<TimePoint> at) {
    if (at && (!first || *at < *first)) {
      first = at;
    }
  };
  take(tick_at_);
  if (state == State::kOpening) {
    take(open_until_);
  }
  return first;
}

void ManagementSession::Engine::tick() {
  const bool open = driver_.connection != nullptr &&
                    (pn_connection_state(driver_.connection) & PN_REMOTE_ACTIVE) != 0;
  if (state == State::kClosed || !open) {
    return;
  }
  const std::int64_t next = pn_transport_tick(driver_.transport, ticks(now_));
  tick_at_ =
      next > 0 ? std::optional(std::max(time_of(next), now_ + milliseconds(1))) : std::nullopt;
}

void ManagementSession::Engine::on_timer(TimePoint now) {
  now_ = now;
  if (state == State::kClosed) {
    return;
  }
  if (state == State::kOpening && now >= open_until_) {
    end("no answer to the open in time");
  }
  for (std::size_t slot = 0; slot < flights.size() && flights.used() > 0; ++slot) {
    if (flights.is_used(slot) && flights.at(slot).deadline <= now) {
      finish(slot, std::nullopt);
    }
  }
  if (tick_at_ && *tick_at_ <= now) {
    tick();
  }
  pump();
}

ManagementSession::ManagementSession(Params params, TimePoint now)
    : engine_(std::make_unique<Engine>(std::move(params), now)) {}
ManagementSession::~ManagementSession() = default;

void ManagementSession::receive(std::string_view bytes, TimePoint now) {
  engine_->receive(bytes, now);
}
void ManagementSession::peer_closed(std::string_view error) {
  engine_->end(error.empty() ? "the peer ended the connection" : std::string(error));
}
std::string_view ManagementSession::output() { return engine_->output(); }
void ManagementSession::consume(std::size_t bytes) { engine_->consume(bytes); }
ManagementSession::State ManagementSession::state() const noexcept { return engine_->state; }
const std::string& ManagementSession::fault() const noexcept { return engine_->fault; }
bool ManagementSession::is_unauthorized() const noexcept { return engine_->unauthorized; }
const AmqpPeer& ManagementSession::peer() const noexcept { return engine_->peer; }
std::size_t ManagementSession::room() const noexcept { return engine_->room(); }
std::uint64_t ManagementSession::submit(const ManagementRequest& request, TimePoint now,
                                        Duration deadline) {
  return engine_->submit(request, now, deadline);
}
std::optional<ManagementSession::Answered> ManagementSession::take() {
  if (engine_->answers.empty()) {
    return std::nullopt;
  }
  std::optional<Answered> first(std::move(engine_->answers.front()));
  engine_->answers.pop_front();
  return first;
}
std::size_t ManagementSession::in_flight() const noexcept { return engine_->flights.used(); }
std::uint64_t ManagementSession::unknown_answers() const noexcept { return engine_->unknown; }
std::optional<TimePoint> ManagementSession::next_timer() const noexcept {
  return engine_->next_timer();
}
void ManagementSession::on_timer(TimePoint now) { engine_->on_timer(now); }
void ManagementSession::close() { engine_->close(); }

}  // namespace kintsugi::workers
