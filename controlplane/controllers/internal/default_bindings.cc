#include "controlplane/controllers/internal/default_bindings.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/digest.h"
#include "base/log.h"
#include "controlplane/controllers/internal/conditions.h"
#include "controlplane/controllers/lifecycle.h"
#include "controlplane/internal/names.h"
#include "krm/annotations.h"
#include "krm/status.h"

namespace kintsugi::controlplane {
namespace {

using krm::Json;

constexpr std::string_view kBindings = "apibindings";
constexpr std::string_view kCondition = "APIBindingsInitialized";
constexpr Duration kQuietWait = seconds(1);  // before it is worth a write to say so
constexpr Duration kLookAgain = seconds(5);

apiserver::ObjectKey cluster_key(const std::string& cluster) {
  return {cluster, std::string(kCoreGroup), std::string(kLogicalClusters), "",
          std::string(kClusterName)};
}

bool is_maintained(const FoundType& type) {
  return type.object.text({"spec", "defaultAPIBindingLifecycle"}) == "Maintain";
}

/// Where a type's reference to an export points when it does not say.
std::string export_path(const FoundType& type, const Json& reference) {
  const std::string_view path = reference.text({"path"});
  return path.empty() ? type.cluster : std::string(path);
}

Json accepted_claims(const Json& api_export) {
  Json claims = Json::array();
  if (const Json* wanted = api_export.at({"spec", "permissionClaims"})) {
    for (Json claim : wanted->items()) {
      const Json* offered = claim.find("defaultSelector");
      Json selector = offered != nullptr ? *offered : Json::object({{"matchAll", true}});
      claim["state"] = "Accepted";
      claim["selector"] = std::move(selector);
      claim.erase("defaultSelector");
      claims.push_back(std::move(claim));
    }
  }
  return claims;
}

bool is_same_claim(const Json& a, const Json& b) {
  const auto same = [&](std::string_view field) { return a.text({field}) == b.text({field}); };
  return same("group") && same("resource") && same("identityHash");
}

/// The claims that are wanted, with the selectors that the binding has: they never change.
Json with_selectors_of(const Json& binding, Json claims) {
  const Json* have = binding.at({"spec", "permissionClaims"});
  for (Json& claim : claims.edit_items()) {
    for (const Json& known : have == nullptr ? Json::Array() : have->items()) {
      const Json* selector = known.find("selector");
      if (selector != nullptr && is_same_claim(known, claim)) {
        claim["selector"] = *selector;
      }
    }
  }
  return claims;
}

/// Every claim is accepted, with whatever selector.
bool accepts(const Json& binding, const Json& claims) {
  const Json* have = binding.at({"spec", "permissionClaims"});
  const auto matches = [](const Json& a, const Json& b) {
    const Json* verbs = a.find("verbs");
    const Json* others = b.find("verbs");
    return is_same_claim(a, b) && a.text({"state"}) == b.text({"state"}) &&
           (verbs == nullptr || (others != nullptr && *verbs == *others));
  };
  return std::all_of(claims.items().begin(), claims.items().end(), [&](const Json& claim) {
    return have != nullptr && std::any_of(have->items().begin(), have->items().end(),
                                          [&](const Json& one) { return matches(claim, one); });
  });
}

/// A number of base 256, most significant digit first, in the alphabet of Go's big.Int.Text(62).
std::string base62(std::array<unsigned char, 28> number) {
  constexpr std::string_view kDigits =
      "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
  std::string text;
  while (std::any_of(number.begin(), number.end(), [](unsigned char byte) { return byte != 0; })) {
    unsigned rest = 0;
    for (unsigned char& byte : number) {
      const unsigned value = rest * 256U + byte;
      byte = static_cast<unsigned char>(value / kDigits.size());
      rest = value % static_cast<unsigned>(kDigits.size());
    }
    text += kDigits[rest];
  }
  std::reverse(text.begin(), text.end());
  return text;
}

}  // namespace

std::string default_binding_name(std::string_view cluster, std::string_view export_path,
                                 std::string_view export_name) {
  constexpr std::size_t kHash = 5;
  constexpr std::size_t kLongestPrefix = 253 - 1 - kHash;
  std::string whole(cluster);
  ((whole += '|') += export_path) += '|';
  whole += export_name;
  const std::string hash = to_lower(base62(sha224(whole)).substr(0, kHash));
  return std::string(export_name.substr(0, kLongestPrefix)) + "-" + hash;
}

struct DefaultBindings::Work {
  struct Wanted {
    std::string path, name;  // as the binding refers to it
    Json claims;
  };
  std::string cluster;
  Json object;  // the LogicalCluster
  bool initializing = false;
  std::vector<Wanted> wanted;
  bool some_missing = false;
  std::vector<std::pair<apiserver::ObjectKey, Json>> writes;
  std::size_t next = 0;
  std::vector<std::string> incomplete;
  Finished finished;
};

DefaultBindings::DefaultBindings(const apiserver::ControllerContext& context,
                                 const WorkspaceTypeLookup& types, ApiCatalog& catalog)
    : apiserver::ControllerBase(context, "kintsugi-default-bindings"),
      types_(types),
      catalog_(catalog) {}

void DefaultBindings::start() {
  follow(kCoreGroup, kLogicalClusters, [this](const apiserver::ApiServer::Change& change) {
    if (change.object == nullptr) {
      remove_cluster(change.cluster);
    } else {
      note_type(change.cluster, annotation(*change.object, krm::kTypeAnnotation));
      queue_.add(change.cluster);
    }
  });
  follow(kApisGroup, kBindings, [this](const apiserver::ApiServer::Change& change) {
    if (type_of_.find(change.cluster) != type_of_.end()) {
      queue_.add(change.cluster);
    }
  });
  catalog_.on_type(alive_.guard([this](std::string_view cluster, std::string_view name) {
    look_again([&](const std::vector<FoundType>& types) {
      return std::any_of(types.begin(), types.end(), [&](const FoundType& type) {
        return type.cluster == cluster && type.name == name;
      });
    });
  }));
  catalog_.on_export(alive_.guard([this](const ExportRef& changed) {
    look_again([&](const std::vector<FoundType>& types) {
      return std::any_of(types.begin(), types.end(), [&](const FoundType& type) {
        const Json* references = type.object.at({"spec", "defaultAPIBindings"});
        return references != nullptr &&
               std::any_of(references->items().begin(), references->items().end(),
                           [&](const Json& reference) {
                             return reference.text({"export"}) == changed.name &&
                                    catalog_.find_export(type.cluster, export_path(type, reference),
                                                         changed.name) == changed;
                           });
      });
    });
  }));
}

void DefaultBindings::add_cluster(std::string_view cluster) {
  if (const std::optional<Json> object = get(cluster_key(std::string(cluster)))) {
    note_type(cluster, annotation(*object, krm::kTypeAnnotation));
    queue_.add(cluster);
  }
}

void DefaultBindings::remove_cluster(std::string_view cluster) {
  note_type(cluster, {});
  waiting_since_.erase(std::string(cluster));
}

void DefaultBindings::note_type(std::string_view cluster, std::string_view type) {
  const auto known = type_of_.find(cluster);
  if (known != type_of_.end()) {
    if (known->second == type) {
      return;
    }
    const auto clusters = of_type_.find(known->second);
    clusters->second.erase(std::string(cluster));
    if (clusters->second.empty()) {
      of_type_.erase(clusters);
    }
    type_of_.erase(known);
  }
  if (!type.empty()) {
    type_of_.emplace(std::string(cluster), std::string(type));
    of_type_[std::string(type)].insert(std::string(cluster));
  }
}

void DefaultBindings::look_again(const Concerns& concerns) {
  for (const auto& [type, clusters] : of_type_) {
    const std::optional<FoundType> found = types_.type_of(reader(), *clusters.begin());
    // One that cannot be found may have been what this change brings.
    if (found && !concerns(types_.with_extended(reader(), *found))) {
      continue;
    }
    for (const std::string& cluster : clusters) {
      queue_.add(cluster);
    }
  }
}

void DefaultBindings::process(const std::string& cluster, Finished finished) {
  auto work = std::make_shared<Work>();
  work->cluster = cluster;
  work->finished = std::move(finished);
  std::optional<Json> object = get(cluster_key(cluster));
  const bool live = object && !apiserver::is_deleted(*object);
  work->initializing =
      live && waits_for(*object, Lifecycle::kInitializing, kApiBindingsInitializer);
  if (!live || (!work->initializing && object->text({"status", "phase"}) != "Ready")) {
    work->finished(true);
    return;
  }
  work->object = std::move(*object);
  const std::optional<FoundType> type = types_.type_of(reader(), cluster);
  if (!type) {
    const std::string name = annotation(work->object, krm::kTypeAnnotation);
    wait(work, "Error", "WorkspaceTypeInvalid",
         "error getting WorkspaceType " + name + ": workspacetypes.tenancy.kcp.io \"" +
             name.substr(name.rfind(':') + 1) + "\" not found");
    return;
  }
  collect(*work, types_.with_extended(reader(), *type));
  step(work);
}

/// What is wanted, and what has to be written for it.
void DefaultBindings::collect(Work& work, const std::vector<FoundType>& types) const {
  for (const FoundType& type : types) {
    const Json* references = type.object.at({"spec", "defaultAPIBindings"});
    if (references == nullptr || (!work.initializing && !is_maintained(type))) {
      continue;
    }
    for (const Json& reference : references->items()) {
      Work::Wanted wanted{
          export_path(type, reference), std::string(reference.text({"export"})), {}};
      const auto same = [&](const Work::Wanted& one) {
        return one.path == wanted.path && one.name == wanted.name;
      };
      if (std::any_of(work.wanted.begin(), work.wanted.end(), same)) {
        continue;
      }
      const std::optional<ExportRef> found =
          catalog_.find_export(type.cluster, wanted.path, wanted.name);
      const std::optional<Json> api_export = found ? catalog_.get_export(*found) : std::nullopt;
      if (!api_export) {
        work.some_missing = true;
        continue;
      }
      wanted.claims = accepted_claims(*api_export);
      work.wanted.push_back(std::move(wanted));
    }
  }
  std::vector<Json> bindings;
  reader().list(work.cluster, kApisGroup, kBindings, "", [&](const Json& binding) {
    bindings.push_back(binding);
    return true;
  });
  for (const Work::Wanted& wanted : work.wanted) {
    const auto found = std::find_if(bindings.begin(), bindings.end(), [&](const Json& binding) {
      return binding.text({"spec", "reference", "export", "path"}) == wanted.path &&
             binding.text({"spec", "reference", "export", "name"}) == wanted.name;
    });
    const std::string own_name = default_binding_name(work.cluster, wanted.path, wanted.name);
    const apiserver::ObjectKey key{work.cluster, std::string(kApisGroup), std::string(kBindings),
                                   "", own_name};
    if (found == bindings.end()) {
      Json binding = Json::object({{"apiVersion", "apis.kcp.io/v1alpha2"}, {"kind", "APIBinding"}});
      binding.make({"metadata", "name"}) = own_name;
      binding.make({"spec", "reference", "export"}) =
          Json::object({{"path", wanted.path}, {"name", wanted.name}});
      if (wanted.claims.size() > 0) {
        binding.make({"spec", "permissionClaims"}) = wanted.claims;
      }
      work.writes.emplace_back(key, std::move(binding));
      work.incomplete.push_back("for APIExport " + wanted.path + "|" + wanted.name);
      continue;
    }
    if (found->text({"metadata", "name"}) == own_name && !apiserver::is_deleted(*found) &&
        !accepts(*found, wanted.claims)) {
      Json binding = *found;
      binding.make({"spec", "permissionClaims"}) = with_selectors_of(binding, wanted.claims);
      work.writes.emplace_back(key, std::move(binding));
    }
    const Json* bound = apiserver::find_condition(*found, "InitialBindingCompleted");
    if (bound == nullptr || bound->text({"status"}) != "True") {
      work.incomplete.emplace_back(found->text({"metadata", "name"}));
    }
  }
}

void DefaultBindings::step(const WorkPtr& work) {
  if (work->next == work->writes.size()) {
    conclude(work);
    return;
  }
  auto& [key, object] = work->writes[work->next++];
  const auto written = [this, work, name = key.name](Expected<Json> stored) {
    if (!stored && stored.error().code() != Errc::kAlreadyExists) {
      log_warn("default APIBinding cannot be written",
               {{"cluster", work->cluster}, {"name", name}, {"error", stored.error().to_string()}});
      work->finished(false);
      return;
    }
    step(work);
  };
  if (apiserver::uid_of(object).empty()) {
    create(key, std::move(object), written);
  } else {
    update(key, "", std::move(object), written);
  }
}

void DefaultBindings::conclude(const WorkPtr& work) {
  if (work->some_missing) {
    wait(work, "Error", "APIBindingErrors",
         "encountered errors: unable to complete initialization: unable to find at least 1 "
         "APIExport");
    return;
  }
  if (!work->incomplete.empty()) {
    std::sort(work->incomplete.begin(), work->incomplete.end());
    wait(work, "Info", "WaitingOnAPIBindings",
         "APIBinding(s) not yet fully bound: " + join(work->incomplete, ", "));
    return;
  }
  waiting_since_.erase(work->cluster);
  if (!work->initializing) {
    work->finished(true);
    return;
  }
  Json object = work->object;
  Json left = Json::array();
  for (const std::string& name : waiting_names(object, Lifecycle::kInitializing)) {
    if (name != kApiBindingsInitializer) {
      left.push_back(Json(name));
    }
  }
  Json& status = object.make({"status"});
  if (left.size() > 0) {
    status["initializers"] = std::move(left);
  } else {
    status.erase("initializers");
  }
  set_kcp_condition(object, kCondition, "True");
  write_status(work, std::move(object));
}

/// Changes of what is missing queue the cluster again. Says so when a new cluster waits for longer
/// than usual.
void DefaultBindings::wait(const WorkPtr& work, std::string_view severity, std::string_view reason,
                           const std::string& message) {
  if (!work->initializing) {
    work->finished(true);
    return;
  }
  const auto [since, is_new] = waiting_since_.try_emplace(work->cluster, Clock::now());
  queue_.add_once_after(work->cluster, is_new ? kQuietWait : kLookAgain);
  Json object = work->object;
  if (Clock::now() - since->second < kQuietWait ||
      !set_kcp_condition(object, kCondition, "False", severity, reason, message)) {
    work->finished(true);
    return;
  }
  write_status(work, std::move(object));
}

void DefaultBindings::write_status(const WorkPtr& work, Json object) {
  update(cluster_key(work->cluster), "status", std::move(object),
         [work](Expected<Json> stored) { work->finished(stored.has_value()); });
}

}  // namespace kintsugi::controlplane
