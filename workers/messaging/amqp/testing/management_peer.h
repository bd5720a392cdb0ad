#pragma once

#include <proton/codec.h>
#include <proton/condition.h>
#include <proton/connection.h>
#include <proton/connection_driver.h>
#include <proton/delivery.h>
#include <proton/disposition.h>
#include <proton/link.h>
#include <proton/message.h>
#include <proton/session.h>
#include <proton/terminus.h>
#include <proton/transport.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "workers/messaging/amqp/internal/amqp_codec.h"
#include "workers/messaging/amqp/internal/amqp_frames.h"

/// Only for tests and benches.
namespace kintsugi::workers::amqp_testing {

/// The other end of a ManagementSession: a scripted management node on Proton's own engine and
/// message codec, so that neither end reads what it wrote itself. SASL is by hand.
class ManagementPeer {
 public:
  struct Options {
    std::vector<std::string> mechanisms{"ANONYMOUS", "EXTERNAL", "PLAIN"};
    std::uint8_t outcome = 0;
    bool challenges = false;
    std::string product = "qpid-dispatch-router", version = "1.19.0", container = "R1";
    std::string address = "amqp:/_topo/0/R1/temp.1";  ///< for answers; "": the link is refused
    std::string refusal = "amqp:not-found";           ///< of links
    bool refuses_requests = false;                    ///< the sender's link
    bool presettles = true;
    int credit = 250;
    pn_millis_t idle = 16'000;
    bool keeps_requests = true;
  };
  struct Request {
    std::string correlation, reply_to, properties, body;  ///< maps as Proton prints them
    bool presettled = false;
    pn_delivery_t* delivery = nullptr;  ///< not settled; for settle()
  };
  using OnRequest = std::function<void(const Request&)>;

  ManagementPeer() : ManagementPeer(Options()) {}
  explicit ManagementPeer(Options options) : options_(std::move(options)) {
    pn_connection_driver_init(&driver_, nullptr, nullptr);
    pn_transport_set_server(driver_.transport);
    pn_transport_set_idle_timeout(driver_.transport, options_.idle);
    pn_connection_driver_bind(&driver_);
    message_ = pn_message();
    body_ = pn_data(16);
  }
  ~ManagementPeer() {
    pn_data_free(body_);
    pn_message_free(message_);
    pn_connection_driver_destroy(&driver_);
  }
  ManagementPeer(const ManagementPeer&) = delete;
  ManagementPeer& operator=(const ManagementPeer&) = delete;

  void receive(std::string_view bytes) {
    if (done_) {
      push(bytes);
      return;
    }
    frames_.feed(bytes);
    while (const auto whole = frames_.next()) {
      if (done_) {
        push(*whole);
      } else if (!std::exchange(heard_header_, true)) {
        header_ = *whole;
        out_ += header_;
        send_mechanisms();
      } else {
        on_sasl(*whole);
      }
    }
  }
  /// Everything that waits.
  std::string output() {
    std::string out = std::exchange(out_, {});
    while (done_) {
      const pn_bytes_t bytes = pn_connection_driver_write_buffer(&driver_);
      if (bytes.size == 0) {
        break;
      }
      out.append(bytes.start, bytes.size);
      pn_connection_driver_write_done(&driver_, bytes.size);
      pump();
    }
    return out;
  }
  void tick(std::int64_t ms) { (void)pn_transport_tick(driver_.transport, ms); }

  /// An answer as the router and the broker give it.
  void answer(const std::string& correlation, const std::function<void(pn_data_t*)>& properties,
              const std::function<void(pn_data_t*)>& body) {
    pn_message_clear(message_);
    const pn_msgid_t id = {PN_STRING, {.as_bytes = {correlation.size(), correlation.data()}}};
    (void)pn_message_set_correlation_id(message_, id);
    properties(pn_message_properties(message_));
    body(pn_message_body(message_));
    send_raw(encoded());
  }
  /// In on_request, into its answer: the body of the request.
  void copy_body(pn_data_t* data) { (void)pn_data_copy(data, body_); }
  void send_raw(std::string_view message, bool whole = true) {
    if (current_ == nullptr) {
      ++sent_;
      current_ =
          pn_delivery(answers_, pn_dtag(reinterpret_cast<const char*>(&sent_), sizeof sent_));
    }
    (void)pn_link_send(answers_, message.data(), message.size());
    if (!whole) {
      return;
    }
    (void)pn_link_advance(answers_);
    if (options_.presettles) {
      pn_delivery_settle(current_);
    }
    current_ = nullptr;
    pump();
  }
  static std::function<void(pn_data_t*)> status(int code, std::string text = "OK") {
    return [code, text = std::move(text)](pn_data_t* data) {
      pn_data_put_map(data);
      pn_data_enter(data);
      put(data, "statusCode");
      pn_data_put_int(data, code);
      put(data, "statusDescription");
      put(data, text);
      pn_data_exit(data);
    };
  }
  static std::function<void(pn_data_t*)> text(std::string text) {
    return [text = std::move(text)](pn_data_t* data) { put(data, text); };
  }
  static void put(pn_data_t* data, std::string_view text) {
    (void)pn_data_put_string(data, pn_bytes(text.size(), text.data()));
  }

  void settle(const Request& request, std::uint64_t outcome, const char* condition = nullptr) {
    if (condition != nullptr) {
      pn_condition_set_name(pn_disposition_condition(pn_delivery_local(request.delivery)),
                            condition);
      pn_condition_set_description(pn_disposition_condition(pn_delivery_local(request.delivery)),
                                   "not you");
    }
    pn_delivery_update(request.delivery, outcome);
    pn_delivery_settle(request.delivery);
  }
  void close(const char* condition = nullptr, const char* description = "as told") {
    set(pn_connection_condition(driver_.connection), condition, description);
    pn_connection_close(driver_.connection);
    pump();
  }
  void detach(bool of_requests, const char* condition) {
    pn_link_t* link = of_requests ? requests_ : answers_;
    set(pn_link_condition(link), condition, "as told");
    pn_link_close(link);
    pump();
  }
  void end_session(const char* condition) {
    pn_session_t* session = pn_link_session(answers_);
    set(pn_session_condition(session), condition, "as told");
    pn_session_close(session);
    pump();
  }
  void open_link() {
    pn_link_open(pn_sender(pn_link_session(answers_), "theirs"));
    pump();
  }
  void open_session() {
    pn_session_open(pn_session(driver_.connection));
    pump();
  }
  void give_credit(int credit) { pn_link_flow(requests_, credit); }
  [[nodiscard]] int credit() const { return pn_link_credit(answers_); }
  [[nodiscard]] pn_connection_t* connection() const { return driver_.connection; }
  [[nodiscard]] pn_transport_t* transport() const { return driver_.transport; }
  [[nodiscard]] pn_link_t* requests_link() const { return requests_; }
  [[nodiscard]] pn_link_t* answers_link() const { return answers_; }

  std::vector<Request> requests;
  OnRequest on_request;
  std::uint64_t accepted = 0, settled = 0;  ///< answers, by the session
  std::string init;                         ///< sasl-init: mechanism, response and host name
  bool closed = false;                      ///< by the session
  std::string close_condition;

 private:
  static void set(pn_condition_t* to, const char* name, const char* description) {
    if (name != nullptr) {
      pn_condition_set_name(to, name);
      pn_condition_set_description(to, description);
    }
  }
  void frame(char what, const std::function<void(std::string&)>& list, std::uint32_t count) {
    std::string body{'\0', '\x53', what};
    const std::size_t begun = begin_amqp(body, '\xd0');
    list(body);
    end_amqp(body, begun, count);
    const std::size_t size = body.size() + 8;
    out_ += {static_cast<char>(size >> 24),
             static_cast<char>(size >> 16),
             static_cast<char>(size >> 8),
             static_cast<char>(size),
             '\x02',
             '\x01',
             '\0',
             '\0'};
    out_ += body;
  }
  void send_mechanisms() {
    frame(
        '\x40',
        [this](std::string& out) {
          const std::size_t begun = begin_amqp(out, '\xf0');
          out += '\xa3';
          for (const std::string& each : options_.mechanisms) {
            out += static_cast<char>(each.size());
            out += each;
          }
          end_amqp(out, begun, static_cast<std::uint32_t>(options_.mechanisms.size()));
        },
        1);
  }
  void on_sasl(std::string_view whole) {
    AmqpReader reader(parse_frame(whole)->body);
    std::uint64_t what = 0;
    std::uint32_t count = 0;
    if (!reader.read_descriptor(what) || !reader.enter_list(count)) {
      return;
    }
    std::string_view field;
    while (!reader.at_end() && reader.read_text(field)) {
      init += (init.empty() ? "" : "|") + std::string(field);
    }
    if (what == 0x41 && options_.challenges) {
      frame(
          '\x42', [](std::string& out) { append_amqp_binary(out, "?"); }, 1);
      return;
    }
    const std::uint8_t code = options_.outcome;
    frame(
        '\x44',
        [code](std::string& out) {
          out += {'\x50', static_cast<char>(code)};
        },
        1);
    if (code == 0) {
      done_ = true;
      frames_.expect_header();
    }
  }
  std::string_view encoded() {
    buffer_.resize(std::max<std::size_t>(buffer_.capacity(), 1024));
    std::size_t size = buffer_.size();
    while (pn_message_encode(message_, buffer_.data(), &size) == PN_OVERFLOW) {
      buffer_.resize(buffer_.size() * 2);
      size = buffer_.size();
    }
    return std::string_view(buffer_).substr(0, size);
  }
  void push(std::string_view bytes) {
    while (!bytes.empty()) {
      const pn_rwbytes_t room = pn_connection_driver_read_buffer_sized(&driver_, bytes.size());
      const std::size_t size = std::min(room.size, bytes.size());
      if (size == 0) {
        break;
      }
      std::memcpy(room.start, bytes.data(), size);
      pn_connection_driver_read_done(&driver_, size);
      bytes.remove_prefix(size);
      pump();
    }
  }
  void pump() {
    while (pn_event_t* event = pn_connection_driver_next_event(&driver_)) {
      on_event(event);
    }
  }
  void on_event(pn_event_t* event) {
    switch (pn_event_type(event)) {
      case PN_CONNECTION_REMOTE_OPEN:
        open();
        break;
      case PN_SESSION_REMOTE_OPEN:
        pn_session_open(pn_event_session(event));
        break;
      case PN_LINK_REMOTE_OPEN:
        open_link(pn_event_link(event));
        break;
      case PN_DELIVERY:
        on_delivery(pn_event_delivery(event));
        break;
      case PN_CONNECTION_REMOTE_CLOSE: {
        closed = true;
        pn_condition_t* why = pn_connection_remote_condition(driver_.connection);
        close_condition = pn_condition_is_set(why) ? pn_condition_get_name(why) : "";
        pn_connection_close(driver_.connection);
        break;
      }
      default:
        break;
    }
  }
  void open() {
    pn_connection_set_container(driver_.connection, options_.container.c_str());
    pn_data_t* properties = pn_connection_properties(driver_.connection);
    pn_data_put_map(properties);
    pn_data_enter(properties);
    const auto add = [properties](std::string_view name, const std::string& value) {
      (void)pn_data_put_symbol(properties, pn_bytes(name.size(), name.data()));
      put(properties, value);
    };
    add("product", options_.product);
    add("version", options_.version);
    pn_data_exit(properties);
    pn_connection_open(driver_.connection);
  }
  void open_link(pn_link_t* link) {
    const bool sender = pn_link_is_sender(link);  // ours: for answers
    (sender ? answers_ : requests_) = link;
    pn_terminus_copy(pn_link_source(link), pn_link_remote_source(link));
    pn_terminus_copy(pn_link_target(link), pn_link_remote_target(link));
    const bool refused = sender ? options_.address.empty() : options_.refuses_requests;
    if (sender) {
      pn_terminus_set_address(pn_link_source(link), options_.address.c_str());
    }
    if (refused) {
      pn_terminus_set_type(sender ? pn_link_source(link) : pn_link_target(link), PN_UNSPECIFIED);
    }
    pn_link_open(link);
    if (refused) {
      set(pn_link_condition(link), options_.refusal.c_str(), "refused");
      pn_link_close(link);
    } else if (!sender) {
      pn_link_flow(link, options_.credit);
    }
  }
  void on_delivery(pn_delivery_t* delivery) {
    pn_link_t* link = pn_delivery_link(delivery);
    if (link == answers_) {
      accepted += pn_delivery_remote_state(delivery) == PN_ACCEPTED ? 1 : 0;
      if (pn_delivery_settled(delivery)) {
        ++settled;
        pn_delivery_settle(delivery);
      }
      return;
    }
    if (pn_delivery_partial(delivery) || !pn_delivery_readable(delivery)) {
      return;
    }
    incoming_.resize(pn_delivery_pending(delivery));
    (void)pn_link_recv(link, incoming_.data(), incoming_.size());
    (void)pn_link_advance(link);
    Request request;
    request.presettled = pn_delivery_settled(delivery);
    if (request.presettled) {
      pn_delivery_settle(delivery);
    } else {
      request.delivery = delivery;
    }
    if (pn_link_credit(link) < options_.credit / 2) {
      pn_link_flow(link, options_.credit - pn_link_credit(link));
    }
    pn_message_clear(message_);
    (void)pn_message_decode(message_, incoming_.data(), incoming_.size());
    const pn_msgid_t id = pn_message_get_correlation_id(message_);
    if (id.type == PN_STRING) {
      request.correlation.assign(id.u.as_bytes.start, id.u.as_bytes.size);
    }
    if (options_.keeps_requests) {
      const char* reply_to = pn_message_get_reply_to(message_);
      request.reply_to = reply_to == nullptr ? "" : reply_to;
      request.properties = shown(pn_message_properties(message_));
      request.body = shown(pn_message_body(message_));
      (void)pn_data_copy(body_, pn_message_body(message_));
      requests.push_back(request);
    }
    if (on_request) {
      on_request(request);
    }
  }
  static std::string shown(pn_data_t* data) {
    std::string out(4'096, '\0');
    std::size_t size = out.size();
    (void)pn_data_format(data, out.data(), &size);
    out.resize(size);
    return out;
  }

  const Options options_;
  pn_connection_driver_t driver_{};
  pn_message_t* message_ = nullptr;
  pn_data_t* body_ = nullptr;
  pn_link_t* requests_ = nullptr;
  pn_link_t* answers_ = nullptr;
  pn_delivery_t* current_ = nullptr;
  std::uint64_t sent_ = 0;
  AmqpFrames frames_{1U << 20U};
  bool heard_header_ = false, done_ = false;
  std::string header_, out_, buffer_, incoming_;
};

}  // namespace kintsugi::workers::amqp_testing
