#include "workers/messaging/messaging.h"

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/alive.h"
#include "workers/messaging/control/address_control.h"
#include "workers/messaging/control/connector_control.h"
#include "workers/messaging/control/counts.h"
#include "workers/messaging/control/endpoint_control.h"
#include "workers/messaging/control/failures.h"
#include "workers/messaging/control/infra_control.h"
#include "workers/messaging/control/namespace_control.h"
#include "workers/messaging/control/plan_control.h"
#include "workers/messaging/control/site.h"
#include "workers/messaging/control/space_control.h"

namespace kintsugi::workers {

namespace {

/// The controllers of one unit, and what they are told by.
class Work final : public RoleWork {
 public:
  Work(Unit& unit, const MessagingConfig& config)
      : site_(unit, config),
        infras_(site_),
        spaces_(site_),
        addresses_(site_),
        connectors_(site_),
        endpoints_(site_),
        namespaces_(site_),
        plans_(site_) {
    add(MessagingKind::kInfra, *site_.directory().infras,
        [this](Key key) { return infras_.reconcile(std::move(key)); });
    for (const MessagingKind kind :
         {MessagingKind::kAddressSpace, MessagingKind::kTenant, MessagingKind::kProject}) {
      add(kind, site_.directory().spaces_of(kind), [this, kind](Key key) {
        return spaces_.reconcile({kind, std::move(key)});
      });
    }
    for (const MessagingKind kind : {MessagingKind::kAddress, MessagingKind::kMessagingAddress}) {
      add(kind, site_.directory().addresses_of(kind), [this, kind](Key key) {
        return addresses_.reconcile({kind, std::move(key)});
      });
    }
    add_ends();
    for (const MessagingKind kind :
         {MessagingKind::kAddressSpacePlan, MessagingKind::kMessagingPlan}) {
      auto& cache = kind == MessagingKind::kMessagingPlan ? *site_.directory().messaging_plans
                                                          : *site_.directory().space_plans;
      add(kind, cache, [this, kind](Key key) { return plans_.reconcile({kind, std::move(key)}); });
      cache.add_handler(
          [this, kind](const CacheChange& change) { plans_.plan_changed(ref(kind, change.key)); });
    }
    for (const MessagingKind kind :
         {MessagingKind::kAddressPlan, MessagingKind::kMessagingAddressPlan}) {
      add(kind, address_plans(kind), [this, kind](Key key) {
        return plans_.reconcile_address_plan({kind, std::move(key)});
      });
    }
    add(MessagingKind::kNamespace, *site_.directory().namespaces,
        [this](Key key) { return namespaces_.reconcile(std::move(key)); });
    follow_plans();
    follow_tenants();
    site_.directory().when_synced(alive_.guard([this] { begin(); }));
    unit.when_partitions_go([this](const Unit::Goes& goes) { site_.disown_lost(goes); });
    unit.when_clusters_go([this](std::string_view cluster) {
      site_.disown_lost([prefix = std::string(cluster) + "|"](std::string_view ring_key) {
        return ring_key.starts_with(prefix);
      });
    });
  }

  [[nodiscard]] std::string not_ready() const override { return site_.not_ready(); }
  void count(RoleSeries& out) const override { count_messaging(site_, out); }
  void add_errors(krm::Json& list) const override { add_failures(site_, list); }
  void count_placements(PlacementCounts& out) const override {
    count_messaging_placements(site_, out);
  }

 private:
  static ObjectRefKey ref(MessagingKind kind, const shards::ObjectKey& key) {
    return {kind, {std::string(key.cluster), std::string(key.ns), std::string(key.name)}};
  }

  /// Nothing is decided before all is read: until then no key has its turn, which would be for
  /// nothing.
  void begin() {
    if (site_.directory().synced()) {
      for (Controller* const one : controllers_) {
        one->set_waiting(false);
      }
    }
  }

  void add_ends() {
    add(MessagingKind::kConnector, *site_.directory().connectors, [this](Key key) {
      return connectors_.reconcile({MessagingKind::kConnector, std::move(key)});
    });
    add(MessagingKind::kEndpoint, *site_.directory().endpoints, [this](Key key) {
      return endpoints_.reconcile({MessagingKind::kEndpoint, std::move(key)});
    });
  }

  template <class T, class Reconcile>
  void add(MessagingKind kind, ObjectCache<T>& cache, Reconcile reconcile) {
    Unit& unit = site_.unit();
    Controller::Params params;
    params.name = controller_name(kind);
    params.most = site_.config().reconciles;
    Controller& controller = unit.control(
        std::move(params),
        [this, kind](const QueueKey& key) { return site_.directory().ring_key(kind, key); },
        std::move(reconcile));
    controller.set_waiting(true);
    controllers_.push_back(&controller);
    site_.set_controller(kind, controller);
    // Before the controller: what is gone leaves at once, whoever its key's owner is by now; but
    // what is gone since its cluster moves is not deleted.
    cache.add_handler([this, kind, &cache](const CacheChange& change) {
      site_.unit().when_deleted(cache, change,
                                [this, object = ref(kind, change.key)] { forget(object); });
    });
    unit.drive(controller, cache);
  }

  void forget(const ObjectRefKey& object) {
    switch (object.kind) {
      case MessagingKind::kInfra:
        return infras_.forget(object.key);
      case MessagingKind::kAddress:
      case MessagingKind::kMessagingAddress:
        return addresses_.forget(object);
      case MessagingKind::kConnector:
        return connectors_.forget(object);
      case MessagingKind::kEndpoint:
        return endpoints_.forget(object);
      case MessagingKind::kAddressSpacePlan:
      case MessagingKind::kMessagingPlan:
      case MessagingKind::kAddressPlan:
      case MessagingKind::kMessagingAddressPlan:
      case MessagingKind::kNamespace:
        return;  // nothing is kept of them
      default:
        return spaces_.forget(object);
    }
  }

  /// A plan, a namespace or an infra concerns spaces, an address plan addresses. What we write to
  /// statuses does not, which is as often as something in any space changes, but for whether an
  /// infra is active.
  void follow_plans() {
    const Directory& directory = site_.directory();
    const auto look = [this] {
      site_.directory().each_space([this](MessagingKind kind, const QueueKey& key) {
        site_.look_at(kind, key, Priority::kRetry);
      });
    };
    const auto says_more = [](const CacheChange& change) {
      return !change.initial && !change.echo && !change.minor;
    };
    const auto spaces = [look, says_more](const CacheChange& change) {
      if (says_more(change)) {
        look();
      }
    };
    directory.space_plans->add_handler(spaces);
    directory.messaging_plans->add_handler(spaces);
    directory.infras->add_handler([this, look, says_more](const CacheChange& change) {
      const bool turned = infra_turned(change.key);
      if (says_more(change) || (turned && !change.initial)) {
        look();
      }
    });
    // Its labels choose plans and infras of those in it.
    directory.namespaces->add_handler([this, says_more](const CacheChange& change) {
      if (says_more(change)) {
        site_.directory().each_space([this, &change](MessagingKind kind, const QueueKey& key) {
          if (key.cluster == change.key.cluster && key.ns == change.key.name) {
            site_.look_at(kind, key, Priority::kRetry);
          }
        });
      }
    });
    for (const MessagingKind kind :
         {MessagingKind::kAddressPlan, MessagingKind::kMessagingAddressPlan}) {
      address_plans(kind).add_handler([this, kind](const CacheChange& change) {
        if (!plans_.address_plan_changed(ref(kind, change.key)) || change.initial) {
          return;
        }
        // By name, and those without one: it may be the default.
        for (const std::string_view plan : {change.key.name, std::string_view()}) {
          site_.directory().each_address_with_plan(plan,
                                                   [this](MessagingKind of, const QueueKey& key) {
                                                     site_.look_at(of, key, Priority::kRetry);
                                                   });
        }
      });
    }
  }

  /// Whether it has become active, or is no longer.
  [[nodiscard]] bool infra_turned(const shards::ObjectKey& key) {
    const ObjectRefKey infra = ref(MessagingKind::kInfra, key);
    const CachedInfra* const cached = Directory::find(*site_.directory().infras, infra.key.view());
    return cached != nullptr && cached->active ? active_infras_.insert(text_of(infra)).second
                                               : active_infras_.erase(text_of(infra)) > 0;
  }

  [[nodiscard]] ObjectCache<CachedAddressPlan>& address_plans(MessagingKind kind) const {
    return kind == MessagingKind::kAddressPlan ? *site_.directory().address_plans
                                               : *site_.directory().messaging_address_plans;
  }

  /// A tenant concerns its namespace, its endpoints and connectors; these concern it, too.
  void follow_tenants() {
    const Directory& directory = site_.directory();
    for (const MessagingKind kind :
         {MessagingKind::kAddressSpace, MessagingKind::kTenant, MessagingKind::kProject}) {
      directory.spaces_of(kind).add_handler([this, kind](const CacheChange& change) {
        plans_.space_changed(ref(kind, change.key));
        if (const auto other = site_.directory().namesake(ref(kind, change.key));
            other && !change.initial && change.kind != CacheChange::Kind::kUpdated) {
          site_.look_at(other->key);  // which of the two counts may be another one now
        }
        if (change.kind == CacheChange::Kind::kAdded && !change.initial) {
          // One that is shown again was never gone from its infra: its addresses said that it was.
          site_.look_at_addresses(ref(kind, change.key));
        }
        if (kind != MessagingKind::kAddressSpace && !change.initial) {
          site_.look_at(MessagingKind::kNamespace, {change.key.cluster, "", change.key.ns});
          if (change.kind != CacheChange::Kind::kUpdated) {
            // Which of the two counts may be another one now.
            for (const MessagingKind each : {MessagingKind::kTenant, MessagingKind::kProject}) {
              site_.look_at(each, {change.key.cluster, change.key.ns, change.key.name});
            }
          }
          site_.directory().each_end_of(change.key.cluster, change.key.ns,
                                        [this](MessagingKind end, const QueueKey& key) {
                                          site_.look_at(end, key, Priority::kRetry);
                                        });
        }
      });
    }
    const auto tenant = [this](const CacheChange& change) {
      if (const auto of = site_.directory().tenant(change.key.cluster, change.key.ns);
          of && !change.initial) {
        site_.look_at(of->key);
      }
    };
    directory.endpoints->add_handler(tenant);
    directory.connectors->add_handler([this](const CacheChange& change) {
      // Addresses forward to it by its name.
      if (const auto of = site_.directory().tenant(change.key.cluster, change.key.ns);
          of && !change.initial && change.kind != CacheChange::Kind::kUpdated) {
        site_.look_at_addresses(of->key);
      }
    });
    directory.infras->add_handler([this](const CacheChange& change) {
      plans_.infra_changed({change.key.cluster, change.key.ns, change.key.name});
    });
  }

  Site site_;
  std::set<std::string> active_infras_;  // by text_of()
  InfraControl infras_;
  SpaceControl spaces_;
  AddressControl addresses_;
  ConnectorControl connectors_;
  EndpointControl endpoints_;
  NamespaceControl namespaces_;
  PlanControl plans_;
  std::vector<Controller*> controllers_;  // the unit's
  Alive alive_;
};

}  // namespace

Role messaging_role(const MessagingConfig& config) {
  return {"messaging",
          [config](Unit& unit) -> std::unique_ptr<RoleWork> {
            return std::make_unique<Work>(unit, config);
          },
          messaging_families(), true};
}

}  // namespace kintsugi::workers
