#include "workers/messaging/control/internal/teller.h"

#include <array>
#include <optional>
#include <utility>

#include "workers/messaging/control/site.h"
#include "workers/runtime/status/conditions.h"

namespace kintsugi::workers {

namespace {

struct Told {
  std::string_view type;
  std::string_view when_true;  ///< reason; "": that it holds is no news
};
constexpr std::array<Told, 14> kTold{{
    {"Validated", ""},
    {"PlanFound", ""},
    {"InfraFound", ""},
    {"Feasible", ""},
    {"InfraBound", "Bound"},
    {"Scheduled", "Scheduled"},
    {"ConfiguredTLS", ""},
    {"AllocatedPorts", ""},
    {"TopologySupported", ""},
    {"GroupsSpread", ""},
    {"BrokerHA", ""},
    {"NetworkPolicySupported", ""},
    {"Migrated", "Migrated"},
    {"Ready", "Ready"},
}};

bool is_passing(std::string_view reason) {
  return reason.starts_with("Waiting") || reason == "Terminating";
}

/// True, but not as it should be.
bool is_poor(std::string_view reason) { return reason == "BrokerGone" || reason == "Degraded"; }

std::string hosts_of(const krm::Json& status) {
  std::string out(status.text({"broker", "host"}));
  if (const krm::Json* const brokers = status.find("brokers")) {
    for (const krm::Json& one : brokers->items()) {
      out.append(out.empty() ? "" : ", ").append(one.text({"host"}));
    }
  }
  return out;
}

std::string good_note(std::string_view type, const krm::Json& status) {
  if (type == "InfraBound") {
    const std::string_view ns = status.text({"infra", "namespace"});
    return "bound to infra " + std::string(ns) + "/" + std::string(status.text({"infra", "name"}));
  }
  if (type == "Scheduled") {
    return "placed on " + hosts_of(status);
  }
  return type == "Ready" ? "it is ready" : "done";
}

std::optional<Tale> tale_of(const Told& told, const krm::Json& from, const krm::Json& to) {
  const krm::Json* const now = find_condition(to, told.type);
  if (now == nullptr) {
    return std::nullopt;
  }
  const krm::Json* const before = find_condition(from, told.type);
  const std::string_view was = before == nullptr ? "" : before->text({"status"});
  const std::string_view was_for = before == nullptr ? "" : before->text({"reason"});
  const std::string_view is = now->text({"status"}), why = now->text({"reason"});
  if (was == is && was_for == why) {
    return std::nullopt;
  }
  const std::string message(now->text({"message"}));
  const auto warning = [&] {
    return Tale{true, std::string(why), message.empty() ? "it is so" : message};
  };
  if (is == "False") {
    const bool begins = told.type == "Ready" && was != "True";
    return begins || is_passing(why) ? std::nullopt : std::optional(warning());
  }
  if (is != "True") {
    return std::nullopt;
  }
  if (is_poor(why)) {
    return warning();
  }
  const bool news = was != "True" || is_poor(was_for);
  if (!news || told.when_true.empty() || why == "NotNeeded") {
    return std::nullopt;
  }
  return Tale{false, std::string(told.when_true),
              message.empty() ? good_note(told.type, to) : message};
}

}  // namespace

std::vector<Tale> tales_of(const krm::Json& from, const krm::Json& to) {
  std::vector<Tale> out;
  for (const Told& told : kTold) {
    if (std::optional<Tale> one = tale_of(told, from, to)) {
      out.push_back(std::move(*one));
    }
  }
  return out;
}

std::string_view entity_type_text(EntityKind kind) noexcept {
  switch (kind) {
    case EntityKind::kAddress:
      return "address";
    case EntityKind::kAutoLink:
      return "autoLink";
    case EntityKind::kLinkRoute:
      return "linkRoute";
    case EntityKind::kConnector:
      return "connector";
    case EntityKind::kListener:
      return "listener";
    case EntityKind::kSslProfile:
      return "sslProfile";
    case EntityKind::kVhost:
      return "vhost";
    case EntityKind::kBrokerAddress:
      return "brokerAddress";
    case EntityKind::kQueue:
      return "queue";
    case EntityKind::kAddressSettings:
      return "addressSettings";
    case EntityKind::kDivert:
      return "divert";
  }
  return "";
}

Tale tale_of(const DriftRepair& repair, ComponentKind kind, std::string_view host) {
  std::string note(kind == ComponentKind::kRouter ? "router " : "broker ");
  note.append(host)
      .append(": ")
      .append(entity_type_text(repair.kind))
      .append(" ")
      .append(repair.name);
  switch (repair.cause) {
    case DriftRepair::Cause::kMissing:
      note += " was missing and is made again";
      break;
    case DriftRepair::Cause::kDifferent:
      note += " was another one and is set right";
      break;
    case DriftRepair::Cause::kOrphan:
      note += " is nobody's and is deleted";
      break;
    case DriftRepair::Cause::kForeign:
      note += " is wanted by nothing and stays";
      return {true, "ForeignEntity", std::move(note)};
  }
  return {true, "DriftRepaired", std::move(note)};
}

Tale tale_of_classes(std::string_view broker) {
  // The same text each time, so that it is one series.
  return {true, "ManySettingsClasses",
          "broker " + std::string(broker) + " has more than " +
              std::to_string(kManySettingsClasses) +
              " settings classes: new addresses take longer there"};
}

Teller::Teller(Site& site)
    : site_(site),
      events_(site.unit(), {.controller = "kintsugi.dev/messaging", .instance = site.owner()}) {}

void Teller::tell(const ObjectRefKey& object, std::string_view uid, const Tale& tale) {
  const Resource& resource = resource_of(object.kind);
  const std::string version =
      resource.group.empty() ? resource.version : resource.group + "/" + resource.version;
  events_.tell({object.key.cluster, version, resource.kind, object.key.ns, object.key.name, uid},
               tale, [this, object] { return site_.step(object); });
}

}  // namespace kintsugi::workers
