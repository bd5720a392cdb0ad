#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "krm/json.h"
#include "workers/messaging/model/objects.h"
#include "workers/runtime/control/controller.h"
#include "workers/runtime/reflector/object_cache.h"

namespace kintsugi::workers {

// What is kept of each object: as it was read, and what is needed to write it. Threads: any.

/// Of the metadata, beside the identity.
struct CachedMeta {
  std::string resource_version;
  std::string finalizers;  ///< in their order, with commas between
  bool deleting = false;
  [[nodiscard]] bool has_finalizer(std::string_view finalizer) const noexcept;
  /// An object with as much of its metadata as patches of finalizers look at.
  [[nodiscard]] krm::Json object(const ObjectIdentity& id) const;
};

template <class T>
struct Cached {
  Parsed<T> parsed;
  CachedMeta meta;
  std::string status;  ///< as pack_text() of its JSON text, "" for none: smaller than the value
  [[nodiscard]] const ObjectIdentity& id() const noexcept { return parsed.object.id; }
  /// An object without one is given an empty one.
  [[nodiscard]] krm::Json status_json() const;
};

/// Infra, and whether its status says that spaces may be bound to it.
struct CachedInfra : Cached<MessagingInfra> {
  bool active = false;
};
using CachedPlan = Cached<MessagingPlan>;
using CachedAddressPlan = Cached<AddressPlan>;
/// Space, and the infra that its status says it is bound to.
struct CachedSpace : Cached<MessagingSpace> {
  std::optional<Key> bound;
};
using CachedEndpoint = Cached<MessagingEndpoint>;
using CachedConnector = Cached<MessagingConnector>;

/// A namespace: its labels for selectors, and the tenant that its annotations ask for.
struct CachedNamespace {
  krm::Json labels;
  std::optional<MessagingSpace> tenant;
  bool unknown_value = false;
  bool deleting = false;
  std::string uid;
};

/// `status.infra` {cluster, namespace, name}; nullopt: not bound.
[[nodiscard]] std::optional<Key> bound_infra(const krm::Json& status);

/// Whether what people and other controllers ask of two states of one object is the same: only its
/// status, which we write, is another one.
template <class C>
[[nodiscard]] bool asks_the_same(const C& before, const C& after) {
  const auto& was = before.parsed.object;
  const auto& is = after.parsed.object;
  if constexpr (requires { is.is_default; }) {  // by an annotation, which is no part of generations
    if (was.is_default != is.is_default) {
      return false;
    }
  }
  return was.id.generation == is.id.generation && before.meta.deleting == after.meta.deleting &&
         before.meta.finalizers == after.meta.finalizers;
}

[[nodiscard]] CachedMeta cached_meta(const krm::Json& object);
/// Of a Cached::status, and back.
[[nodiscard]] krm::Json parsed_status(std::string_view packed);
[[nodiscard]] std::string packed_status(const krm::Json& status);

/// @param parse  parse_infra, …
template <class C, class Parse>
[[nodiscard]] Projection<C> cached_projection(Parse parse) {
  Projection<C> out;
  out.make = [parse](const shards::ObjectKey& key, const krm::Json& object) {
    C cached;
    cached.parsed = parse(object);
    cached.meta = cached_meta(object);
    ObjectIdentity& id = cached.parsed.object.id;
    id.cluster = key.cluster;  // of the path: an object cannot say that it stands elsewhere
    id.ns = key.ns;
    id.name = key.name;
    if (const krm::Json* status = object.find("status")) {
      cached.status = packed_status(*status);
      if constexpr (requires { cached.bound; }) {
        cached.bound = bound_infra(*status);
      }
      if constexpr (requires { cached.active; }) {
        cached.active = status->text({"phase"}) == "Active";
      }
    }
    return cached;
  };
  return out;
}

template <class T>
krm::Json Cached<T>::status_json() const {
  return parsed_status(status);
}

}  // namespace kintsugi::workers
