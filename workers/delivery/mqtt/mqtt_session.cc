#include "workers/delivery/mqtt/mqtt_session.h"

#include <fcntl.h>
#include <mosquitto.h>
#include <mqtt_protocol.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>

#include "workers/delivery/mqtt/internal/mqtt_bridge.h"

namespace kintsugi::workers {
namespace {

constexpr Duration kTick = seconds(1);
constexpr int kReadRounds = 64;

void begin_library() {
  static const int begun = mosquitto_lib_init();
  (void)begun;
}

/// Properties of a message that is sent; freed with it.
class Properties {
 public:
  Properties() = default;
  ~Properties() { mosquitto_property_free_all(&list_); }
  Properties(const Properties&) = delete;
  Properties& operator=(const Properties&) = delete;
  void text(int which, const std::string& value) {
    good_ = mosquitto_property_add_string(&list_, which, value.c_str()) == 0 && good_;
  }
  void pair(const std::string& name, const std::string& value) {
    good_ = mosquitto_property_add_string_pair(&list_, MQTT_PROP_USER_PROPERTY, name.c_str(),
                                               value.c_str()) == 0 &&
            good_;
  }
  void number(int which, std::uint32_t value) {
    good_ = mosquitto_property_add_int32(&list_, which, value) == 0 && good_;
  }
  void short_number(int which, std::uint16_t value) {
    good_ = mosquitto_property_add_int16(&list_, which, value) == 0 && good_;
  }
  [[nodiscard]] const mosquitto_property* get() const noexcept { return list_; }
  [[nodiscard]] bool good() const noexcept { return good_; }

 private:
  mosquitto_property* list_ = nullptr;
  bool good_ = true;
};

/// Text that the library gives, freed.
std::string taken(char* text) {
  std::string out = text == nullptr ? "" : text;
  std::free(text);
  return out;
}

std::string content_type_of(const mosquitto_property* list) {
  char* text = nullptr;
  mosquitto_property_read_string(list, MQTT_PROP_CONTENT_TYPE, &text, false);
  return taken(text);
}

std::vector<std::pair<std::string, std::string>> pairs_of(const mosquitto_property* list) {
  std::vector<std::pair<std::string, std::string>> out;
  bool next = false;
  for (;;) {
    char* name = nullptr;
    char* value = nullptr;
    list = mosquitto_property_read_string_pair(list, MQTT_PROP_USER_PROPERTY, &name, &value, next);
    if (list == nullptr) {
      return out;
    }
    out.emplace_back(taken(name), taken(value));
    next = true;
  }
}

}  // namespace

/// What the library calls.
struct MqttSession::Hooks {
  static MqttSession& of(void* object) {
    auto& session = *static_cast<MqttSession*>(object);
    session.progress_ = true;
    return session;
  }
  static void connected(mosquitto*, void* object, int reason, int flags,
                        const mosquitto_property*) {
    MqttSession& session = of(object);
    if (reason != 0) {
      return session.end(
          {std::string("the broker refused the connection: ") + mosquitto_reason_string(reason),
           reason});
    }
    session.connected_ = true;
    const bool present = (flags & 1) != 0;
    session.callbacks_.on_connected(present);
  }
  static void disconnected(mosquitto*, void* object, int reason, const mosquitto_property*) {
    MqttSession& session = of(object);
    // Codes below 128 are the library's own errors.
    session.end({reason >= 128 ? mosquitto_reason_string(reason) : mosquitto_strerror(reason),
                 reason >= 128 ? reason : 0});
  }
  static void message(mosquitto*, void* object, const mosquitto_message* message,
                      const mosquitto_property* properties) {
    MqttSession& session = of(object);
    if (session.ended_) {
      return;
    }
    const std::string type = content_type_of(properties);
    MqttMessage out;
    out.topic = message->topic;
    out.content_type = type;
    out.payload = {static_cast<const char*>(message->payload),
                   static_cast<std::size_t>(message->payloadlen)};
    out.retained = message->retain;
    out.user = pairs_of(properties);
    session.callbacks_.on_message(out);
  }
  static void published(mosquitto*, void* object, int id, int reason, const mosquitto_property*) {
    MqttSession& session = of(object);
    if (!session.ended_) {
      session.callbacks_.on_acknowledged(id, reason);
    }
  }
  static void subscribed(mosquitto*, void* object, int, int count, const int* granted) {
    MqttSession& session = of(object);
    if (count > 0 && granted[0] >= 128) {
      session.end({"the broker refused the subscription", granted[0]});
    } else if (!session.ended_) {
      session.callbacks_.on_subscribed();
    }
  }
};

MqttSession::MqttSession(net::Loop& loop, MqttParams params, Callbacks callbacks)
    : loop_(loop), params_(std::move(params)), callbacks_(std::move(callbacks)), timer_(loop) {
  begin_library();
  MqttBridge::Params bridge;
  bridge.to.host = params_.broker.host;
  bridge.to.port = params_.broker.port;
  bridge.to.tls = params_.broker.tls ? params_.tls : nullptr;
  bridge.folder = params_.folder;
  bridge.max_packet = params_.max_packet;
  bridge.may_send = params_.may_acknowledge;
  bridge_ = std::make_unique<MqttBridge>(loop, std::move(bridge),
                                         MqttBridge::Callbacks{[this] { join(); },
                                                               [this](const std::string& why) {
                                                                 end({why, 0});
                                                               }});
}

MqttSession::~MqttSession() {
  forget_socket();
  if (client_ != nullptr) {
    mosquitto_destroy(client_);
  }
}

void MqttSession::forget_socket() noexcept {
  if (fd_ >= 0) {
    loop_.forget(fd_);
    ::close(fd_);
    fd_ = -1;
  }
}

void MqttSession::join() {
  auto joined = bridge_->join([this](const std::string& path) { return connect_to(path); });
  if (!joined) {
    return end({std::string(joined.error().message()), 0});
  }
  heard_ = loop_.now();
  loop_.watch(fd_, *this);
  timer_.start(kTick, [this] { tick(); });
}

bool MqttSession::connect_to(const std::string& path) {
  client_ = mosquitto_new(params_.client_id.c_str(), params_.clean_start, this);
  if (client_ == nullptr) {
    return false;
  }
  mosquitto_int_option(client_, MOSQ_OPT_PROTOCOL_VERSION, MQTT_PROTOCOL_V5);
  mosquitto_connect_v5_callback_set(client_, &Hooks::connected);
  mosquitto_disconnect_v5_callback_set(client_, &Hooks::disconnected);
  mosquitto_message_v5_callback_set(client_, &Hooks::message);
  mosquitto_publish_v5_callback_set(client_, &Hooks::published);
  mosquitto_subscribe_callback_set(client_, &Hooks::subscribed);
  if (!params_.user.empty()) {
    const std::string password(params_.password.view());
    mosquitto_username_pw_set(client_, params_.user.c_str(), password.c_str());
  }
  Properties properties;
  properties.number(MQTT_PROP_SESSION_EXPIRY_INTERVAL, params_.session_expiry);
  properties.number(MQTT_PROP_MAXIMUM_PACKET_SIZE, params_.max_packet);
  properties.short_number(MQTT_PROP_RECEIVE_MAXIMUM, params_.receive_maximum);
  constexpr int kUnixSocket = 0;  // port
  if (!properties.good() ||
      mosquitto_connect_bind_v5(client_, path.c_str(), kUnixSocket, params_.keep_alive, nullptr,
                                properties.get()) != MOSQ_ERR_SUCCESS) {
    return false;
  }
  // The library closes its own socket where it wants; this one is ours to forget before.
  fd_ = ::fcntl(mosquitto_socket(client_), F_DUPFD_CLOEXEC, 0);
  return fd_ >= 0;
}

void MqttSession::on_ready(bool readable, bool writable) noexcept {
  if (ended_) {
    return;
  }
  if (readable) {
    read();
  }
  // What callbacks have sent waits for this, too.
  if (!ended_ && (writable || mosquitto_want_write(client_))) {
    write();
  }
}

void MqttSession::write() {
  if (const int rc = mosquitto_loop_write(client_, 1); rc != MOSQ_ERR_SUCCESS) {
    end({mosquitto_strerror(rc), 0});
  }
}

void MqttSession::on_hangup() noexcept { on_ready(true, false); }

void MqttSession::read() {
  heard_ = loop_.now();
  for (int round = 0; round < kReadRounds && !ended_; ++round) {
    errno = 0;
    progress_ = false;
    const int rc = mosquitto_loop_read(client_, 1);
    const bool drained = errno == EAGAIN && !progress_;  // callbacks change errno
    if (rc != MOSQ_ERR_SUCCESS) {
      return end({mosquitto_strerror(rc), 0});
    }
    if (drained) {
      return;
    }
  }
  if (!ended_) {
    loop_.read_again(fd_);
  }
}

void MqttSession::tick() {
  if (ended_) {
    return;
  }
  if (loop_.now() - heard_ > params_.silence) {
    return end({"the broker is silent", 0});
  }
  if (const int rc = mosquitto_loop_misc(client_); rc != MOSQ_ERR_SUCCESS && !ended_) {
    return end({mosquitto_strerror(rc), 0});
  }
  timer_.start(kTick, [this] { tick(); });
}

void MqttSession::subscribe(const std::string& filter) {
  constexpr int kQos = 1;
  if (const int rc = mosquitto_subscribe_v5(client_, nullptr, filter.c_str(), kQos,
                                            MQTT_SUB_OPT_RETAIN_AS_PUBLISHED, nullptr);
      rc != MOSQ_ERR_SUCCESS) {
    end({mosquitto_strerror(rc), 0});
  }
}

std::optional<int> MqttSession::publish(const MqttPublication& message) {
  if (!connected_ || ended_) {
    return std::nullopt;
  }
  Properties properties;
  if (!message.content_type.empty()) {
    properties.text(MQTT_PROP_CONTENT_TYPE, message.content_type);
  }
  for (const auto& [name, value] : message.user) {
    properties.pair(name, value);
  }
  int id = 0;
  constexpr int kQos = 1;
  if (!properties.good() ||
      mosquitto_publish_v5(client_, &id, message.topic.c_str(),
                           static_cast<int>(message.payload.size()), message.payload.data(), kQos,
                           message.retain, properties.get()) != MOSQ_ERR_SUCCESS) {
    return std::nullopt;
  }
  return id;
}

void MqttSession::close() {
  if (client_ != nullptr && !ended_ && connected_) {
    ended_ = true;
    mosquitto_disconnect_v5(client_, 0, nullptr);
  }
  ended_ = true;
  alive_.renew();
  timer_.cancel();
  forget_socket();
}

void MqttSession::end(MqttEnd end) {
  if (std::exchange(ended_, true)) {
    return;
  }
  connected_ = false;
  timer_.cancel();
  loop_.post(alive_.guard([this, end = std::move(end)] {
    forget_socket();
    const auto ended = callbacks_.on_ended;
    ended(end);
  }));
}

}  // namespace kintsugi::workers
