#include "workers/delivery/delivery.h"

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/digest.h"
#include "base/log.h"
#include "krm/path_prefixes.h"
#include "workers/delivery/agent/client_agent.h"
#include "workers/delivery/agent/manifest_work.h"
#include "workers/delivery/mqtt/broker_access.h"
#include "workers/runtime/control/outcome_of.h"

namespace kintsugi::workers {

namespace {

constexpr std::string_view kHolders = "delivery-holders";
constexpr std::string_view kOwnCluster = "-", kOwnName = "holder";  // of the journal's own row

/// Series of delivery_families(), by position.
enum Family : std::size_t {
  kMessages,
  kStatuses,
  kConnected,
  kOrders,
  kOutbox,
  kOutboxBytes,
  kWatches,
  kReverts,
  kConnects
};

std::vector<RoleFamily> delivery_families() {
  return {
      {"delivery_messages_total", "Messages of hubs, by what became of them.", true, {"result"}},
      {"delivery_statuses_total", "Statuses, by the broker's answer.", true, {"result"}},
      {"delivery_connected", "Clients with a connection to the broker.", false, {}},
      {"delivery_orders", "Objects that hubs have ordered.", false, {}},
      {"delivery_outbox_length", "Statuses that the broker has not acknowledged.", false, {}},
      {"delivery_outbox_bytes", "Bytes of these.", false, {}},
      {"delivery_watches", "Collections that are watched.", false, {}},
      {"delivery_reverts_total", "Changes of others that were taken back.", true, {}},
      {"delivery_connects_total", "Connections made to the broker.", true, {}}};
}

/// The controllers of one unit: which clients are ours, and what is done for their orders.
class Work final : public RoleWork {
 public:
  Work(Unit& unit, const DeliveryConfig& config)
      : unit_(unit),
        config_(config),
        work_(
            unit, config_, [this](const std::string& client) { return open_agent(client); },
            [this](const OrderName& order) { look(order, Priority::kLive); }),
        clients_(unit.control(named("client"), ring_key_of_client,
                              [this](Key key) { return take_client(std::move(key)); })),
        orders_(unit.control(orders_params(), ring_key_of_order,
                             [this](Key key) { return do_order(std::move(key)); })) {
    for (const std::string& text : config_.clients) {
      const DeliveryClient client = parse_delivery_client(text);
      by_id_[client.id].client = client;
    }
    unit.drive(clients_, [this](const Unit::Visit& visit) {
      for (const auto& [id, place] : by_id_) {
        visit({place.client.cluster, "", id});
      }
    });
    unit.when_partitions_go([this](const Unit::Goes& goes) {
      for (auto& [id, place] : by_id_) {
        if (place.agent != nullptr && goes(id)) {
          place.agent->close();
        }
      }
    });
    read_files();
  }

  [[nodiscard]] std::string not_ready() const override {
    if (!fault_.empty()) {
      return fault_;
    }
    for (const auto& [id, place] : by_id_) {
      if (!unit_.may_act(id)) {
        continue;
      }
      if (place.agent == nullptr || !place.agent->is_open()) {
        return "client " + id + ": is being taken over";
      }
      if (const std::string why = place.agent->trouble(); !why.empty()) {
        return "client " + id + ": " + why;
      }
    }
    return {};
  }

  void count(RoleSeries& out) const override {
    for (const auto& [id, place] : by_id_) {
      if (place.agent == nullptr) {
        continue;
      }
      const ClientAgent& agent = *place.agent;
      const DeliveryCounts& one = agent.counts();
      const auto add = [&out](Family family, std::vector<std::string> labels, double value) {
        out[{family, std::move(labels)}] += value;
      };
      for (const auto& [result, value] : {std::pair("taken", one.taken),
                                          {"same", one.same},
                                          {"older", one.older},
                                          {"refused", one.refused},
                                          {"forgotten", one.forgotten},
                                          {"ignored", one.ignored},
                                          {"without_id", one.without_id}}) {
        add(kMessages, {result}, static_cast<double>(value));
      }
      add(kStatuses, {"accepted"}, static_cast<double>(one.published));
      add(kStatuses, {"refused"}, static_cast<double>(one.refused_by_broker));
      add(kStatuses, {"dropped"}, static_cast<double>(agent.outbox().dropped()));
      add(kConnected, {}, agent.is_connected() ? 1 : 0);
      add(kOrders, {}, static_cast<double>(agent.records()));
      add(kOutbox, {}, static_cast<double>(agent.outbox().items()));
      add(kOutboxBytes, {}, static_cast<double>(agent.outbox().bytes()));
      add(kReverts, {}, static_cast<double>(one.reverts));
      add(kConnects, {}, static_cast<double>(one.connects));
    }
    out[{kWatches, {}}] += static_cast<double>(work_.watches());
  }

 private:
  struct Place {
    DeliveryClient client;
    std::unique_ptr<ClientAgent> agent;
  };

  static Controller::Params named(const char* name) {
    Controller::Params params;
    params.name = name;
    return params;
  }
  [[nodiscard]] Controller::Params orders_params() const {
    Controller::Params params = named("order");
    params.most = config_.reconciles;
    return params;
  }
  static std::string ring_key_of_client(const QueueKey& key) { return std::string(key.name); }
  static std::string ring_key_of_order(const QueueKey& key) { return std::string(key.ns); }

  void look(const OrderName& order, Priority priority) {
    orders_.add({order.cluster, order.client, order.uid}, priority);
  }

  [[nodiscard]] ClientAgent* open_agent(const std::string& client) const {
    const auto at = by_id_.find(client);
    return at == by_id_.end() || at->second.agent == nullptr || !at->second.agent->is_open()
               ? nullptr
               : at->second.agent.get();
  }

  /// What is wrong stands in /readyz.
  void read_files() {
    auto access = read_broker_access({config_.broker_url, config_.user, config_.password_file,
                                      config_.ca_file, config_.certificate_file, config_.key_file,
                                      config_.server_name});
    if (access) {
      broker_ = std::move(*access);
    } else {
      fault_ = "broker: " + std::string(access.error().message());
    }
  }

  /// A client whose partition became ours: connects it.
  net::Task<Outcome> take_client(Key key) {
    const Step step = unit_.step(clients_, key.view());
    const auto at = by_id_.find(key.name);
    if (at == by_id_.end() || !fault_.empty() || open_agent(key.name) != nullptr) {
      co_return Outcome::done();
    }
    if (unit_.journal() == nullptr) {
      fault_ = "has no journal";
      co_return Outcome::terminal();
    }
    net::Task<Expected<bool>> asking = held_last(key.name, step);
    const Expected<bool> held = co_await asking;
    if (!held) {
      co_return Outcome::error();
    }
    Place& place = at->second;
    if (place.agent == nullptr) {
      place.agent = make_agent(place.client);
    }
    const ClientAgent::Rows rows = take_rows(place.client);
    place.agent->open(step.epoch, *held, rows);
    co_return Outcome::done();
  }

  [[nodiscard]] std::unique_ptr<ClientAgent> make_agent(const DeliveryClient& client) {
    ClientAgent::Params params;
    params.client = client;
    params.config = config_;
    params.broker = broker_;
    params.folder = unit_.params().journal_directory;
    params.seed = unit_.params().seed ^ std::hash<std::string>{}(client.id);
    ClientAgent::Hooks hooks;
    hooks.look = [this, client](const std::string& uid) {
      look({client.cluster, client.id, uid}, Priority::kLive);
    };
    hooks.changed = [this, client](const std::string& uid, const ManifestRecord*,
                                   const ManifestRecord* after) {
      work_.changed({client.cluster, client.id, uid}, after != nullptr);
    };
    return std::make_unique<ClientAgent>(unit_.loop(), *unit_.journal(), std::move(params),
                                         std::move(hooks));
  }

  /// Rows of the journal, read once for all clients that are not open: theirs do not change. Again
  /// for one that comes back.
  ClientAgent::Rows take_rows(const DeliveryClient& client) {
    const std::string own = client.cluster + "\n" + client.id;
    if (rows_.find(own) == rows_.end()) {
      rows_.clear();
      for (const auto& [id, place] : by_id_) {
        if (place.agent == nullptr || !place.agent->is_open()) {
          rows_[place.client.cluster + "\n" + id];
        }
      }
      auto read =
          unit_.journal()->use().scan(0, [this](const JournalKey& at, const JournalRow& row) {
            const auto found = rows_.find(std::string(at.cluster) + "\n" + std::string(at.ns));
            if (found != rows_.end() && ClientAgent::is_kept(at.name)) {
              found->second.emplace_back(at.name, row.payload);
            }
            return true;
          });
      if (!read) {
        log_warn("the journal of orders cannot be read",
                 {{"err", std::string(read.error().message())}});
      }
    }
    const auto found = rows_.find(own);
    ClientAgent::Rows out = std::move(found->second);
    rows_.erase(found);
    return out;
  }

  /// Whether this journal had the client last, by a ConfigMap beside the Leases; says that it has
  /// it from now on.
  net::Task<Expected<bool>> held_last(std::string client, Step step) {
    const std::string path =
        krm::cluster_root(unit_.lease_cluster()) + "/api/v1/namespaces/kintsugi-system/configmaps";
    const std::string holder = own_name();
    const std::string row = sha256_hex(client).substr(0, 32);
    net::Task<ApiAnswer> asking = unit_.home().get(path + "/" + std::string(kHolders));
    const ApiAnswer there = co_await asking;
    if (!there.ok() && !there.says_missing()) {
      co_return fail(Errc::kUnavailable, there.text());
    }
    if (there.ok() && there.body.text({"data", row}) == holder) {
      co_return true;
    }
    ApiWrite write;
    write.kind = WriteKind::kLease;
    if (there.ok()) {
      write.method = "PUT";  // of several who write at a time one does
      write.path = path + "/" + std::string(kHolders);
      krm::Json next = there.body;
      next["data"][row] = holder;
      write.body = next.dump();
    } else {
      write.method = "POST";
      write.path = path;
      write.body = krm::Json::object({{"apiVersion", "v1"},
                                      {"kind", "ConfigMap"},
                                      {"metadata", krm::Json::object({{"name", kHolders}})},
                                      {"data", krm::Json::object({{row, holder}})}})
                       .dump();
    }
    net::Task<ApiAnswer> writing = unit_.write_home(step, std::move(write));
    const ApiAnswer answer = co_await writing;
    if (!answer.ok()) {
      co_return fail(Errc::kUnavailable, answer.text());
    }
    co_return false;
  }

  /// Of this journal, for ever.
  [[nodiscard]] std::string own_name() {
    const JournalKey key{kOwnCluster, "", kOwnName};
    auto row = unit_.journal()->use().get(0, key);
    if (row && *row) {
      return (*row)->payload;
    }
    const std::string name = unit_.params().ring.identity;
    (void)unit_.journal()->use().put(0, key, {0, {}, name});  // else another one the next time
    return name;
  }

  net::Task<Outcome> do_order(Key key) {
    const Step step = unit_.step(orders_, key.view());
    OrderName order{key.cluster, key.ns, key.name};
    net::Task<Outcome> working = work_.reconcile(std::move(order), step);
    Outcome outcome = co_await working;
    co_return outcome;
  }

  Unit& unit_;
  const DeliveryConfig config_;
  std::map<std::string, Place> by_id_;
  std::map<std::string, ClientAgent::Rows> rows_;
  ManifestWork work_;
  Controller& clients_;
  Controller& orders_;
  std::string fault_;
  BrokerAccess broker_;
};

}  // namespace

Role delivery_role(const DeliveryConfig& config) {
  return {"delivery",
          [config](Unit& unit) -> std::unique_ptr<RoleWork> {
            return std::make_unique<Work>(unit, config);
          },
          delivery_families(), false};
}

}  // namespace kintsugi::workers
