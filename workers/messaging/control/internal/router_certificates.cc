#include "workers/messaging/control/internal/router_certificates.h"

#include <utility>
#include <vector>

#include "workers/messaging/control/internal/certificates.h"
#include "workers/messaging/control/site.h"
#include "workers/messaging/model/component_resources.h"
#include "workers/messaging/model/condition_of.h"
#include "workers/messaging/model/names.h"

namespace kintsugi::workers {

namespace {

constexpr Duration kAgain = std::chrono::minutes(10), kAfterFault = seconds(10);
constexpr std::string_view kCa = "CaCreated", kCertificate = "CertCreated";

Condition created(std::string_view type, std::string_view reason) {
  return condition_of(type, ConditionStatus::kTrue, reason);
}

/// What became of a write.
Condition written(std::string_view type, const std::string& name, const Outcome& outcome) {
  return outcome.kind == Outcome::Kind::kDone
             ? created(type, type)
             : refusal(type, "NotWritten", "Secret " + name + " could not be written");
}

const MessagingInfra* object_of(const Site& site, const Key& infra) {
  const CachedInfra* const cached = Directory::find(*site.directory().infras, infra.view());
  return cached == nullptr ? nullptr : &cached->parsed.object;
}

}  // namespace

bool RouterCertificates::Found::ours() const { return secret.is_null() || is_our_secret(secret); }

const RouterCertificates::Known* RouterCertificates::find(const Key& infra) const {
  const auto at = known_.find(infra_text(infra));
  return at == known_.end() ? nullptr : &at->second;
}

net::Task<> RouterCertificates::prepare(Key infra) {
  const TimePoint now = site_.unit().loop().now();
  if (const Known* const known = find(infra);
      known != nullptr && now - known->read_at < (known->good() ? kAgain : kAfterFault)) {
    co_return;
  }
  net::Task<Known> settling = settle(infra);
  Known next = co_await settling;
  next.read_at = now;
  known_[infra_text(infra)] = std::move(next);
}

net::Task<RouterCertificates::Found> RouterCertificates::look(Key infra, std::string name) {
  Found out;
  net::Task<ApiAnswer> reading = secrets_.read(infra, name);
  ApiAnswer answer = co_await reading;
  if (answer.ok()) {
    out.secret = std::move(answer.body);
  } else if (!answer.says_missing()) {
    out.trouble = "Secret " + name + ": " + answer.text();
    out.forbidden = answer.is(403);
  }
  co_return out;
}

net::Task<RouterCertificates::Known> RouterCertificates::settle(Key infra) {
  Known out{refusal(kCa, "Gone", "the infra is gone"), refusal(kCertificate, "Gone", ""), {}};
  const MessagingInfra* const object = object_of(site_, infra);
  if (object == nullptr) {
    co_return out;
  }
  const std::string ca_name = router_ca_name(*object);
  const std::string name = router_certificate_name(*object);
  net::Task<Found> looking_ca = look(infra, ca_name);
  Found ca = co_await looking_ca;
  net::Task<Found> looking = look(infra, name);
  Found certificate = co_await looking;
  if (ca.trouble || certificate.trouble) {
    const std::string& why = ca.trouble ? *ca.trouble : *certificate.trouble;
    out.ca = refusal(kCa, "NotRead", why);
    out.certificate = refusal(kCertificate, "NotRead", why);
    co_return out;
  }
  if (!ca.ours() || !certificate.ours()) {  // whoever made one makes both
    out.ca = ca.ours() ? refusal(kCa, "NotProvided",
                                 "Secret " + name + " is somebody's, and there is no " + ca_name)
                       : created(kCa, "Provided");
    out.certificate = certificate.ours()
                          ? refusal(kCertificate, "NotProvided",
                                    "Secret " + ca_name + " is somebody's, and there is no " + name)
                          : created(kCertificate, "Provided");
    co_return out;
  }
  net::Task<SecretStore::Authority> asking =
      secrets_.authority({MessagingKind::kInfra, infra}, infra);
  const SecretStore::Authority by = co_await asking;
  if (!by.pair) {
    out.ca = refusal(kCa, "NotWritten", "the infra's CA cannot be read or written");
    out.certificate = refusal(kCertificate, "Waiting", "there is no CA yet");
    co_return out;
  }
  net::Task<Condition> writing_ca = write_ca(infra, std::move(ca), *by.pair);
  out.ca = co_await writing_ca;
  net::Task<Condition> writing = write_certificate(infra, std::move(certificate), *by.pair);
  out.certificate = co_await writing;
  co_return out;
}

net::Task<Condition> RouterCertificates::write_ca(Key infra, Found has, net::KeyPair authority) {
  const MessagingInfra* const object = object_of(site_, infra);
  if (object == nullptr) {
    co_return refusal(kCa, "Gone", "the infra is gone");
  }
  const std::string name = router_ca_name(*object);
  const std::string before = has.secret.is_null() ? "" : files_of(has.secret).certificate;
  CertificateFiles files;
  files.certificate = files.authority = trusted(authority.certificate_pem, before);
  if (files.certificate == before) {
    co_return created(kCa, kCa);
  }
  krm::Json secret = certificate_secret(name, infra.ns, files, unix_seconds(), 0);
  std::string revision(has.secret.is_null() ? ""
                                            : has.secret.text({"metadata", "resourceVersion"}));
  net::Task<Outcome> writing =
      secrets_.put({MessagingKind::kInfra, infra}, infra, std::move(secret), std::move(revision));
  const Outcome outcome = co_await writing;
  co_return written(kCa, name, outcome);
}

net::Task<Condition> RouterCertificates::write_certificate(Key infra, Found has,
                                                           net::KeyPair authority) {
  const MessagingInfra* const object = object_of(site_, infra);
  if (object == nullptr) {
    co_return refusal(kCertificate, "Gone", "the infra is gone");
  }
  const std::string name = router_certificate_name(*object);
  net::CertificateRequest request;
  request.common_name = "ktg " + hash_letters(infra_text(infra), 26);
  request.dns_names = router_hosts(*object);
  request.days = kLeafDays;
  request.client = request.server = true;  // routers are each other's clients
  const std::int64_t now = unix_seconds();
  if (!has.secret.is_null() && !is_to_be_renewed(has.secret, &authority, request, now)) {
    co_return created(kCertificate, kCertificate);
  }
  Expected<net::KeyPair> made = net::issue(authority, request);
  if (!made) {
    co_return refusal(kCertificate, "InvalidHost",
                      "no certificate can be made for " + object->routers.domain);
  }
  const CertificateFiles files{made->certificate_pem, authority.certificate_pem,
                               std::move(made->key_pem)};
  krm::Json secret = certificate_secret(name, infra.ns, files, now, renew_at(now, kLeafDays));
  std::string revision(has.secret.is_null() ? ""
                                            : has.secret.text({"metadata", "resourceVersion"}));
  net::Task<Outcome> writing =
      secrets_.put({MessagingKind::kInfra, infra}, infra, std::move(secret), std::move(revision));
  const Outcome outcome = co_await writing;
  co_return written(kCertificate, name, outcome);
}

net::Task<Outcome> RouterCertificates::remove(Key infra) {
  std::vector<std::string> names;
  if (const MessagingInfra* const object = object_of(site_, infra)) {
    names = {router_certificate_name(*object), router_ca_name(*object),
             authority_secret_name(infra.name)};
  }
  for (std::string& name : names) {
    net::Task<Outcome> removing = remove_one(infra, std::move(name));
    const Outcome removed = co_await removing;
    if (removed.kind != Outcome::Kind::kDone) {
      co_return removed;
    }
  }
  co_return Outcome::done();
}

net::Task<Outcome> RouterCertificates::remove_one(Key infra, std::string name) {
  net::Task<Found> looking = look(infra, name);
  const Found has = co_await looking;
  if (has.trouble && !has.forbidden) {
    co_return Outcome::error();
  }
  if (has.secret.is_null() || !has.ours()) {
    co_return Outcome::done();
  }
  net::Task<Outcome> removing =
      secrets_.remove({MessagingKind::kInfra, infra}, infra, std::move(name));
  const Outcome outcome = co_await removing;
  co_return outcome;
}

}  // namespace kintsugi::workers
