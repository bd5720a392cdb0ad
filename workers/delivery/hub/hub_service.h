#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "base/error.h"
#include "net/loop.h"
#include "workers/delivery/hub/hub_book.h"
#include "workers/delivery/hub/hub_files.h"
#include "workers/delivery/mqtt/broker_access.h"
#include "workers/delivery/mqtt/mqtt_session.h"
#include "workers/delivery/protocol/resync_message.h"

namespace kintsugi::workers {

/// A hub whose wishes are files: `<dir>/<client id>/*.yaml` is what that client is to have. What it
/// knows besides is in `.hub.json` there. Connects for ever. Source: CM-26, CM-27, CM-50 to CM-53.
/// Threads: the loop's.
class HubService {
 public:
  struct Params {
    BrokerAccess broker;
    std::string id = "kintsugi-hub";  ///< of its connection
    std::string dir;
    std::string folder;    ///< for a socket; exists
    HubBook::Params book;  ///< but for the client
    bool resync = false;   ///< compares statuses with what agents have
    bool gzip = false;
  };
  /// A line for people: a status, or what goes wrong.
  using Tell = std::function<void(const std::string&)>;

  HubService(net::Loop& loop, Params params, Tell tell);
  ~HubService();
  HubService(const HubService&) = delete;
  HubService& operator=(const HubService&) = delete;

  /// @error kIo, kConfig: the folder or a book in it cannot be read
  [[nodiscard]] Expected<void> start();
  /// Saves, and closes the connection in order.
  void stop();

 private:
  struct Client {
    Client(HubBook::Params params, const std::string& path)
        : path(path), folder(path), book(std::move(params)) {}
    std::string path;
    HubFolder folder;
    HubBook book;
    ResyncList list;
    std::string told;  // what is wrong with its folder
  };
  [[nodiscard]] Expected<void> find_clients();
  [[nodiscard]] Expected<void> add(const std::string& id);
  void look();
  void look(Client& client);
  void connect();
  void on_subscribed();
  void on_message(const MqttMessage& message);
  void on_ended(const MqttEnd& end);
  void subscribe(const std::string& id);
  void tell_hashes();
  void pump();
  [[nodiscard]] bool save(Client& client);

  net::Loop& loop_;
  const Params params_;
  const Tell tell_;
  std::map<std::string, Client, std::less<>> clients_;
  std::unique_ptr<MqttSession> session_;
  net::Timer look_, reconnect_, pump_, hashes_;
  bool pumping_ = false;
  unsigned failures_ = 0, ticks_ = 0;
};

/// One line of a status.
[[nodiscard]] std::string status_line(std::string_view client, std::string_view uid,
                                      const ReceivedStatus& status);

}  // namespace kintsugi::workers
