#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/time.h"
#include "net/loop.h"
#include "workers/delivery/hub/hub_book.h"
#include "workers/delivery/mqtt/broker_access.h"
#include "workers/delivery/mqtt/mqtt_session.h"

namespace kintsugi::workers {

/// One visit to a broker: publishes, waits for answers where it is asked to, shows statuses.
/// Source: CM-29. Threads: the loop's.
class HubCall {
 public:
  /// What an order is answered by.
  struct Awaited {
    std::int64_t generation = 0;
    bool deletion = false;
  };
  struct Params {
    BrokerAccess broker;
    std::string folder;  ///< for a socket; exists
    std::string client, prefix = "v1/";
    std::vector<HubBook::Publication> publications;  ///< retained
    std::map<std::string, Awaited> awaited;          ///< by uid
    Duration patience{};                             ///< with `awaited`
    bool shows = false;    ///< statuses of all objects, until none comes for a second
    bool follows = false;  ///< with `shows`: for ever
    bool as_json = false;
  };
  enum class End : std::uint8_t {
    kDone,
    kRefused,  ///< an answer says that the client did not do it
    kBroker,   ///< no connection, or it does not take a message
    kTimeout,
  };
  /// @param show  a status, for people @param done  once; `why` is "" where the end says all. May
  /// not destroy this object
  HubCall(net::Loop& loop, Params params, std::function<void(const std::string&)> show,
          std::function<void(End, const std::string& why)> done);
  ~HubCall();
  HubCall(const HubCall&) = delete;
  HubCall& operator=(const HubCall&) = delete;

 private:
  void publish();
  void on_message(const MqttMessage& message);
  void on_acknowledged(int reason);
  void check();
  void wait_for_quiet();
  void end(End end, const std::string& why);

  net::Loop& loop_;
  Params params_;
  const std::function<void(const std::string&)> show_;
  const std::function<void(End, const std::string&)> done_;
  std::unique_ptr<MqttSession> session_;
  net::Timer patience_, quiet_;
  std::size_t unacknowledged_ = 0;
  bool published_ = false, refused_ = false, ended_ = false;
};

}  // namespace kintsugi::workers
