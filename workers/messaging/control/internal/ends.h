#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "net/task.h"
#include "workers/messaging/control/internal/certificates.h"
#include "workers/messaging/control/internal/directory.h"
#include "workers/messaging/control/internal/parts.h"
#include "workers/messaging/control/internal/secret_store.h"
#include "workers/runtime/client/api_client.h"

namespace kintsugi::workers {

class Site;

/// A connector or endpoint that is to be made: a copy, which outlives what it was read from.
struct PartInput {
  ObjectRefKey object;  ///< it, or its space
  std::string part;     ///< connector_part(), endpoint_part()
  Key infra;
  std::string space_id;
  std::string host;  ///< of an endpoint: what clients call it
  std::int64_t generation = 0;
  std::optional<MessagingConnector> connector;
  std::optional<MessagingEndpoint> endpoint;
  PartRecord record;
  /// Of its hashes and Secrets, the same for ever.
  [[nodiscard]] std::string identity() const;
};

/// Connectors and endpoints of one unit: what of Secrets they need, certificates that are made or
/// laid into folders for them, exports. What is secret is kept as Secret, here alone; certificates
/// and their keys are read, written and forgotten. Secrets that are referred to are read again
/// every minute (MessagingConfig::secrets), those with certificates that we made each tenth time.
/// Source: MS-068, MS-072, MS-090, MS-095. Threads: the unit's loop's.
class Ends {
 public:
  explicit Ends(Site& site) : site_(site), secrets_(site) {}
  Ends(const Ends&) = delete;
  Ends& operator=(const Ends&) = delete;

  /// What is known of one; nullptr before prepare().
  [[nodiscard]] const PartState* find(const ObjectRefKey& object, std::string_view part) const;
  /// Reads and writes what it needs; what is wrong with it is its state's `fault`. Does nothing
  /// while what is known is young enough. @returns kDone: find() knows it, as well as can be
  [[nodiscard]] net::Task<Outcome> prepare(PartInput input);
  /// When one of an object's parts is to be looked at again; 0: never.
  [[nodiscard]] Duration again(const ObjectRefKey& object) const;
  /// Validated=False/ForbiddenHost of a connector that would lead a router of the infra to itself,
  /// or to its neighbour.
  [[nodiscard]] std::optional<Condition> own_host(const Key& infra,
                                                  const MessagingConnector& connector) const;
  void set_ports(const ObjectRefKey& object, std::string_view part, ProtocolPorts ports);

  /// Deletes a Secret of the infra's namespace, of a folder that no router is told of any more.
  [[nodiscard]] net::Task<Outcome> remove_secret(ObjectRefKey object, Key infra, std::string name) {
    return secrets_.remove(std::move(object), std::move(infra), std::move(name));
  }
  /// All that was written for one; kDone: it is gone.
  [[nodiscard]] net::Task<Outcome> remove(PartInput input);
  /// Writes what an endpoint exports, if it is not so yet. @param object  as export_object() says
  [[nodiscard]] net::Task<Outcome> write_export(ObjectRefKey space, std::string_view resource,
                                                krm::Json object);
  /// The object and its parts are gone.
  void forget(const ObjectRefKey& object);
  /// An infra is not ours any more: what is known of its connectors and endpoints ends.
  void forget_infra(std::string_view infra);
  /// All secrets that are known now. nullopt: too many for that.
  [[nodiscard]] std::optional<Redactor> redactor() const;
  /// Parts whose names are not among these are gone.
  void keep_only(const ObjectRefKey& object, const std::vector<std::string>& parts);

 private:
  struct Read {
    Outcome outcome;
    Secret value;
    std::string version;
    bool missing = false;
  };
  struct Files {
    Outcome outcome;
    CertificateFiles files;
    std::optional<Condition> fault;
    std::int64_t ends = 0;
  };
  [[nodiscard]] static std::string id_of(const ObjectRefKey& object, std::string_view part);
  [[nodiscard]] net::Task<Read> read(ObjectRefKey object, SecretText text);
  [[nodiscard]] net::Task<Outcome> read_connector(PartInput input, PartState* state);
  [[nodiscard]] net::Task<Files> connector_files(PartInput input);
  [[nodiscard]] net::Task<Files> endpoint_files(PartInput input);
  [[nodiscard]] net::Task<Files> leaf(PartInput input);
  [[nodiscard]] net::Task<Outcome> lay(PartInput input, CertificateFiles files, PartState* state);
  [[nodiscard]] Duration read_again(const PartInput& input) const;
  void store(const std::string& id, PartState state);

  Site& site_;
  SecretStore secrets_;
  std::map<std::string, PartState, std::less<>> parts_;                             // by id_of()
  std::map<std::string, std::pair<std::size_t, TimePoint>, std::less<>> exported_;  // hash, when
};

}  // namespace kintsugi::workers
