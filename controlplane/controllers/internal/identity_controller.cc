#include "controlplane/controllers/internal/identity_controller.h"

#include <utility>

#include "base/digest.h"
#include "base/strings.h"
#include "controlplane/controllers/internal/conditions.h"
#include "controlplane/internal/names.h"
#include "krm/go_text.h"

namespace kintsugi::controlplane {
namespace {

using krm::Json;

constexpr const char* kNamespace = "kcp-system";
/// Bytes of a key: who guesses it may share the identity (KK-145).
constexpr std::size_t kLeastKey = 16;

/// 43 characters, as kcp makes them: 32 random bytes.
std::string random_key() { return base64url_encode(random_bytes(32)); }

bool is_there(const Expected<Json>& created) {
  return created || created.error().code() == Errc::kAlreadyExists;
}

std::string hash_of(std::string_view key) { return sha256_hex(key); }

}  // namespace

IdentityController::IdentityController(const apiserver::ControllerContext& context,
                                       std::string_view group, std::string_view resource)
    : apiserver::ControllerBase(context, "kintsugi-identity"), group_(group), resource_(resource) {}

std::string IdentityController::queue_key(std::string_view cluster, std::string_view name) const {
  return apiserver::ObjectKey{std::string(cluster), group_, resource_, "", std::string(name)}
      .pack();
}

void IdentityController::start() {
  follow(group_, resource_, [this](const apiserver::ApiServer::Change& change) {
    if (change.object != nullptr) {
      queue_.add(queue_key(change.cluster, change.name));
    }
  });
  follow("", "secrets", [this](const apiserver::ApiServer::Change& change) {
    reader().list(change.cluster, group_, resource_, "", [&](const Json& one) {
      if (one.text({"spec", "identity", "secretRef", "name"}) == change.name &&
          one.text({"spec", "identity", "secretRef", "namespace"}) == change.ns) {
        queue_.add(queue_key(change.cluster, one.text({"metadata", "name"})));
      }
      return true;
    });
  });
}

void IdentityController::add_cluster(std::string_view cluster) {
  reader().list(cluster, group_, resource_, "", [&](const Json& one) {
    queue_.add(queue_key(cluster, one.text({"metadata", "name"})));
    return true;
  });
}

void IdentityController::process(const std::string& text, Finished finished) {
  const apiserver::ObjectKey key = apiserver::ObjectKey::unpack(text);
  std::optional<Json> found = get(key);
  if (!found || apiserver::is_deleted(*found)) {
    finished(true);
  } else if (found->text({"spec", "identity", "secretRef", "name"}).empty()) {
    make_secret(key, std::move(*found), std::move(finished));
  } else {
    verify(key, std::move(*found), std::move(finished));
  }
}

void IdentityController::make_secret(const apiserver::ObjectKey& key, Json api_export,
                                     Finished finished) {
  const apiserver::ObjectKey ns{key.cluster, "", "namespaces", "", kNamespace};
  if (!get(ns)) {
    Json object = Json::object({{"apiVersion", "v1"}, {"kind", "Namespace"}});
    object.make({"metadata", "name"}) = kNamespace;
    create(ns, std::move(object),
           [this, key, api_export = std::move(api_export),
            finished = std::move(finished)](Expected<Json> created) mutable {
             if (is_there(created)) {
               make_secret(key, std::move(api_export), std::move(finished));
             } else {
               finished(false);
             }
           });
    return;
  }
  const apiserver::ObjectKey secret{key.cluster, "", "secrets", kNamespace, key.name};
  if (get(secret)) {
    name_secret(key, std::move(api_export), std::move(finished));
    return;
  }
  Json object = Json::object({{"apiVersion", "v1"}, {"kind", "Secret"}, {"type", "Opaque"}});
  object.make({"metadata", "name"}) = key.name;
  object.make({"metadata", "namespace"}) = kNamespace;
  object.make({"data", "key"}) = base64_encode(random_key());
  create(secret, std::move(object),
         [this, key, api_export = std::move(api_export),
          finished = std::move(finished)](Expected<Json> created) mutable {
           if (is_there(created)) {
             name_secret(key, std::move(api_export), std::move(finished));
           } else {
             finished(false);
           }
         });
}

void IdentityController::name_secret(const apiserver::ObjectKey& key, Json api_export,
                                     Finished finished) {
  api_export.make({"spec", "identity", "secretRef"}) =
      Json::object({{"name", Json(key.name)}, {"namespace", kNamespace}});
  update(key, "", std::move(api_export),
         [this, key, finished = std::move(finished)](Expected<Json> stored) mutable {
           if (stored) {
             verify(key, std::move(*stored), std::move(finished));
           } else {
             finished(false);
           }
         });
}

void IdentityController::verify(const apiserver::ObjectKey& key, Json api_export,
                                Finished finished) {
  const std::string name(api_export.text({"spec", "identity", "secretRef", "name"}));
  const std::string ns(api_export.text({"spec", "identity", "secretRef", "namespace"}));
  const std::optional<Json> secret = reader().get(key.cluster, "", "secrets", ns, name);
  std::string problem, hash;
  if (!secret) {
    problem = "secrets \"" + name + "\" not found";
  } else if (const auto bytes = base64_decode(secret->text({"data", "key"}));
             !bytes || bytes->empty()) {
    problem = "secret is missing data.key";
  } else if (bytes->size() < kLeastKey) {
    problem = "identity key is too short";
  } else {
    hash = hash_of(*bytes);
  }
  const std::string known(api_export.text({"status", "identityHash"}));
  if (problem.empty() && !known.empty() && known != hash) {
    problem = "hash mismatch: identity secret hash " + krm::go_quote(hash) +
              " must match status.identityHash " + krm::go_quote(known);
  }
  Json updated = api_export;
  if (problem.empty()) {
    updated.make({"status", "identityHash"}) = hash;
    set_kcp_condition(updated, "IdentityValid", "True");
  } else {
    set_kcp_condition(updated, "IdentityValid", "False", "Error", "IdentityVerificationFailed",
                      problem);
  }
  settle_status(key, api_export, std::move(updated), std::move(finished));
}

}  // namespace kintsugi::controlplane
