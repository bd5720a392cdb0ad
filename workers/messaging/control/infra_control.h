#pragma once

#include "workers/messaging/control/internal/operators.h"
#include "workers/messaging/control/internal/router_certificates.h"
#include "workers/messaging/control/site.h"

namespace kintsugi::workers {

/// MessagingInfras: connections to their components, connectors from routers to brokers, room;
/// their status. Source: docs/spec/messaging.md. Threads: the unit's loop's.
class InfraControl {
 public:
  explicit InfraControl(Site& site) : site_(site), operators_(site), certificates_(site) {}

  [[nodiscard]] net::Task<Outcome> reconcile(Key key);
  /// The object is gone.
  void forget(const Key& key);

 private:
  [[nodiscard]] net::Task<Outcome> make(Key key);
  [[nodiscard]] net::Task<Outcome> take_away(Key key);
  /// Begins with it: its spaces and their addresses are known afterwards.
  OwnedInfra& begin(const Key& key, const MessagingInfra& object);
  /// Reads what operators have made, of an infra that leaves components to them. kDone: is known
  [[nodiscard]] net::Task<Outcome> look(Key key);
  [[nodiscard]] net::Task<Outcome> take_over(Key key);
  struct Applied {
    krm::Json status;
    OperatorPlan plan;
    bool operators = false;
    bool certificates = false;  ///< the routers that operators make need them
  };
  [[nodiscard]] Applied apply(const Key& key);
  [[nodiscard]] net::Task<Outcome> say(Key key, krm::Json status);
  /// Whoever has something on a broker whose connection came or went has a turn; all have one when
  /// there are, or were, fewer routers than it takes. @returns whether one came or went, which
  /// spaces tell
  [[nodiscard]] bool tell_of_connections(OwnedInfra& infra);

  Site& site_;
  Operators operators_;
  RouterCertificates certificates_;
};

}  // namespace kintsugi::workers
