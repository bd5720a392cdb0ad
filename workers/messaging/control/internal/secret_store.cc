#include "workers/messaging/control/internal/secret_store.h"

#include <utility>

#include "krm/path_prefixes.h"
#include "workers/messaging/control/internal/certificates.h"
#include "workers/messaging/control/site.h"
#include "workers/messaging/model/names.h"
#include "workers/runtime/control/outcome_of.h"

namespace kintsugi::workers {

namespace {

/// Of people who write at the same time: the next look decides.
constexpr Duration kSoon = milliseconds(100);

std::string secret_path(const Key& infra, std::string_view name) {
  return namespaced_path(infra.cluster, infra.ns, "secrets").append("/").append(name);
}

}  // namespace

std::string namespaced_path(std::string_view cluster, std::string_view ns,
                            std::string_view resource) {
  return krm::cluster_root(cluster)
      .append("/api/v1/namespaces/")
      .append(ns)
      .append("/")
      .append(resource);
}

net::Task<ApiAnswer> SecretStore::read(Key infra, std::string name) {
  net::Task<ApiAnswer> asking = site_.unit().api().get(secret_path(infra, name));
  ApiAnswer answer = co_await asking;
  wipe(answer.raw);
  co_return answer;
}

net::Task<Outcome> SecretStore::put(ObjectRefKey object, Key infra, krm::Json secret,
                                    std::string revision) {
  ApiWrite write;
  write.path = namespaced_path(infra.cluster, infra.ns, "secrets");
  write.method = revision.empty() ? "POST" : "PUT";
  if (!revision.empty()) {
    write.path.append("/").append(secret.text({"metadata", "name"}));
    secret["metadata"]["resourceVersion"] = revision;
  }
  write.body = secret.dump();
  const Step step = site_.step(object);
  net::Task<ApiAnswer> writing = site_.unit().write(step, std::move(write));
  ApiAnswer answer = co_await writing;
  wipe(answer.raw);
  if (answer.is(409)) {
    co_return Outcome::requeue_after(kSoon);
  }
  co_return outcome_of(answer, RequestKind::kUpdate);
}

net::Task<Outcome> SecretStore::remove(ObjectRefKey object, Key infra, std::string name) {
  ApiWrite write;
  write.method = "DELETE";
  write.path = secret_path(infra, name);
  const Step step = site_.step(object);
  net::Task<ApiAnswer> writing = site_.unit().write(step, std::move(write));
  const ApiAnswer answer = co_await writing;
  if (answer.says_missing()) {
    co_return Outcome::done();
  }
  co_return outcome_of(answer, RequestKind::kDelete);
}

net::Task<SecretStore::Authority> SecretStore::authority(ObjectRefKey object, Key infra) {
  Authority out;
  const std::string name = authority_secret_name(infra.name);
  net::Task<ApiAnswer> reading = read(infra, name);
  const ApiAnswer answer = co_await reading;
  if (!answer.ok() && !answer.says_missing()) {
    out.outcome = Outcome::error();
    co_return out;
  }
  const std::int64_t now = unix_seconds();
  if (answer.ok() && !is_to_be_renewed(answer.body, nullptr, {}, now)) {
    CertificateFiles files = files_of(answer.body);
    out.pair = net::KeyPair{std::move(files.certificate), std::move(files.key)};
    co_return out;
  }
  Expected<net::KeyPair> made = net::make_ca("ktg " + hash_letters(infra.name, 26), kAuthorityDays);
  if (!made) {
    out.outcome = Outcome::error();
    co_return out;
  }
  const CertificateFiles files{made->certificate_pem, {}, made->key_pem};
  krm::Json secret = certificate_secret(name, infra.ns, files, now, renew_at(now, kAuthorityDays));
  std::string revision(answer.ok() ? answer.body.text({"metadata", "resourceVersion"}) : "");
  net::Task<Outcome> writing = put(object, infra, std::move(secret), std::move(revision));
  out.outcome = co_await writing;
  if (out.outcome.kind == Outcome::Kind::kDone) {
    out.pair = std::move(*made);
  }
  co_return out;
}

}  // namespace kintsugi::workers
