// From an object of the hub to its name and the way to its server.
#include <algorithm>
#include <utility>

#include "base/strings.h"
#include "krm/request_info.h"
#include "topology/fleet/internal/member.h"

namespace kintsugi::topology {

using krm::Json;

namespace {

constexpr std::string_view kSecretValue = "value";

/// Names of objects may have dots, those of logical clusters not.
std::string cluster_name(std::string_view text) {
  std::string out(text);
  std::replace(out.begin(), out.end(), '.', '-');
  return out;
}

}  // namespace

std::optional<FleetFault> Fleet::name(Member& member) {
  if (!member.name.empty()) {
    return std::nullopt;
  }
  const auto taken_by = [&](auto has) {
    const auto found = std::find_if(members_.begin(), members_.end(), [&](const auto& one) {
      return one.second.get() != &member && has(*one.second);
    });
    return found == members_.end() ? std::string() : found->first;
  };
  if (std::string other = taken_by([&](const Member& one) { return one.uid == member.uid; });
      !other.empty()) {
    return FleetFault{FleetReason::kNameTaken, "its uid is that of " + other};
  }
  const auto named = static_cast<std::size_t>(std::count_if(
      members_.begin(), members_.end(), [](const auto& one) { return !one.second->name.empty(); }));
  if (named >= kMost) {
    return FleetFault{FleetReason::kTooMany, "a proxy has at most " + std::to_string(kMost)};
  }
  const std::string qualified = cluster_name(member.object.ns + "-" + member.object.name);
  std::vector<std::string> wanted = {cluster_name(member.object.name), qualified};
  if (options_.qualified) {
    wanted.erase(wanted.begin());
  }
  FleetFault fault{FleetReason::kBadName, "\"" + wanted.back() +
                                              "\" cannot be the name of a logical cluster: more "
                                              "than 63 letters, digits and '-'"};
  for (const std::string& text : wanted) {
    if (!krm::is_cluster_name(text)) {
      continue;
    }
    const std::string other = taken_by([&](const Member& one) { return one.name == text; });
    if (other.empty()) {
      member.name = text;
      return std::nullopt;
    }
    fault = {FleetReason::kNameTaken, "\"" + text + "\" is the name of " + other};
  }
  return fault;
}

Judged<FleetAccess> Fleet::kubeconfig(const std::string& secret, const std::string& key,
                                      std::string_view context) const {
  const auto found = secrets_.find(secret);
  if (found == secrets_.end()) {
    return fault(FleetReason::kNoSecret, "there is no Secret " + secret);
  }
  const auto value = found->second.find(key);
  if (value == found->second.end()) {
    return fault(FleetReason::kNoSecret, "Secret " + secret + " has no key \"" + key + "\"");
  }
  auto text = base64_decode(value->second.view());
  if (!text) {
    return fault(FleetReason::kBadKubeconfig, "Secret " + secret + ": is not base64");
  }
  auto access = read_fleet_kubeconfig(*text, context, options_, servers_);
  wipe(*text);
  if (!access) {
    access.error().message.insert(0, "Secret " + secret + ": ");
  }
  return access;
}

/// The profile's own words on the server go before the kubeconfig's.
Judged<FleetAccess> Fleet::by_secret(const Member& member, const Json& cluster) const {
  auto secret = secret_of(member.object, cluster);
  if (!secret) {
    return tl::unexpected<FleetFault>(std::move(secret.error()));
  }
  auto access = kubeconfig(place_of(member.object.ns, secret->name), secret->key, secret->context);
  if (!access || cluster.text({"server"}).empty()) {
    return access;
  }
  auto said = read_fleet_cluster(cluster, options_, servers_);
  if (!said) {
    return said;
  }
  access->server = said->server;
  access->server_name = said->server_name.empty() ? access->server_name : said->server_name;
  access->proxy_url = said->proxy_url.empty() ? access->proxy_url : said->proxy_url;
  access->ca_pem = said->ca_pem.empty() ? access->ca_pem : said->ca_pem;
  access->insecure = said->insecure || access->insecure;
  return access;
}

Judged<FleetAccess> Fleet::of_cluster_api(const Member& member) const {
  return kubeconfig(member.key.substr(kSecretPrefix.size()), std::string(kSecretValue), {});
}

Judged<std::optional<FleetAccess>> Fleet::by_program(Member& member, const FleetProvider& provider,
                                                     const Json& cluster, Now now) {
  auto access = read_fleet_cluster(cluster, options_, servers_);
  auto exec = access ? exec_for(provider, cluster)
                     : Judged<FleetExec>(tl::unexpected<FleetFault>(access.error()));
  if (!exec) {
    return tl::unexpected<FleetFault>(std::move(exec.error()));
  }
  if (!(*exec == member.question)) {
    member.question = std::move(*exec);
    member.credential.reset();
    member.asking = 0;  // what still runs answers another question
    member.ask_at = now.time;
  }
  const bool is_due = now.time >= member.renew_at;
  if ((!member.credential || is_due) && member.asking == 0 && now.time >= member.ask_at) {
    member.asking = ++turns_;
    actions_.push_back(
        {FleetAction::Kind::kAsk, member.key, member.asking, member.question, {}, 0});
  }
  if (!member.credential) {
    return std::optional<FleetAccess>();
  }
  access->certificate_pem = member.credential->certificate_pem;
  access->key_pem = member.credential->key_pem;
  access->token = member.credential->token;
  return std::optional<FleetAccess>(std::move(*access));
}

/// nullopt: it is not known yet.
Judged<std::optional<FleetAccess>> Fleet::resolve(Member& member, Now now) {
  const auto some = [](Judged<FleetAccess> access) -> Judged<std::optional<FleetAccess>> {
    if (!access) {
      return tl::unexpected<FleetFault>(std::move(access.error()));
    }
    return std::optional<FleetAccess>(std::move(*access));
  };
  if (member.list == FleetList::kSecrets) {
    member.provider = "cluster-api";
    return some(of_cluster_api(member));
  }
  for (const FleetProvider& provider : providers_) {
    const auto& offered = member.object.providers;
    const auto found =
        std::find_if(offered.begin(), offered.end(),
                     [&](const FleetObject::Provider& one) { return one.name == provider.name; });
    if (found != offered.end()) {
      member.provider = provider.name;
      return provider.is_secret ? some(by_secret(member, found->cluster))
                                : by_program(member, provider, found->cluster, now);
    }
  }
  member.provider.clear();
  std::vector<std::string> names;
  for (const FleetObject::Provider& one : member.object.providers) {
    names.push_back(one.name);
  }
  return fault(FleetReason::kNoProvider, names.empty() ? "status.accessProviders: empty"
                                                       : "none of its providers is known here: " +
                                                             kintsugi::join(names, ", "));
}

}  // namespace kintsugi::topology
