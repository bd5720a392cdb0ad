#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/alive.h"
#include "base/error.h"
#include "base/secret.h"
#include "base/time.h"
#include "net/loop.h"
#include "net/tls.h"
#include "workers/delivery/mqtt/broker_url.h"

struct mosquitto;
struct mqtt5__property;

namespace kintsugi::workers {

class MqttBridge;

struct MqttParams {
  BrokerUrl broker;
  std::shared_ptr<const net::TlsContext> tls;  ///< for a broker with TLS
  std::string client_id, user;
  Secret password;
  bool clean_start = false;
  std::uint32_t session_expiry = 3'600;               ///< [s]
  std::uint16_t keep_alive = 30;                      ///< [s]
  Duration silence = seconds(45);                     ///< after which the broker counts as gone
  std::uint32_t max_packet = std::uint32_t{4} << 20;  ///< that is taken [bytes]
  std::uint16_t receive_maximum = 1'000;
  std::string folder;  ///< for the library's socket
  /// Asked before acknowledgements leave; false ends the connection.
  std::function<bool()> may_acknowledge;
};

/// A message that came. Lifetime: views during the call.
struct MqttMessage {
  std::string_view topic, content_type, payload;
  bool retained = false;
  std::vector<std::pair<std::string, std::string>> user;
};

/// A message to publish, QoS 1.
struct MqttPublication {
  std::string topic, content_type, payload;
  bool retain = false;
  std::vector<std::pair<std::string, std::string>> user;
};

/// How a session ended. @{ Reason codes of MQTT 5; 0: none came.
struct MqttEnd {
  std::string why;
  int reason = 0;
  [[nodiscard]] bool refused_credentials() const noexcept { return reason == 134 || reason == 135; }
  [[nodiscard]] bool taken_over() const noexcept { return reason == 142; }
  [[nodiscard]] bool other_version() const noexcept { return reason == 132 || reason == 1; }
};
/// @}

/// One connection to a broker with MQTT 5 by libmosquitto, driven by the loop; not made again when
/// it ends. Source: docs/spec/delivery.md.
/// Threads: its loop's. Lifetime: silent once it is destroyed, which on_message and on_acknowledged
/// may not do.
class MqttSession final : private net::FdHandler {
 public:
  struct Callbacks {
    std::function<void(bool session_present)> on_connected;
    std::function<void()> on_subscribed;  ///< one for each subscribe()
    /// It is acknowledged in a later turn, in which `may_acknowledge` is asked.
    std::function<void(const MqttMessage&)> on_message;
    /// @param reason  >= 128: the broker has dropped it
    std::function<void(int id, int reason)> on_acknowledged;
    std::function<void(const MqttEnd&)> on_ended;  ///< the last call
  };
  MqttSession(net::Loop& loop, MqttParams params, Callbacks callbacks);
  ~MqttSession();
  MqttSession(const MqttSession&) = delete;
  MqttSession& operator=(const MqttSession&) = delete;

  [[nodiscard]] bool is_connected() const noexcept { return connected_; }
  /// QoS 1, retain as published, retained messages are sent.
  void subscribe(const std::string& filter);
  /// @returns the id of its acknowledgement. nullopt: not connected, or nothing is taken.
  [[nodiscard]] std::optional<int> publish(const MqttPublication& message);
  /// DISCONNECT, and no more callbacks; the session stays at the broker for its time.
  void close();

 private:
  struct Hooks;
  void on_ready(bool readable, bool writable) noexcept override;
  void on_hangup() noexcept override;
  void join();
  [[nodiscard]] bool connect_to(const std::string& path);
  void read();
  void write();
  void tick();
  void forget_socket() noexcept;
  void end(MqttEnd end);

  net::Loop& loop_;
  MqttParams params_;
  Callbacks callbacks_;
  std::unique_ptr<MqttBridge> bridge_;
  mosquitto* client_ = nullptr;
  int fd_ = -1;  // a copy of the library's
  bool connected_ = false, ended_ = false, progress_ = false;
  TimePoint heard_{};
  net::Timer timer_;
  Alive alive_;
};

}  // namespace kintsugi::workers
