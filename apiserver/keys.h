#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

/// Store keys of API objects.
/// Shape: <resource> NUL <cluster> NUL [<namespace> NUL] <name>, where <resource> is "configmaps",
/// "widgets.ex.io" or, of a bound API, "widgets.ex.io:<identity hash>". NUL is below every byte
/// that names may hold, so byte order is the order of cluster, namespace, name, and every
/// collection is one prefix. A name that does not fit into kMaxKeyBytes is cut and ends in 0x01 and
/// 32 hex digits of a SHA-256 of all of it; such a key no longer tells the name
/// (KeyParts::name_is_cut).
namespace kintsugi::apiserver {

inline constexpr std::size_t kMaxKeyBytes = 480;

/// In place of an identity: whatever identity (AM-479).
inline constexpr std::string_view kAnyIdentity = "*";

/// Prefix of all objects of a resource, in every cluster; of "widgets.ex.io:*" under every
/// identity.
[[nodiscard]] std::string resource_prefix(std::string_view qualified_resource);
/// Prefix of a collection. Cluster "*" = resource_prefix; ns "" = all namespaces (or a
/// cluster-scoped resource).
[[nodiscard]] std::string collection_prefix(std::string_view qualified_resource,
                                            std::string_view cluster, std::string_view ns);
/// Key of one object; ns is "" for cluster-scoped resources. nullopt when a part holds a NUL byte:
/// no such object can exist.
[[nodiscard]] std::optional<std::string> object_key(std::string_view qualified_resource,
                                                    std::string_view cluster, std::string_view ns,
                                                    std::string_view name);

/// A key taken apart; views into it.
struct KeyParts {
  std::string_view resource, cluster, ns, name;
  bool name_is_cut = false;
};
/// nullopt: not a key of this layout (other users of the store have their own prefixes).
[[nodiscard]] std::optional<KeyParts> parse_key(std::string_view key) noexcept;

/// The resource part of a key taken apart; views into it.
struct StoredResource {
  std::string_view plural, group;  ///< group "": core
  std::string_view identity;       ///< "": none
};
[[nodiscard]] StoredResource parse_stored_resource(std::string_view name) noexcept;
/// Its inverse for a resource as Registry::find takes it: plural or "<plural>:<identity>".
[[nodiscard]] std::string stored_resource(std::string_view group, std::string_view resource);

/// Position inside a resource as continue tokens show it: the key after the resource prefix with
/// '/' for NUL; names hold no '/'.
[[nodiscard]] std::string position_of(std::string_view key);
/// The same in a collection: under any identity a position begins with it.
[[nodiscard]] std::string position_in(std::string_view qualified_resource, std::string_view key);
/// Inverse; nullopt when `position` cannot be one (empty, or it begins with "../").
[[nodiscard]] std::optional<std::string> key_at(std::string_view qualified_resource,
                                                std::string_view position);

}  // namespace kintsugi::apiserver
