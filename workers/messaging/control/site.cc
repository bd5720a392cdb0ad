#include "workers/messaging/control/site.h"

#include <algorithm>
#include <numeric>

#include "base/secret_file.h"
#include "workers/messaging/control/internal/ends.h"
#include "workers/messaging/model/names.h"
#include "workers/runtime/control/outcome_of.h"
#include "workers/runtime/endpoints/endpoint_url.h"
#include "workers/runtime/status/finalizers.h"
#include "workers/runtime/status/status_write.h"

namespace kintsugi::workers {

namespace {

constexpr std::size_t kMostFirst = 64;
constexpr std::uint64_t kBusy = 64;  ///< addresses with a turn or waiting for it, and entities
/// Facts of components come often; the status tells those of so long at once.
constexpr Duration kFactsFor = milliseconds(250);
constexpr Duration kUsageFor = seconds(1);  ///< the same of a space's addresses
constexpr Duration kToldAfter = seconds(2), kToldLater = seconds(60);
constexpr std::int64_t kLooksPerSecond = 1'000;

/// Calls `use` with the cache of a kind that is written.
template <class Use>
void with_cache(const Directory& directory, MessagingKind kind, Use&& use) {
  switch (kind) {
    case MessagingKind::kInfra:
      return use(*directory.infras);
    case MessagingKind::kAddressSpacePlan:
      return use(*directory.space_plans);
    case MessagingKind::kMessagingPlan:
      return use(*directory.messaging_plans);
    case MessagingKind::kAddressPlan:
      return use(*directory.address_plans);
    case MessagingKind::kMessagingAddressPlan:
      return use(*directory.messaging_address_plans);
    case MessagingKind::kAddressSpace:
    case MessagingKind::kTenant:
    case MessagingKind::kProject:
      return use(directory.spaces_of(kind));
    case MessagingKind::kAddress:
    case MessagingKind::kMessagingAddress:
      return use(directory.addresses_of(kind));
    case MessagingKind::kEndpoint:
      return use(*directory.endpoints);
    case MessagingKind::kConnector:
      return use(*directory.connectors);
    default:
      return;
  }
}

}  // namespace

OwnedSpace* OwnedInfra::space(ObjectId number) {
  const auto at = spaces.find(text_of(work->object(number)));
  return at == spaces.end() ? nullptr : &at->second;
}

bool OwnedInfra::is_ours(std::string_view name) const {
  const std::string_view has = class_of(name);
  name.remove_prefix(has.empty() ? 0 : has.size() + 1);
  return space_ids.find(name.substr(0, name.find('/'))) != space_ids.end();
}

bool OwnedInfra::is_complete() const {
  return silent_ends.empty() &&
         std::all_of(spaces.begin(), spaces.end(),
                     [](const auto& one) { return one.second.wanted && !one.second.keeps; }) &&
         entered.all_of([](const EnteredAddress& one) { return one.phase != 0 && !one.keeps; });
}

Site::Site(Unit& unit, MessagingConfig config)
    : unit_(unit),
      config_(std::move(config)),
      directory_(unit, {config_.infra_clusters, config_.allow_local_connectors}),
      owner_(owner_name(shard_of_endpoint(unit.params().url))),
      ends_(std::make_unique<Ends>(*this)),
      teller_(std::make_unique<Teller>(*this)) {
  Expected<ComponentLink::Params> link = component_link();
  if (link) {
    link_ = std::move(*link);
  } else {
    trouble_ = link.error().message();
  }
}

Site::~Site() = default;

Expected<ComponentLink::Params> Site::component_link() const {
  ComponentLink::Params out;
  out.session.container = "kintsugi-" + owner_;
  out.session.window = config_.window;
  if (!config_.ca_file.empty()) {
    net::TlsParams tls;
    tls.ca_file = config_.ca_file;
    tls.certificate_file = config_.certificate_file;
    tls.key_file = config_.key_file;
    tls.http2 = false;
    auto context = net::TlsContext::client(tls);
    if (!context) {
      return fail(std::move(context.error()));
    }
    out.tls = std::move(*context);
    if (!config_.certificate_file.empty()) {
      out.session.sasl = ManagementSession::Sasl::kExternal;
    }
  }
  if (!config_.user.empty()) {
    out.session.sasl = ManagementSession::Sasl::kPlain;
    out.session.user = config_.user;
    auto password = read_secret_file(config_.password_file);
    if (!password) {
      return fail(std::move(password.error()));
    }
    out.session.password = std::move(*password);
  }
  return out;
}

std::string Site::now() const { return rfc3339(unix_seconds()); }

Step Site::step(const ObjectRefKey& object) const {
  return unit_.step(*controllers_[static_cast<std::size_t>(object.kind)], object.key.view());
}

bool Site::is_for_change(MessagingKind kind) const noexcept {
  return controllers_[static_cast<std::size_t>(kind)]->starting() == Priority::kLive;
}

std::string Site::not_ready() const {
  return !trouble_.empty() ? trouble_ : !directory_.synced() ? "has not read all objects yet" : "";
}

void Site::look_at(MessagingKind kind, const QueueKey& key, Priority priority) const {
  if (Controller* const controller = controllers_[static_cast<std::size_t>(kind)]) {
    controller->add(key, priority);
  }
}

void Site::look_at_later(MessagingKind kind, const QueueKey& key, Duration delay) const {
  if (Controller* const controller = controllers_[static_cast<std::size_t>(kind)]) {
    controller->add_after(key, delay);
  }
}

void Site::look_soon(const Key& infra) const {
  look_at_later(MessagingKind::kInfra, infra.view(), kFactsFor);
}

void Site::look_soon(const OwnedInfra& infra, const OwnedSpace& space) const {
  look_at_later(space.key.kind, space.key.key.view(),
                is_busy(infra) ? told_after(infra) : kUsageFor);
}

void Site::look_at_spaces(const OwnedInfra& infra) const {
  for (const auto& [text, space] : infra.spaces) {
    look_at(space.key.kind, space.key.key.view(), Priority::kRetry);
  }
}

void Site::look_at(const InfraWork& infra, std::span<const ObjectId> objects,
                   Priority priority) const {
  for (const ObjectId object : objects) {
    const ObjectRefKey of = infra.object(object);
    look_at(of.kind, of.key.view(), priority);
  }
}

void Site::decide(OwnedInfra& infra, std::optional<ObjectId> but) {
  const std::uint64_t moves = infra.scheduler.moves();
  const TimePoint begin = Clock::now();
  std::vector<ObjectId> changed = infra.scheduler.decide();
  if (!changed.empty()) {
    decisions_.durations.add(Clock::now() - begin);
  }
  decisions_.moves += infra.scheduler.moves() - moves;
  if (but) {
    std::erase(changed, *but);
  }
  look_at(*infra.work, changed);
}

bool Site::is_busy(const OwnedInfra& infra) const noexcept { return busy(infra) > kBusy; }

std::uint64_t Site::busy(const OwnedInfra& infra) const noexcept {
  std::uint64_t turns = infra.work->pending();
  for (const MessagingKind kind : {MessagingKind::kAddress, MessagingKind::kMessagingAddress}) {
    if (const Controller* const one = controllers_[static_cast<std::size_t>(kind)]) {
      const auto& depth = one->queue().counts().depth;
      turns += std::accumulate(depth.begin(), depth.end(), std::uint64_t{one->running()});
    }
  }
  return turns;
}

Duration Site::told_after(const OwnedInfra& infra) const noexcept {
  const auto others = static_cast<std::int64_t>(busy(infra));
  return std::clamp<Duration>(seconds(1) * others / kLooksPerSecond, kToldAfter, kToldLater);
}

void Site::look_at_addresses(const ObjectRefKey& space) {
  const CachedSpace* const cached =
      Directory::find(directory_.spaces_of(space.kind), space.key.view());
  const OwnedInfra* const infra = cached == nullptr ? nullptr : place({space, cached}).infra;
  directory_.each_address_of(space, [&](MessagingKind kind, const QueueKey& key) {
    const ObjectRefKey address{
        kind, {std::string(key.cluster), std::string(key.ns), std::string(key.name)}};
    const bool first = (!first_.empty() && first_.erase(text_of(address)) > 0) ||
                       (infra != nullptr && infra->work->is_urgent(address));
    look_at(kind, key, first ? Priority::kLive : Priority::kRetry);
  });
}

void Site::look_first(const ObjectRefKey& address) {
  if (first_.size() < kMostFirst) {
    first_.insert(text_of(address));
  }
}

OwnedInfra* Site::infra(const Key& key) {
  const auto at = infras_.find(infra_text(key));
  return at == infras_.end() ? nullptr : &at->second;
}

void Site::disown(const Key& key) {
  ends_->forget_infra(infra_text(key));
  infras_.erase(infra_text(key));
}

void Site::disown_lost(const Unit::Goes& goes) {
  std::erase_if(infras_, [&](const auto& one) {
    const bool lost = goes(one.first);
    if (lost) {
      ends_->forget_infra(one.first);
    }
    return lost;
  });
}

void Site::each_infra(const std::function<void(OwnedInfra&)>& visit) {
  for (auto& [text, infra] : infras_) {
    visit(infra);
  }
}

void Site::each_infra(const std::function<void(const OwnedInfra&)>& visit) const {
  for (const auto& [text, infra] : infras_) {
    visit(infra);
  }
}

OwnedInfra& Site::own(const Key& key, const MessagingInfra& object, const std::string& names,
                      InfraWork::Callbacks callbacks) {
  OwnedInfra& infra = infras_[infra_text(key)];
  infra.object = object;
  if (infra.work == nullptr) {
    InfraWork::Params params;
    params.key = key;
    params.owner = names;
    params.pipeline.owner = names == owner_ ? names : std::string();
    params.seed = unit_.params().seed;
    params.link = link_;
    params.pipeline.window = config_.window;
    params.pipeline.counters = config_.counters;
    params.pipeline.sweep = config_.sweep;
    params.pipeline.links = config_.links;
    params.pipeline.resync_by_reconnect = config_.resync_by_reconnect;
    params.pipeline.check_times = &check_times_;
    infra.work = std::make_unique<InfraWork>(unit_.loop(), std::move(params), std::move(callbacks));
  }
  return infra;
}

bool Site::begins_later(const CachedSpace& space) const {
  return space.bound && infras_.find(infra_text(*space.bound)) == infras_.end() &&
         Directory::find(*directory_.infras, space.bound->view()) != nullptr;
}

Site::Place Site::place(const Directory::SpaceFound& space) {
  Place out;
  if (!space.space->bound) {
    return out;
  }
  out.infra = infra(*space.space->bound);
  if (out.infra != nullptr) {
    const auto at = out.infra->spaces.find(text_of(space.key));
    out.space = at == out.infra->spaces.end() ? nullptr : &at->second;
  }
  return out;
}

struct Site::Written {
  CachedMeta meta;
  ObjectIdentity id;
};

std::optional<Site::Written> Site::written(const ObjectRefKey& object, krm::Json* status) const {
  std::optional<Written> out;
  with_cache(directory_, object.kind, [&](const auto& cache) {
    if (const auto* const found = Directory::find(cache, object.key.view())) {
      out = Written{meta_of(*found), identity_of(*found, object.key.view())};
      if (status != nullptr) {
        *status = found->status_json();
      }
    }
  });
  return out;
}

void Site::lay(MessagingKind kind, const krm::Json& object) {
  with_cache(directory_, kind, [&](auto& cache) { cache.lay(object, unit_.loop().now()); });
}

net::Task<Outcome> Site::patch(ObjectRefKey object, std::string body, std::string_view type,
                               std::string_view subresource) {
  ApiWrite write;
  write.method = "PATCH";
  write.path = object_path(object.kind, object.key.view(), subresource);
  write.body = std::move(body);
  write.content_type = type;
  write.kind = subresource.empty() ? WriteKind::kObject : WriteKind::kStatus;
  const Step step = this->step(object);
  net::Task<ApiAnswer> writing = unit_.write(step, std::move(write));
  const ApiAnswer answer = co_await writing;
  if (answer.ok()) {
    lay(object.kind, answer.body);
  }
  co_return outcome_of(answer, RequestKind::kUpdate);
}

net::Task<Outcome> Site::write_status(ObjectRefKey object, krm::Json status, bool precise) {
  krm::Json was;
  const std::optional<Written> has = written(object, &was);
  if (!has) {
    co_return Outcome::terminal();
  }
  (void)summarize_status(status);
  std::optional<std::string> body =
      status_patch(was, status, precise ? has->meta.resource_version : std::string());
  if (!body) {
    co_return Outcome::done();
  }
  net::Task<Outcome> writing = patch(object, std::move(*body), kMergePatch, "/status");
  const Outcome outcome = co_await writing;
  if (outcome.kind == Outcome::Kind::kDone) {
    for (const Tale& one : tales_of(was, status)) {
      teller_->tell(object, has->id.uid, one);
    }
  }
  co_return outcome;
}

void Site::tell(const ObjectRefKey& object, const Tale& tale) {
  std::string uid;
  if (object.kind == MessagingKind::kNamespace) {
    const auto* const found = Directory::find(*directory_.namespaces, object.key.view());
    uid = found == nullptr ? "" : found->uid;
  } else if (const std::optional<Written> found = written(object)) {
    uid = found->id.uid;
  }
  teller_->tell(object, uid, tale);
}

net::Task<Outcome> Site::add_finalizer(ObjectRefKey object) {
  const std::optional<Written> has = written(object);
  if (!has) {
    co_return Outcome::terminal();
  }
  std::optional<std::string> body =
      has->meta.has_finalizer(kMessagingFinalizer)
          ? std::nullopt
          : add_finalizer_patch(has->meta.object(has->id), kMessagingFinalizer);
  if (!body) {
    co_return Outcome::done();
  }
  net::Task<Outcome> writing = patch(object, std::move(*body), kJsonPatch, "");
  const Outcome outcome = co_await writing;
  co_return outcome;
}

net::Task<std::optional<Outcome>> Site::begin_making(ObjectRefKey object,
                                                     std::optional<krm::Json> final_word) {
  if (final_word) {
    net::Task<Outcome> saying = write_status(std::move(object), std::move(*final_word), false);
    const Outcome said = co_await saying;
    co_return said;
  }
  net::Task<Outcome> finalizing = add_finalizer(std::move(object));
  const Outcome finalized = co_await finalizing;
  if (finalized.kind != Outcome::Kind::kDone) {
    co_return finalized;
  }
  co_return std::nullopt;
}

net::Task<Outcome> Site::remove_finalizer(ObjectRefKey object) {
  const std::optional<Written> has = written(object);
  if (!has) {
    co_return Outcome::done();
  }
  std::optional<std::string> body =
      remove_finalizer_patch(has->meta.object(has->id), kMessagingFinalizer);
  if (!body) {
    co_return Outcome::done();
  }
  net::Task<Outcome> writing = patch(object, std::move(*body), kJsonPatch, "");
  const Outcome outcome = co_await writing;
  co_return outcome;
}

}  // namespace kintsugi::workers
