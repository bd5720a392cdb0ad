#include "topology/fleet/fleet.h"

#include <algorithm>
#include <utility>

#include "topology/fleet/internal/member.h"

namespace kintsugi::topology {

using krm::Json;

namespace {

constexpr std::size_t kMaxSecret = std::size_t{1} << 20;  // bytes, as a server takes them

std::string profile_key(std::string_view ns, std::string_view name) {
  return "profile " + std::string(ns) + "/" + std::string(name);
}

/// Four fifths of what is left of it.
Duration use_for(std::int64_t ends, std::int64_t now) { return seconds(ends - now) * 4 / 5; }

}  // namespace

Fleet::Fleet(FleetOptions options, std::vector<FleetProvider> providers,
             std::function<bool(const std::string& uid)> known)
    : options_(std::move(options)),
      servers_(options_),
      providers_(std::move(providers)),
      known_(std::move(known)) {}

Fleet::~Fleet() = default;

void Fleet::set_providers(std::vector<FleetProvider> providers, Now now) {
  providers_ = std::move(providers);
  for (const auto& [key, member] : members_) {
    consider(*member, now);
  }
}

// Reports

void Fleet::put_profile(const Json& object, Now now) {
  const std::string key =
      profile_key(object.text({"metadata", "namespace"}), object.text({"metadata", "name"}));
  put(key, read_profile(object, options_), FleetList::kProfiles, now);
}

void Fleet::put(const std::string& key, Judged<FleetObject> object, FleetList list, Now now) {
  guards_[static_cast<std::size_t>(list)].has(key);
  auto found = members_.find(key);
  if (object && found != members_.end() && !found->second->uid.empty() &&
      found->second->uid != object->uid) {
    erase(key, now);  // another cluster has the name now
    found = members_.end();
  }
  if (found == members_.end()) {
    found = members_.emplace(key, std::make_unique<Member>()).first;
    found->second->key = key;
    found->second->list = list;
  }
  Member& member = *found->second;
  member.leave_at = TimePoint::max();
  if (object) {
    changed_ = changed_ || (member.joined && member.object.labels != object->labels);
    member.uid = object->uid;
    member.object = std::move(*object);
    member.unreadable.reset();
  } else {
    member.unreadable = std::move(object.error());
  }
  consider(member, now);
}

void Fleet::drop_profile(std::string_view ns, std::string_view name, bool listed, Now now) {
  drop(profile_key(ns, name), FleetList::kProfiles, listed, now);
}

void Fleet::drop(const std::string& key, FleetList list, bool is_listed, Now now) {
  RemovalGuard& guard = guards_[static_cast<std::size_t>(list)];
  if (members_.find(key) == members_.end()) {
    return;
  }
  if (is_listed) {
    guard.lacks(key);
    return;
  }
  guard.forget(key);
  leave(key, now);
}

void Fleet::put_secret(const Json& object, Now now) {
  const std::string place = place_of(object);
  std::map<std::string, Secret> values;
  std::size_t size = 0;
  const Json* data = object.find("data");
  for (const auto& [key, value] : data != nullptr ? data->members() : Json::Object()) {
    size += value.as_string().size();
    if (size <= kMaxSecret * 2) {
      values[key] = Secret::copy_of(value.as_string());
    }
  }
  secrets_[place] = std::move(values);
  if (options_.cluster_api && is_cluster_api_secret(object)) {
    const auto cluster =
        clusters_.find(place_of(object.text({"metadata", "namespace"}),
                                object.text({"metadata", "labels", kClusterNameLabel})));
    put(secret_key(place),
        read_cluster_api_secret(object, cluster != clusters_.end() ? &cluster->second : nullptr),
        FleetList::kSecrets, now);
  }
  consider_readers(now);
}

/// Profiles whose kubeconfig is in a Secret.
void Fleet::consider_readers(Now now) {
  for (const auto& [key, member] : members_) {
    if (member->list == FleetList::kProfiles && member->provider.starts_with(kSecretProvider)) {
      consider(*member, now);
    }
  }
}

void Fleet::drop_secret(std::string_view ns, std::string_view name, bool listed, Now now) {
  const std::string place = place_of(ns, name);
  const std::string key = secret_key(place);
  if (members_.find(key) != members_.end()) {
    drop(key, FleetList::kSecrets, listed, now);
    return;
  }
  secrets_.erase(place);
  consider_readers(now);
}

void Fleet::put_cluster(const Json& object, Now now) {
  const std::string place = place_of(object);
  Json kept = Json::object({});
  if (const Json* labels = object.at({"metadata", "labels"})) {
    kept.make({"metadata", "labels"}) = *labels;
  }
  for (const auto& [key, member] : members_) {
    if (member->list == FleetList::kSecrets &&
        place_of(member->object.ns, member->object.cluster) == place) {
      const auto before = member->object.labels;
      (void)label_by(kept, member->object);
      changed_ = changed_ || (member->joined && member->object.labels != before);
      consider(*member, now);
    }
  }
  clusters_[place] = std::move(kept);
}

void Fleet::drop_cluster(std::string_view ns, std::string_view name, Now /*now*/) {
  if (const auto found = clusters_.find(place_of(ns, name)); found != clusters_.end()) {
    clusters_.erase(found);  // its Secret goes with it, and the labels stay until then
  }
}

void Fleet::listed(FleetList list, Now now) {
  RemovalGuard& guard = guards_[static_cast<std::size_t>(list)];
  const auto known = static_cast<std::size_t>(
      std::count_if(members_.begin(), members_.end(), [&](const auto& one) {
        return one.second->list == list && one.second->leave_at == TimePoint::max();
      }));
  for (const std::string& key : guard.listed(known, now.time)) {
    leave(key, now);
  }
}

void Fleet::leave(const std::string& key, Now now) {
  const auto found = members_.find(key);
  if (found == members_.end()) {
    return;
  }
  Member& member = *found->second;
  if (!member.joined) {
    erase(key, now);
  } else if (member.leave_at == TimePoint::max()) {
    member.leave_at = now.time + options_.leave_grace;
  }
}

void Fleet::erase(const std::string& key, Now now) {
  const auto found = members_.find(key);
  if (found == members_.end()) {
    return;
  }
  changed_ = changed_ || found->second->joined;
  if (found->second->list == FleetList::kSecrets) {
    secrets_.erase(key.substr(kSecretPrefix.size()));
  }
  members_.erase(found);
  name_again(now);
}

/// A name may be free now.
void Fleet::name_again(Now now) {
  for (const auto& [key, member] : members_) {
    if (member->fault.reason == FleetReason::kNameTaken ||
        member->fault.reason == FleetReason::kTooMany) {
      consider(*member, now);
    }
  }
}

void Fleet::blame(Member& member, FleetFault fault) {
  member.tried = true;
  if (!(member.fault == fault)) {
    ++faults_[static_cast<std::size_t>(fault.reason)];
    member.fault = std::move(fault);
  }
  if (!member.joined && !member.name.empty() && known_ && known_(member.uid)) {
    admit(member, nullptr);  // it is down, and not gone
  }
}

void Fleet::consider(Member& member, Now now) {
  if (member.unreadable) {
    blame(member, *member.unreadable);
    return;
  }
  if (auto wrong = name(member)) {
    blame(member, std::move(*wrong));
    return;
  }
  auto access = resolve(member, now);
  if (!access) {
    member.candidate.reset();
    member.probing = 0;
    member.wants_probe = false;
    blame(member, std::move(access.error()));
    return;
  }
  if (*access) {
    use(member, std::move(**access), now);
  }
}

void Fleet::use(Member& member, FleetAccess access, Now now) {
  if (member.access != nullptr && *member.access == access) {
    member.candidate.reset();
    member.probing = 0;
    member.wants_probe = false;
    if (member.fault.reason != FleetReason::kUnauthorized) {
      member.fault = {};
    }
    return;
  }
  if (member.candidate == nullptr || !(*member.candidate == access)) {
    member.candidate = std::make_shared<const FleetAccess>(std::move(access));
    member.probing = 0;
    member.wants_probe = true;
    member.probe_at = now.time;
  }
  if (member.wants_probe && now.time >= member.probe_at) {
    member.wants_probe = false;
    member.probing = ++turns_;
    actions_.push_back(
        {FleetAction::Kind::kProbe, member.key, member.probing, {}, member.candidate, 0});
  }
}

void Fleet::admit(Member& member, std::shared_ptr<const FleetAccess> access) {
  member.joined = true;
  member.access = std::move(access);
  member.access_number = ++accesses_;
  changed_ = true;
}

// Results

void Fleet::rest(Member& member, Now now) {
  const Duration pause =
      std::min<Duration>(kShortestRest * (1LL << std::min(member.failures, 6U)), kLongestRest);
  ++member.failures;
  member.ask_at = now.time + pause;
  member.probe_at = now.time + pause;
}

void Fleet::told(const std::string& key, std::uint64_t turn, Judged<FleetCredential> said,
                 Now now) {
  asked_ -= asked_ > 0 ? 1 : 0;
  const auto found = members_.find(key);
  if (found == members_.end() || found->second->asking != turn) {
    return;
  }
  Member& member = *found->second;
  member.asking = 0;
  if (said && said->ends != 0 && said->ends <= now.unix_seconds) {
    said = fault(FleetReason::kPluginFailed, "its credential has ended already");
  }
  if (!said) {
    rest(member, now);
    if (member.renew_at != TimePoint::max()) {
      member.renew_at = member.ask_at;  // until then with the one that it has
    }
    blame(member, std::move(said.error()));
    return;
  }
  member.renew_at =
      said->ends == 0 ? TimePoint::max() : now.time + use_for(said->ends, now.unix_seconds);
  member.credential = std::move(*said);
  if (member.fault.reason != FleetReason::kUnauthorized) {
    member.failures = 0;
  }
  consider(member, now);
}

void Fleet::probed(const std::string& key, std::uint64_t turn, const FleetAnswer& answer, Now now) {
  const auto found = members_.find(key);
  if (found == members_.end() || found->second->probing != turn) {
    return;
  }
  Member& member = *found->second;
  member.probing = 0;
  constexpr int kUnauthorized = 401, kServerError = 500;
  if (answer.status != 0 && answer.status != kUnauthorized && answer.status < kServerError) {
    member.tried = true;
    member.fault = {};
    member.failures = 0;
    admit(member, std::exchange(member.candidate, nullptr));
    return;
  }
  rest(member, now);
  member.wants_probe = true;
  if (answer.status == kUnauthorized) {
    member.credential.reset();
    blame(member, {FleetReason::kUnauthorized, "the server does not know the credential"});
    return;
  }
  if (!member.joined && known_ && known_(member.uid)) {
    admit(member, member.candidate);
  }
  blame(member,
        {FleetReason::kUnreachable,
         member.candidate->server + ": " +
             (answer.status != 0 ? "answers " + std::to_string(answer.status) : answer.cause)});
}

void Fleet::unusable(const std::string& key, std::uint64_t turn, std::string message, Now now) {
  const auto found = members_.find(key);
  if (found == members_.end() || found->second->probing != turn) {
    return;
  }
  found->second->probing = 0;  // until it is another one
  found->second->credential.reset();
  rest(*found->second, now);
  blame(*found->second, {FleetReason::kBadCertificate, std::move(message)});
}

void Fleet::seen(std::string_view shard, int status, Now now) {
  constexpr int kUnauthorized = 401;
  const auto found = std::find_if(members_.begin(), members_.end(), [&](const auto& one) {
    return one.second->joined && one.second->name == shard;
  });
  if (found == members_.end()) {
    return;
  }
  Member& member = *found->second;
  const bool is_told = member.fault.reason == FleetReason::kUnauthorized;
  if (status != kUnauthorized) {
    if (is_told && member.candidate == nullptr) {
      member.fault = {};
      member.failures = 0;
    }
    return;
  }
  if (!is_told) {
    blame(member, {FleetReason::kUnauthorized, "the server does not know the credential"});
  }
  // Another one, unless that is on its way; the same one again: later once more.
  if (member.asking == 0 && member.credential && now.time >= member.ask_at) {
    member.credential.reset();
    rest(member, now);
  }
}

// What is to be done

std::vector<FleetAction> Fleet::take_actions(Now now) {
  std::vector<std::string> over;
  for (const auto& [key, member] : members_) {
    if (now.time >= member->leave_at) {
      over.push_back(key);
    }
  }
  for (const std::string& key : over) {
    erase(key, now);
  }
  for (const auto& [key, member] : members_) {
    const bool waits = member->wants_probe && now.time >= member->probe_at;
    const bool asks = !member->question.command.empty() && member->asking == 0 &&
                      ((!member->credential && now.time >= member->ask_at) ||
                       (now.time >= member->renew_at && now.time >= member->ask_at));
    if (waits || asks) {
      consider(*member, now);
    }
  }
  std::vector<FleetAction> out;
  for (std::size_t i = 0; i < kFleetLists; ++i) {
    if (now.time >= guards_[i].due()) {
      guards_[i].confirming();
      out.push_back({FleetAction::Kind::kRelist, {}, 0, {}, nullptr, i});
    }
  }
  std::deque<FleetAction> later;
  for (FleetAction& action : actions_) {
    const auto found = members_.find(action.key);
    const bool is_ask = action.kind == FleetAction::Kind::kAsk;
    if (found == members_.end() ||
        (is_ask ? found->second->asking : found->second->probing) != action.turn) {
      continue;  // nobody wants to know any more
    }
    if (is_ask && asked_ >= kMostAsked) {
      later.push_back(std::move(action));
      continue;
    }
    asked_ += is_ask ? 1 : 0;
    out.push_back(std::move(action));
  }
  actions_ = std::move(later);
  return out;
}

TimePoint Fleet::due() const {
  TimePoint at = std::min(guards_[0].due(), guards_[1].due());
  for (const auto& [key, member] : members_) {
    at = std::min(at, member->leave_at);
    if (member->wants_probe) {
      at = std::min(at, member->probe_at);
    }
    if (!member->question.command.empty() && member->asking == 0) {
      at = std::min(
          at, member->credential ? std::max(member->renew_at, member->ask_at) : member->ask_at);
    }
  }
  return at;
}

std::set<std::string> Fleet::wanted_secrets() const {
  std::set<std::string> wanted;
  for (const auto& [key, member] : members_) {
    for (const FleetObject::Provider& one : member->object.providers) {
      if (one.name != member->provider || !member->provider.starts_with(kSecretProvider)) {
        continue;
      }
      if (const auto secret = secret_of(member->object, one.cluster)) {
        wanted.insert(place_of(member->object.ns, secret->name));
      }
    }
  }
  return wanted;
}

std::vector<FleetShard> Fleet::shards() const {
  std::vector<FleetShard> all;
  for (const auto& [key, member] : members_) {
    if (!member->joined) {
      continue;
    }
    FleetShard& shard = all.emplace_back();
    shard.spec.name = member->name;
    shard.spec.uid = member->uid;
    shard.spec.labels = member->object.labels;
    shard.spec.base_url = member->access != nullptr ? member->access->server : "";
    shard.spec.plain = true;
    shard.spec.impersonate = true;
    shard.spec.access = member->access_number;
    shard.access = member->access;
  }
  return all;
}

std::vector<FleetRow> Fleet::rows() const {
  std::vector<FleetRow> all;
  for (const auto& [key, member] : members_) {
    FleetRow& row = all.emplace_back();
    const RemovalGuard& guard = guards_[static_cast<std::size_t>(member->list)];
    row.name = member->name;
    row.object = (member->list == FleetList::kProfiles ? "ClusterProfile " : "Secret ") +
                 key.substr(key.find(' ') + 1);
    row.provider = member->provider;
    const FleetAccess* way =
        member->access != nullptr ? member->access.get() : member->candidate.get();
    row.server = way != nullptr ? way->server : "";
    row.state = guard.doubts(key)                      ? "in doubt"
                : member->leave_at != TimePoint::max() ? "leaving"
                : member->joined                       ? "member"
                                                       : "joining";
    row.fault = member->fault;
    row.healthy = member->object.healthy;
    row.left_out = member->object.left_out;
  }
  return all;
}

bool Fleet::is_settled() const {
  return std::all_of(members_.begin(), members_.end(),
                     [](const auto& one) { return one.second->tried; });
}

}  // namespace kintsugi::topology
