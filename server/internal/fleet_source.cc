#include "server/internal/fleet_source.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "auth/certificate_end.h"
#include "base/log.h"
#include "base/strings.h"
#include "base/time.h"
#include "net/proxy_rules.h"
#include "net/server_credential.h"
#include "net/work_pool.h"
#include "server/files.h"
#include "server/internal/exec_plugin.h"

namespace kintsugi::server {

using topology::Fleet;
using topology::FleetAccess;
using topology::FleetAction;
using topology::FleetReason;

namespace {

constexpr Duration kPatience = seconds(10);  // with clusters that were not tried when all is listed
constexpr Duration kProbe = seconds(5);
constexpr Duration kLongestSleep = seconds(60);
constexpr ExecLimits kLimits{30, std::size_t{64} << 10};  // of a provider's program (GR-701)
constexpr const char* kProfiles = "/apis/multicluster.x-k8s.io/v1alpha1";
constexpr const char* kClusterVersions[] = {"/apis/cluster.x-k8s.io/v1beta2",
                                            "/apis/cluster.x-k8s.io/v1beta1"};
constexpr int kNotFound = 404;

net::WorkPool& program_pool() {
  static net::WorkPool& pool =
      net::WorkPool::make({"kin-fleet", Fleet::kMostAsked, Fleet::kMostAsked, Fleet::kMost});
  return pool;
}

/// "/api/v1/namespaces/x/secrets"
std::string collection(const std::string& group, const std::string& ns, const char* resource) {
  return group + (ns.empty() ? "" : "/namespaces/" + ns) + "/" + resource;
}

ExecPlugin plugin_of(const topology::FleetExec& exec) {
  return {exec.command, exec.arguments, exec.environment, exec.api_version, exec.cluster};
}

topology::Judged<topology::FleetCredential> credential_of(const Expected<ExecCredential>& said) {
  if (!said) {
    return topology::fault(FleetReason::kPluginFailed, std::string(said.error().message()));
  }
  topology::FleetCredential out;
  out.certificate_pem = said->certificate_pem;
  out.key_pem = said->key_pem;
  out.token = said->token;
  out.ends = said->ends;
  if (out.ends == 0 && !out.certificate_pem.empty()) {
    out.ends = auth::first_end_of(out.certificate_pem).value_or(0);
  }
  return out;
}

KubeAccess kube_access_of(const FleetAccess& access) {
  KubeAccess out;
  out.server = access.server;
  out.ca_pem = access.ca_pem;
  out.certificate_pem = access.certificate_pem;
  out.key_pem = access.key_pem;
  out.token = access.token;
  out.username = access.username;
  out.password = access.password;
  out.server_name = access.server_name;
  out.insecure = access.insecure;
  if (const auto proxy = net::parse_proxy(access.proxy_url, false);
      !access.proxy_url.empty() && proxy) {
    out.proxy_host = proxy->host;
    out.proxy_port = proxy->port;
    out.proxy_authorization = proxy->authorization;
  }
  return out;
}

}  // namespace

topology::FleetOptions fleet_options(const proxy::ProxyConfig& config) {
  const proxy::FleetConfig& fleet = config.topology.fleet;
  topology::FleetOptions options;
  options.cluster_api = fleet.cluster_api;
  options.qualified = fleet.qualified;
  options.insecure = fleet.insecure;
  options.properties = fleet.properties;
  options.allow = fleet.allow;
  options.leave_grace = fleet.leave_grace;
  if (const auto own = net::Url::parse(config.external_url)) {
    options.own.push_back(to_lower(own->host) + ":" + std::to_string(own->port));
  }
  for (const std::string& host : {config.listener.address, std::string("127.0.0.1"),
                                  std::string("::1"), std::string("localhost")}) {
    options.own.push_back(host + ":" + std::to_string(config.listener.port));
  }
  return options;
}

Expected<std::vector<topology::FleetProvider>> load_fleet_providers(
    const proxy::ProxyConfig& config) {
  const std::string& path = config.topology.fleet.provider_file;
  const auto text = path.empty() ? Expected<std::string>("") : read_file(path);
  if (!text) {
    return fail(text.error().clone());
  }
  return topology::read_fleet_providers(*text, path,
                                        std::filesystem::path(path).parent_path().string());
}

/// One collection of the hub, as it is followed.
class FleetSource::HubList final : public shards::InformerSink {
 public:
  HubList(FleetSource& owner, Part of, shards::InformerParams params)
      : part(of),
        owner_(owner),
        informer_(owner.loop_, std::move(params), owner.params_.headers, *this) {}

  void start() { informer_.start(*owner_.hub_); }
  void relist() { informer_.set_upstream(*owner_.hub_); }
  void set_target(const std::string& target) { informer_.set_target(target); }
  [[nodiscard]] const shards::InformerFsm& machine() const { return informer_.machine(); }

  const Part part;
  bool listed = false;  ///< or the hub does not have the resource
  std::size_t version = 0;

 private:
  void on_upsert(const shards::ObjectKey& /*key*/, const krm::Json& object) override {
    owner_.on_put(part, object);
  }
  void on_delete(const shards::ObjectKey& key) override {
    const bool told = machine().state() == shards::InformerFsm::State::kWatching;
    owner_.on_gone(part, key.ns, key.name, !told);
  }
  void on_synced() override { owner_.on_listed(*this); }
  void on_refused(int status) override { owner_.on_refused(*this, status); }

  FleetSource& owner_;
  shards::Informer informer_;
};

FleetSource::FleetSource(net::Loop& loop, Params params, std::function<void()> changed)
    : loop_(loop),
      params_(std::move(params)),
      changed_(std::move(changed)),
      fleet_(params_.options, params_.providers, params_.known),
      hub_(net::Upstream::make(loop, params_.hub)),
      timer_(loop) {
  add_lists();
}

FleetSource::~FleetSource() {
  stop_exec_helper();
  programs_.clear();
  lists_.clear();
  secrets_.clear();
  probes_.clear();
}

Fleet::Now FleetSource::now() const { return {loop_.now(), unix_seconds()}; }

std::unique_ptr<FleetSource::HubList> FleetSource::make_list(Part part, const std::string& target,
                                                             const std::string& selector) {
  shards::InformerParams params;
  params.target = target;
  params.reflector.selector = selector;
  params.seed = params_.seed + ++seeds_;
  return std::make_unique<HubList>(*this, part, std::move(params));
}

void FleetSource::add_lists() {
  const std::vector<std::string> everywhere = {""};
  for (const std::string& ns : params_.namespaces.empty() ? everywhere : params_.namespaces) {
    const std::string selector =
        params_.selector.empty() ? "" : "labelSelector=" + percent_encode(params_.selector);
    lists_.push_back(
        make_list(Part::kProfiles, collection(kProfiles, ns, "clusterprofiles"), selector));
    if (!params_.options.cluster_api) {
      continue;
    }
    lists_.push_back(
        make_list(Part::kClusters, collection(kClusterVersions[0], ns, "clusters"), ""));
    lists_.push_back(make_list(Part::kSecrets, collection("/api/v1", ns, "secrets"),
                               "labelSelector=" + percent_encode(topology::kClusterNameLabel)));
  }
}

void FleetSource::start() {
  for (const auto& list : lists_) {
    list->start();
  }
}

void FleetSource::set_hub_tls(std::shared_ptr<net::TlsContext> tls) {
  hub_->set_tls(std::move(tls));
}

void FleetSource::set_providers(std::vector<topology::FleetProvider> providers) {
  fleet_.set_providers(std::move(providers), now());
  advance_soon();
}

// What the hub says

void FleetSource::on_put(Part part, const krm::Json& object) {
  if (part == Part::kProfiles) {
    fleet_.put_profile(object, now());
  } else if (part == Part::kClusters) {
    fleet_.put_cluster(object, now());
  } else {
    fleet_.put_secret(object, now());
  }
  advance_soon();
}

void FleetSource::on_gone(Part part, std::string_view ns, std::string_view name, bool listed) {
  if (part == Part::kProfiles) {
    fleet_.drop_profile(ns, name, listed, now());
  } else if (part == Part::kClusters) {
    fleet_.drop_cluster(ns, name, now());
  } else {
    fleet_.drop_secret(ns, name, listed, now());
  }
  advance_soon();
}

void FleetSource::on_listed(HubList& list) {
  list.listed = true;
  const bool is_fleet = list.part == Part::kProfiles || list.part == Part::kSecrets;
  if (is_fleet) {
    const std::size_t index = list.part == Part::kProfiles ? 0 : 1;
    awaited_[index].erase(&list);
    if (awaited_[index].empty()) {
      fleet_.listed(static_cast<topology::FleetList>(index), now());
    }
  }
  advance_soon();
}

/// A hub without Cluster API, or without profiles where Secrets do, is none that is away. What was
/// known stays in each case.
void FleetSource::on_refused(HubList& list, int status) {
  if (status != kNotFound) {
    return;
  }
  if (list.part == Part::kClusters) {
    list.listed = true;
    list.version = (list.version + 1) % std::size(kClusterVersions);
    loop_.post(alive_.guard([&list] {
      const std::string& target = list.machine().target();
      const std::size_t end = target.find("/namespaces/");
      list.set_target(kClusterVersions[list.version] +
                      (end == std::string::npos ? "/clusters" : target.substr(end)));
    }));
  } else if (list.part == Part::kProfiles && params_.options.cluster_api) {
    list.listed = true;
  }
  advance_soon();
}

bool FleetSource::is_listed() const {
  return std::all_of(lists_.begin(), lists_.end(), [](const auto& list) { return list->listed; });
}

bool FleetSource::is_settled() const {
  return fleet_.is_settled() && std::all_of(secrets_.begin(), secrets_.end(),
                                            [](const auto& one) { return one.second->listed; });
}

// What is done about it

void FleetSource::advance_soon() {
  if (!std::exchange(posted_, true)) {
    loop_.post(alive_.guard([this] {
      posted_ = false;
      advance();
    }));
  }
}

void FleetSource::advance() {
  for (FleetAction& action : fleet_.take_actions(now())) {
    perform(action);
  }
  follow_secrets();
  publish();
  const Duration wait = std::clamp<Duration>(fleet_.due() - loop_.now(), Duration{}, kLongestSleep);
  timer_.start(published_ ? std::max<Duration>(wait, milliseconds(1)) : milliseconds(100),
               [this] { advance(); });
}

void FleetSource::perform(FleetAction& action) {
  switch (action.kind) {
    case FleetAction::Kind::kAsk:
      ask(action);
      return;
    case FleetAction::Kind::kProbe:
      probe(action);
      return;
    case FleetAction::Kind::kRelist:
      relist(action.list);
      return;
  }
}

void FleetSource::ask(const FleetAction& action) {
  auto said = std::make_shared<Expected<ExecCredential>>(fail(Errc::kInternal));
  auto waits = program_pool().run(
      loop_, "fleet",
      [said, plugin = plugin_of(action.exec)] { *said = run_exec_plugin(plugin, kLimits); },
      [this, said, key = action.key, turn = action.turn] {
        fleet_.told(key, turn, credential_of(*said), now());
        advance_soon();
        loop_.defer(alive_.guard([this, turn] { programs_.erase(turn); }));
      });
  if (waits == nullptr) {
    fleet_.told(action.key, action.turn,
                topology::fault(FleetReason::kPluginFailed, "too many programs wait"), now());
    advance_soon();
    return;
  }
  programs_[action.turn] = std::move(waits);
}

Expected<FleetSource::Contexts> FleetSource::contexts_of(std::shared_ptr<const FleetAccess> access,
                                                         const std::string& name) const {
  const KubeAccess kube = kube_access_of(*access);
  auto callers = client_context(kube, name, params_.revocations);
  auto own = callers ? own_context(kube, name, params_.revocations)
                     : Expected<std::shared_ptr<net::TlsContext>>(nullptr);
  if (!callers || !own) {
    return fail(std::move(!callers ? callers.error() : own.error()));
  }
  net::set_credential(**callers,
                      {.proxy = {kube.proxy_host, kube.proxy_port, kube.proxy_authorization}});
  return Contexts{std::move(access), std::move(*callers), std::move(*own)};
}

void FleetSource::probe(const FleetAction& action) {
  end_probe(action.key);
  auto contexts = contexts_of(action.access, action.key);
  auto params = contexts ? upstream_to(action.access->server, contexts->own)
                         : Expected<net::UpstreamParams>(fail(contexts.error().clone()));
  if (!params) {
    fleet_.unusable(action.key, action.turn, std::string(params.error().message()), now());
    advance_soon();
    return;
  }
  Probe& probe = probes_[action.key];
  probe.upstream = net::Upstream::make(loop_, std::move(*params));
  net::FetchRequest request;
  request.target = "/livez";
  request.headers = params_.headers;
  request.timeout = kProbe;
  probe.call = net::fetch(
      loop_, *probe.upstream, std::move(request),
      [this, key = action.key, turn = action.turn](const Expected<net::FetchResponse>& answer) {
        topology::FleetAnswer said;
        if (answer) {
          said.status = answer->status;
        } else {
          const std::string& why = probes_[key].upstream->last_failure();
          said.cause = why.empty() ? std::string(errc_name(answer.error().code())) : why;
        }
        end_probe(key);
        fleet_.probed(key, turn, said, now());
        advance_soon();
      });
}

void FleetSource::end_probe(const std::string& key) {
  if (const auto found = probes_.find(key); found != probes_.end()) {
    loop_.defer([dead = std::make_shared<Probe>(std::move(found->second))] { dead->call.reset(); });
    probes_.erase(found);
  }
}

void FleetSource::relist(std::size_t list) {
  const Part part = list == 0 ? Part::kProfiles : Part::kSecrets;
  log_warn("the hub's list lacks many clusters; it is asked again",
           {{"list", list == 0 ? "clusterprofiles" : "secrets"}});
  for (const auto& one : lists_) {
    if (one->part == part) {
      awaited_[list].insert(one.get());
    }
  }
  for (const auto& one : lists_) {
    if (one->part == part) {
      one->relist();
    }
  }
}

/// Of Secrets that profiles name each is followed by itself: no right to others is needed.
void FleetSource::follow_secrets() {
  const std::set<std::string> wanted = fleet_.wanted_secrets();
  for (auto it = secrets_.begin(); it != secrets_.end();) {
    if (wanted.count(it->first) == 0) {
      loop_.defer([dead = std::shared_ptr<HubList>(std::move(it->second))] { (void)dead; });
      it = secrets_.erase(it);
    } else {
      ++it;
    }
  }
  for (const std::string& place : wanted) {
    if (secrets_.count(place) != 0) {
      continue;
    }
    const std::size_t slash = place.find('/');
    auto& list = secrets_[place];
    list = make_list(Part::kOneSecret, collection("/api/v1", place.substr(0, slash), "secrets"),
                     "fieldSelector=" + percent_encode("metadata.name=" + place.substr(slash + 1)));
    list->start();
  }
}

void FleetSource::publish() {
  const TimePoint at = loop_.now();
  if (!published_) {
    if (!is_listed()) {
      return;
    }
    listed_at_ = std::min(listed_at_, at);
    if (!is_settled() && at - listed_at_ < kPatience) {
      return;
    }
  }
  const bool is_first = !std::exchange(published_, true);
  if (!fleet_.take_changed() && !is_first) {
    return;
  }
  std::map<std::string, Contexts> contexts;
  shards_.clear();
  for (topology::FleetShard& shard : fleet_.shards()) {
    const std::string name = shard.spec.name;
    StaticAccess& made = shards_.emplace_back();
    made.spec = std::move(shard.spec);
    if (shard.access == nullptr) {
      continue;
    }
    made.authorization = kube_access_of(*shard.access).authorization();
    const auto known = contexts_.find(name);
    if (known != contexts_.end() && known->second.access == shard.access) {
      contexts[name] = known->second;
    } else if (auto one = contexts_of(shard.access, name)) {
      contexts[name] = std::move(*one);
    } else {
      log_error("a cluster of the fleet cannot be reached",
                {{"shard", name}, {"error", one.error().to_string()}});
    }
  }
  contexts_ = std::move(contexts);
  changed_();
}

void FleetSource::look_at(const std::vector<topology::Feed::ShardStatus>& statuses) {
  for (const auto& one : statuses) {
    if (one.probe_status != 0) {
      fleet_.seen(one.name, one.probe_status, now());
    }
  }
  advance_soon();
}

std::shared_ptr<net::TlsContext> FleetSource::tls(const std::string& shard) const {
  const auto found = contexts_.find(shard);
  return found == contexts_.end() ? nullptr : found->second.callers;
}

std::shared_ptr<net::TlsContext> FleetSource::own_tls(const std::string& shard) const {
  const auto found = contexts_.find(shard);
  return found == contexts_.end() ? nullptr : found->second.own;
}

proxy::FleetReport FleetSource::report() const {
  proxy::FleetReport report;
  report.hub = params_.hub.url.scheme + "://" + params_.hub.url.authority() + params_.hub.url.path;
  for (const auto& list : lists_) {
    const shards::InformerFsm& machine = list->machine();
    const auto& counters = machine.counters();
    const bool rests = machine.state() == shards::InformerFsm::State::kResting;
    report.lists.push_back({machine.target(), list->listed, rests ? counters.last_status : 0,
                            rests ? std::string(errc_name(counters.last_cause)) : ""});
  }
  report.rows = fleet_.rows();
  report.faults = fleet_.faults();
  return report;
}

}  // namespace kintsugi::server
