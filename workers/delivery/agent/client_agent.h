#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/alive.h"
#include "net/loop.h"
#include "workers/delivery/agent/agent_resync.h"
#include "workers/delivery/agent/manifest_record.h"
#include "workers/delivery/agent/status_outbox.h"
#include "workers/delivery/agent/target.h"
#include "workers/delivery/delivery_config.h"
#include "workers/delivery/mqtt/broker_access.h"
#include "workers/delivery/mqtt/mqtt_session.h"
#include "workers/delivery/protocol/topics.h"
#include "workers/runtime/journal/journal_keeper.h"

namespace kintsugi::workers {

/// For delivery_…_total.
struct DeliveryCounts {
  std::uint64_t taken = 0, same = 0, older = 0, refused = 0, forgotten = 0, ignored = 0,
                without_id = 0;
  std::uint64_t published = 0, refused_by_broker = 0, connects = 0, reverts = 0;
};

/// One client id: its connection, the last orders for each uid, its statuses on their way. What is
/// taken is in the journal before it is acknowledged. Source: CM-30.
/// Threads: its loop's. Lifetime: the journal outlives it.
class ClientAgent {
 public:
  struct Params {
    DeliveryClient client;
    DeliveryConfig config;
    BrokerAccess broker;
    std::string folder;
    std::uint64_t seed = 1;
  };
  struct Hooks {
    /// There is something to do for it.
    std::function<void(const std::string& uid)> look;
    /// What was known of it, and what is from now on; null: nothing.
    std::function<void(const std::string& uid, const ManifestRecord* before,
                       const ManifestRecord* after)>
        changed;
  };
  ClientAgent(net::Loop& loop, JournalKeeper& journal, Params params, Hooks hooks);
  ~ClientAgent();
  ClientAgent(const ClientAgent&) = delete;
  ClientAgent& operator=(const ClientAgent&) = delete;

  [[nodiscard]] const DeliveryClient& client() const noexcept { return params_.client; }
  /// What the journal has of a client, in rows of the client's cluster and id: names and texts of
  /// those that is_kept() says.
  using Rows = std::vector<std::pair<std::string, std::string>>;
  [[nodiscard]] static bool is_kept(std::string_view row) noexcept;
  /// Goes on with what the journal has, then connects, for ever. @param epoch  above all earlier
  /// ones of this client @param journal_holds  false: another process had the client meanwhile, and
  /// the rows are erased
  void open(std::uint32_t epoch, bool journal_holds, const Rows& rows);
  /// Ends the connection at once; what is known stays in the journal.
  void close();
  [[nodiscard]] bool is_open() const noexcept { return open_; }

  /// Null: there is no order.
  [[nodiscard]] const ManifestRecord* find(std::string_view uid) const;
  [[nodiscard]] std::size_t records() const noexcept { return records_.size(); }
  void each(const std::function<void(const std::string& uid, const ManifestRecord&)>& visit) const;
  /// The manifest of a record; nullopt: the journal has lost it.
  [[nodiscard]] std::optional<krm::Json> manifest(const std::string& uid);
  /// Writes down how far it is. No effect when another order came meanwhile: the generation and
  /// hash are not those of `record`. @returns whether it is still the order
  bool update(const std::string& uid, const ManifestRecord& record);
  /// Gives a status out where it says something new, or the order has no answer yet.
  void tell(const std::string& uid, ManifestRecord record, const DeliveryStatus& status);

  [[nodiscard]] const DeliveryCounts& counts() const noexcept { return counts_; }
  [[nodiscard]] DeliveryCounts& counts() noexcept { return counts_; }
  [[nodiscard]] const StatusOutbox& outbox() const noexcept { return outbox_; }
  [[nodiscard]] bool is_connected() const noexcept {
    return session_ != nullptr && session_->is_connected();
  }
  /// "": connected, or not open.
  [[nodiscard]] std::string trouble() const;

 private:
  void connect();
  void on_connected(bool present);
  void on_message(const MqttMessage& message);
  void order(const DeliveryTopic& topic, const MqttMessage& message);
  void refuse(const DeliveryTopic& topic, const RefusedMessage& refused, std::string hash);
  void give_out(const std::string& uid, const RefusalRecord& refusal);
  [[nodiscard]] bool write(const std::string& uid, const RefusalRecord& refusal);
  void forget(const std::string& uid);
  void tell_again(const std::string& uid);
  void take_list(const DeliveryTopic& topic, const MqttMessage& message);
  [[nodiscard]] std::vector<ResyncItem> orders() const;
  [[nodiscard]] std::vector<ResyncItem> statuses(std::string_view prefix) const;
  void send_list(const std::string& batch);
  void on_ended(const MqttEnd& end);
  void pump();
  [[nodiscard]] JournalKey key(const std::string& name) const;
  [[nodiscard]] bool write(const std::string& uid, const ManifestRecord& record,
                           const krm::Json* manifest);
  [[nodiscard]] bool erase(const std::string& uid);
  void on_acknowledged(const std::optional<std::string>& uid);
  void give_out(const std::string& uid, const std::string& prefix, const std::string& id,
                std::int64_t generation, const DeliveryStatus& status, bool must);

  net::Loop& loop_;
  JournalKeeper& journal_;
  Params params_;
  Hooks hooks_;
  std::map<std::string, ManifestRecord, std::less<>> records_;
  std::map<std::string, RefusalRecord, std::less<>> refusals_;
  std::unique_ptr<AgentResync> resync_;  // null: off
  StatusOutbox outbox_;
  DeliveryCounts counts_;
  std::unique_ptr<MqttSession> session_;
  net::Timer reconnect_, pump_;
  std::minstd_rand random_;
  std::string trouble_ = "is not connected yet", refusal_;
  std::uint32_t epoch_ = 0, sequence_ = 0;
  unsigned failures_ = 0;
  std::size_t unsubscribed_ = 0;  // prefixes whose subscription the broker has not confirmed
  bool open_ = false, asked_ = false, unwritten_ = false, hub_packs_ = false;
  Alive alive_;
};

}  // namespace kintsugi::workers
