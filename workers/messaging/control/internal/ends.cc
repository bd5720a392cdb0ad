#include "workers/messaging/control/internal/ends.h"

#include <algorithm>

#include "base/strings.h"
#include "workers/messaging/control/internal/end_reports.h"
#include "workers/messaging/control/site.h"
#include "workers/messaging/model/condition_of.h"
#include "workers/messaging/model/names.h"
#include "workers/runtime/control/outcome_of.h"

namespace kintsugi::workers {

namespace {

/// Of people who write at the same time: the next look decides.
constexpr Duration kSoon = milliseconds(100);
/// What is known stays in use while it cannot be read.
constexpr Duration kAfterFault = seconds(10);

Condition tls_fault(std::string_view reason, std::string message) {
  Condition out;
  out.type = "ConfiguredTLS";
  out.status = ConditionStatus::kFalse;
  out.reason = reason;
  out.message = std::move(message);
  return out;
}

std::int64_t seconds_of(Duration time) { return std::chrono::duration_cast<seconds>(time).count(); }

}  // namespace

std::string PartInput::identity() const {
  return entity_identity(connector ? connector->id : endpoint->id) + "|" + part;
}

std::string Ends::id_of(const ObjectRefKey& object, std::string_view part) {
  return text_of(object).append("#").append(part);
}

const PartState* Ends::find(const ObjectRefKey& object, std::string_view part) const {
  const auto at = parts_.find(id_of(object, part));
  return at == parts_.end() || at->second.generation < 0 ? nullptr : &at->second;
}

Duration Ends::again(const ObjectRefKey& object) const {
  Duration out{};
  const TimePoint now = site_.unit().loop().now();
  const std::string prefix = id_of(object, "");
  for (auto at = parts_.lower_bound(prefix); at != parts_.end() && at->first.starts_with(prefix);
       ++at) {
    if (at->second.again > Duration{}) {
      const Duration left = at->second.read_at + at->second.again - now;
      const Duration one = std::max<Duration>(left, kSoon);
      out = out == Duration{} || one < out ? one : out;
    }
  }
  return out;
}

void Ends::set_ports(const ObjectRefKey& object, std::string_view part, ProtocolPorts ports) {
  if (const auto at = parts_.find(id_of(object, part)); at != parts_.end()) {
    at->second.ports = std::move(ports);
  }
}

void Ends::forget(const ObjectRefKey& object) { keep_only(object, {}); }

void Ends::forget_infra(std::string_view infra) {
  std::erase_if(parts_, [infra](const auto& one) { return one.second.infra == infra; });
}

std::optional<Redactor> Ends::redactor() const {
  Redactor out;
  for (const auto& [id, state] : parts_) {
    if (!out.know(id + "/username", state.username) ||
        !out.know(id + "/password", state.password)) {
      return std::nullopt;
    }
  }
  return out;
}

void Ends::keep_only(const ObjectRefKey& object, const std::vector<std::string>& parts) {
  const std::string prefix = id_of(object, "");
  for (auto at = parts_.lower_bound(prefix); at != parts_.end() && at->first.starts_with(prefix);) {
    const std::string name = at->first.substr(prefix.size());
    at = std::find(parts.begin(), parts.end(), name) == parts.end() ? parts_.erase(at)
                                                                    : std::next(at);
  }
  if (parts.empty()) {
    for (auto at = exported_.lower_bound(prefix);
         at != exported_.end() && at->first.starts_with(prefix);) {
      at = exported_.erase(at);
    }
  }
}

/// Only if it is still there: it may have gone while its Secrets were read.
void Ends::store(const std::string& id, PartState state) {
  if (const auto at = parts_.find(id); at != parts_.end()) {
    state.ports = at->second.ports;
    at->second = std::move(state);
  }
}

net::Task<Outcome> Ends::prepare(PartInput input) {
  const std::string id = id_of(input.object, input.part);
  const TimePoint now = site_.unit().loop().now();
  PartState next;
  {
    const auto [at, is_new] = parts_.try_emplace(id);
    if (is_new) {
      at->second.profile = input.record.certificate;
      at->second.ports = input.record.ports;
      at->second.infra = infra_text(input.infra);
    }
    const PartState& has = at->second;
    const bool young = has.again == Duration{} || now - has.read_at < has.again;
    if (has.generation == input.generation && young) {
      co_return Outcome::done();
    }
    next = has;
  }
  const bool known = next.generation == input.generation;
  next.fault.reset();
  next.again = Duration{};
  Outcome outcome;
  if (input.connector) {
    net::Task<Outcome> reading = read_connector(input, &next);
    outcome = co_await reading;
  } else if (needs_certificate(*input.endpoint)) {
    net::Task<Files> making = endpoint_files(input);
    Files made = co_await making;
    outcome = made.outcome;
    next.fault = std::move(made.fault);
    next.authority = made.files.authority;
    next.ends = made.ends;
    if (outcome.kind == Outcome::Kind::kDone && !next.fault) {
      net::Task<Outcome> laying = lay(input, std::move(made.files), &next);
      outcome = co_await laying;
    }
  }
  if (outcome.kind != Outcome::Kind::kDone) {
    if (const auto at = parts_.find(id); known && at != parts_.end()) {
      at->second.again = kAfterFault;
      at->second.read_at = now;
      co_return Outcome::done();
    }
    co_return outcome;
  }
  const Duration at_most = read_again(input);
  if (next.fault) {
    // What was complete once stays as it is.
    const auto at = parts_.find(id);
    PartState kept = at == parts_.end() ? PartState() : at->second;
    kept.fault = std::move(next.fault);
    kept.again = kAfterFault;
    next = std::move(kept);
  } else {
    next.usable = true;
    next.good_connector = std::move(input.connector);
    next.good_endpoint = std::move(input.endpoint);
  }
  if (at_most > Duration{} && (next.again == Duration{} || next.again > at_most)) {
    next.again = at_most;
  }
  next.read_at = now;
  next.generation = input.generation;
  store(id, std::move(next));
  co_return Outcome::done();
}

Duration Ends::read_again(const PartInput& input) const {
  const Duration secrets = site_.config().secrets;
  const bool refers =
      input.connector ? refers_to_secrets(*input.connector) : refers_to_secrets(*input.endpoint);
  const bool ours =
      input.connector ? needs_certificate(*input.connector) : needs_certificate(*input.endpoint);
  return refers ? secrets : ours ? 10 * secrets : Duration{};
}

net::Task<Ends::Read> Ends::read(ObjectRefKey object, SecretText text) {
  Read out;
  if (text.secret.empty()) {
    out.value = Secret::copy_of(text.value);
    co_return out;
  }
  std::string path = namespaced_path(object.key.cluster, object.key.ns, "secrets");
  path.append("/").append(text.secret);
  net::Task<ApiAnswer> asking = site_.unit().api().get(std::move(path));
  ApiAnswer answer = co_await asking;
  wipe(answer.raw);
  if (answer.says_missing()) {
    out.missing = true;
    co_return out;
  }
  if (!answer.ok()) {
    out.outcome = outcome_of(answer, RequestKind::kRead);
    if (out.outcome.kind == Outcome::Kind::kDone) {
      out.outcome = Outcome::error();
    }
    co_return out;
  }
  std::optional<Secret> value = secret_value(answer.body, text.key);
  out.missing = !value || value->empty();
  out.version = answer.body.text({"metadata", "resourceVersion"});
  out.value = value ? std::move(*value) : Secret();
  co_return out;
}

std::optional<Condition> Ends::own_host(const Key& of, const MessagingConnector& connector) const {
  const OwnedInfra* const infra = site_.infra(of);
  if (infra == nullptr || site_.config().allow_local_connectors) {
    return std::nullopt;
  }
  const std::vector<MessagingConnector::Peer>& peers = connector.peers;
  for (std::size_t i = 0; i < peers.size(); ++i) {
    const std::string host = to_lower(peers[i].host);
    for (const auto& one : infra->work->components()) {
      if (one->kind == ComponentKind::kRouter &&
          (host == to_lower(one->where.host) || host == to_lower(one->where.address))) {
        return condition_of("Validated", ConditionStatus::kFalse, "ForbiddenHost",
                            "endpointHosts[" + std::to_string(i) + "].host: " + peers[i].host +
                                " is a router of the infra");
      }
    }
  }
  return std::nullopt;
}

net::Task<Outcome> Ends::read_connector(PartInput input, PartState* state) {
  const MessagingConnector& connector = *input.connector;
  if (std::optional<Condition> why = own_host(input.infra, connector)) {
    state->fault = std::move(why);
    co_return Outcome::done();
  }
  state->version = "generation " + std::to_string(input.generation);
  const struct {
    const SecretText& text;
    Secret& to;
    std::string_view field;
  } fields[] = {{connector.username, state->username, "credentials.username"},
                {connector.password, state->password, "credentials.password"}};
  for (const auto& one : fields) {
    if (one.text.empty()) {
      one.to = Secret();
      continue;
    }
    net::Task<Read> reading = read(input.object, one.text);
    Read value = co_await reading;
    if (value.outcome.kind != Outcome::Kind::kDone) {
      co_return value.outcome;
    }
    if (value.missing) {
      state->fault = secret_not_found(one.field, one.text);
      co_return Outcome::done();
    }
    one.to = std::move(value.value);
    state->version.append(", ").append(value.version);
  }
  if (!needs_certificate(connector)) {
    state->profile.clear();
    co_return Outcome::done();
  }
  net::Task<Files> reading = connector_files(input);
  Files read = co_await reading;
  if (read.outcome.kind != Outcome::Kind::kDone || read.fault) {
    state->fault = std::move(read.fault);
    co_return read.outcome;
  }
  net::Task<Outcome> laying = lay(input, std::move(read.files), state);
  const Outcome outcome = co_await laying;
  co_return outcome;
}

net::Task<Ends::Files> Ends::connector_files(PartInput input) {
  const MessagingConnector& connector = *input.connector;
  Files out;
  const std::pair<const SecretText*, std::string_view> fields[] = {
      {&connector.ca_cert, "tls.caCert"},
      {&connector.client_cert, "tls.clientCert"},
      {&connector.client_key, "tls.clientKey"}};
  for (const auto& [text, field] : fields) {
    if (text->empty()) {
      continue;
    }
    net::Task<Read> reading = read(input.object, *text);
    Read value = co_await reading;
    out.outcome = value.outcome;
    if (value.missing) {
      out.fault = secret_not_found(field, *text);
    }
    if (out.fault || value.outcome.kind != Outcome::Kind::kDone) {
      co_return out;
    }
    if (text == &connector.client_key) {
      out.files.key = std::move(value.value);
    } else {
      (text == &connector.ca_cert ? out.files.authority : out.files.certificate) =
          value.value.view();
    }
  }
  if (!out.files.certificate.empty() && !net::is_key_of(out.files.certificate, out.files.key)) {
    Condition fault;
    fault.type = "Validated";
    fault.status = ConditionStatus::kFalse;
    fault.reason = "InvalidCertificate";
    fault.message = "tls.clientKey: is not the key of tls.clientCert";
    out.fault = std::move(fault);
  }
  co_return out;
}

net::Task<Ends::Files> Ends::endpoint_files(PartInput input) {
  using Tls = MessagingEndpoint::Tls;
  const MessagingEndpoint& endpoint = *input.endpoint;
  Files out;
  if (endpoint.tls == Tls::kSelfsigned || endpoint.tls == Tls::kWildcard) {
    net::Task<Files> making = leaf(std::move(input));
    out = co_await making;
    co_return out;
  }
  if (endpoint.tls != Tls::kExternal) {
    out.fault = tls_fault("NotSupported", "a listener of its own needs selfsigned or external");
    co_return out;
  }
  net::Task<Read> reading_key = read(input.object, endpoint.tls_key);
  Read key = co_await reading_key;
  net::Task<Read> reading = read(input.object, endpoint.tls_certificate);
  Read certificate = co_await reading;
  for (const Read* const one : {&key, &certificate}) {
    if (one->outcome.kind != Outcome::Kind::kDone) {
      out.outcome = one->outcome;
      co_return out;
    }
    if (one->missing) {
      const bool of_key = one == &key;
      Condition why = secret_not_found(of_key ? "tls.external.key" : "tls.external.certificate",
                                       of_key ? endpoint.tls_key : endpoint.tls_certificate);
      out.fault = tls_fault(why.reason, std::move(why.message));
      co_return out;
    }
  }
  out.files.certificate = certificate.value.view();
  out.files.key = std::move(key.value);
  if (!net::is_key_of(out.files.certificate, out.files.key)) {
    out.fault =
        tls_fault("InvalidCertificate", "tls.external: the key is not that of the certificate");
  }
  co_return out;
}

/// The certificate of one endpoint by the infra's CA.
net::Task<Ends::Files> Ends::leaf(PartInput input) {
  Files out;
  net::Task<SecretStore::Authority> asking_authority =
      secrets_.authority(input.object, input.infra);
  const SecretStore::Authority by = co_await asking_authority;
  if (!by.pair) {
    out.outcome = by.outcome;
    co_return out;
  }
  net::CertificateRequest request;
  request.common_name = input.space_id;
  request.dns_names = {input.host};
  request.days = kLeafDays;
  request.server = true;
  const std::string name = leaf_secret_name(input.identity());
  net::Task<ApiAnswer> asking = secrets_.read(input.infra, name);
  const ApiAnswer answer = co_await asking;
  if (!answer.ok() && !answer.says_missing()) {
    out.outcome = Outcome::error();
    co_return out;
  }
  const std::int64_t now = unix_seconds();
  if (answer.ok() && !is_to_be_renewed(answer.body, &*by.pair, request, now)) {
    out.files = files_of(answer.body);
    const std::int64_t made = written_at(answer.body);
    out.ends = made > 0 ? made + std::int64_t{kLeafDays} * 86'400 : 0;
    co_return out;
  }
  Expected<net::KeyPair> made = net::issue(*by.pair, request);
  if (!made) {
    out.fault = tls_fault("InvalidHost", "no certificate can be made for " + input.host);
    co_return out;
  }
  CertificateFiles files{made->certificate_pem, by.pair->certificate_pem, std::move(made->key_pem)};
  krm::Json secret = certificate_secret(name, input.infra.ns, files, now, renew_at(now, kLeafDays));
  std::string revision(answer.ok() ? answer.body.text({"metadata", "resourceVersion"}) : "");
  net::Task<Outcome> writing =
      secrets_.put(input.object, input.infra, std::move(secret), std::move(revision));
  out.outcome = co_await writing;
  out.files = std::move(files);
  out.ends = now + std::int64_t{kLeafDays} * 86'400;
  co_return out;
}

/// The files into their folder, and the folder into use once routers can see it.
net::Task<Outcome> Ends::lay(PartInput input, CertificateFiles files, PartState* state) {
  const std::string hash = profile_hash(input.identity(), files);
  const std::string name = profile_secret_name(hash);
  net::Task<ApiAnswer> asking = secrets_.read(input.infra, name);
  const ApiAnswer answer = co_await asking;
  if (!answer.ok() && !answer.says_missing()) {
    co_return Outcome::error();
  }
  ProfileFacts facts;
  facts.wanted = hash;
  facts.in_force = state->profile;
  facts.now = unix_seconds();
  facts.delay = seconds_of(site_.config().cert_propagation_delay);
  if (answer.ok()) {
    facts.written = written_at(answer.body);
  }
  const ProfileStep step = profile_step(facts);
  if (step.write) {
    krm::Json secret = certificate_secret(name, input.infra.ns, files, facts.now, 0);
    net::Task<Outcome> writing = secrets_.put(input.object, input.infra, std::move(secret), "");
    const Outcome written = co_await writing;
    if (written.kind != Outcome::Kind::kDone) {
      co_return written;
    }
  }
  std::string use(step.use);
  state->profile = std::move(use);
  state->again = seconds(step.wait);
  co_return Outcome::done();
}

net::Task<Outcome> Ends::remove(PartInput input) {
  std::vector<std::string> names;
  const PartState* const state = find(input.object, input.part);
  for (const std::string& hash :
       {input.record.certificate, state == nullptr ? std::string() : state->profile}) {
    if (!hash.empty()) {
      names.push_back(profile_secret_name(hash));
    }
  }
  if (input.endpoint && needs_certificate(*input.endpoint)) {
    names.push_back(leaf_secret_name(input.identity()));
  }
  for (const std::string& name : names) {
    net::Task<Outcome> removing = secrets_.remove(input.object, input.infra, name);
    const Outcome outcome = co_await removing;
    if (outcome.kind != Outcome::Kind::kDone) {
      co_return outcome;
    }
  }
  co_return Outcome::done();
}

net::Task<Outcome> Ends::write_export(ObjectRefKey space, std::string_view resource,
                                      krm::Json object) {
  const std::string name(object.text({"metadata", "name"}));
  std::string id = id_of(space, resource);
  id.append("/").append(name);
  const std::string body = object.dump();
  const std::size_t hash = std::hash<std::string>{}(body);
  const TimePoint now = site_.unit().loop().now();
  if (const auto at = exported_.find(id); at != exported_.end() && at->second.first == hash &&
                                          now - at->second.second < 10 * site_.config().secrets) {
    co_return Outcome::done();
  }
  const std::string collection = namespaced_path(space.key.cluster, space.key.ns, resource);
  net::Task<ApiAnswer> asking = site_.unit().api().get(collection + "/" + name);
  ApiAnswer has = co_await asking;
  wipe(has.raw);
  ApiWrite write;
  if (has.says_missing()) {
    write.method = "POST";
    write.path = collection;
    write.body = body;
  } else if (!has.ok()) {
    co_return outcome_of(has, RequestKind::kRead);
  } else if (!is_our_export(has.body)) {
    co_return Outcome::done();  // somebody else's of that name stays
  } else if (std::optional<std::string> patch = export_patch(has.body, object)) {
    write.method = "PATCH";
    write.path = collection + "/" + name;
    write.content_type = kMergePatch;
    write.body = std::move(*patch);
  }
  if (!write.method.empty()) {
    const Step step = site_.step(space);
    net::Task<ApiAnswer> writing = site_.unit().write(step, std::move(write));
    const ApiAnswer answer = co_await writing;
    if (!answer.ok()) {
      co_return outcome_of(answer, RequestKind::kUpdate);
    }
  }
  exported_[id] = {hash, now};
  co_return Outcome::done();
}

}  // namespace kintsugi::workers
