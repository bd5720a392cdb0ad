#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "apiserver/admission.h"
#include "apiserver/resource.h"
#include "controlplane/admission/privileges.h"

/// Labels and annotations that are facts of the system: who may write which, on which kinds, and
/// what becomes of what others write. Source: KK-024 to KK-027. The table is data for admission and
/// for tests alike.
namespace kintsugi::controlplane {

/// A set of kinds; kcp's by name, custom resource definitions, and all others as one.
using KindSet = std::uint32_t;
inline constexpr KindSet kOfLogicalCluster = 1U << 0U;
inline constexpr KindSet kOfShard = 1U << 1U;
inline constexpr KindSet kOfWorkspace = 1U << 2U;
inline constexpr KindSet kOfWorkspaceType = 1U << 3U;
inline constexpr KindSet kOfAuthentication = 1U << 4U;
inline constexpr KindSet kOfPartition = 1U << 5U;
inline constexpr KindSet kOfPartitionSet = 1U << 6U;
inline constexpr KindSet kOfEndpointSlice = 1U << 7U;
inline constexpr KindSet kOfExport = 1U << 8U;
inline constexpr KindSet kOfBinding = 1U << 9U;
inline constexpr KindSet kOfSchema = 1U << 10U;
inline constexpr KindSet kOfConversion = 1U << 11U;
inline constexpr KindSet kOfCachedResource = 1U << 12U;
inline constexpr KindSet kOfAnythingElse = 1U << 13U;
inline constexpr KindSet kOfAll = (1U << 14U) - 1U;
/// Those on which whole domains are reserved.
inline constexpr KindSet kOfKcp = kOfCachedResource - 1U;
/// Those that carry the path of their logical cluster whether they ask for it or not.
inline constexpr KindSet kWithPath = kOfExport | kOfBinding | kOfWorkspaceType | kOfCachedResource;

[[nodiscard]] KindSet kind_of(const apiserver::ResourceDef& def) noexcept;

enum class MetaPart : std::uint8_t { kAnnotation, kLabel, kBoth };

/// What becomes of a key that somebody sets, changes or takes away without being its writer.
enum class OnForeign : std::uint8_t {
  kRefuse,     ///< 403 `modification of reserved annotation: "<key>"`, `… label: "<key>"`
  kOverwrite,  ///< thrown away: as it was before; a hook of the kind may put the right value there
  kDrop,       ///< never stored, whoever sends it
  kPath,       ///< becomes the path of the logical cluster, whoever sends it
  kKept,       ///< another part of the server gives it its value at every write
};

struct ReservedKey {
  std::string_view pattern;  ///< "<domain>/<name>"; the domain may begin with "*.", the name be "*"
  MetaPart part;
  KindSet kinds;
  Privileges creators;  ///< may set it with the object
  Privileges writers;   ///< may set, change or remove it later
  OnForeign on_create, on_update;
};

/// The first that matches holds; a key that none matches is free.
[[nodiscard]] std::span<const ReservedKey> reserved_keys() noexcept;
/// @param part kAnnotation or kLabel. nullptr: free.
[[nodiscard]] const ReservedKey* reserved_key(KindSet kind, MetaPart part,
                                              std::string_view key) noexcept;

/// Canonical path of a logical cluster. Empty function: nobody knows, keys of kPath are dropped.
using PathOf = std::function<std::string(std::string_view cluster)>;

/// Of AdmissionStep::receive: puts right what the user may not decide. Outside of logical
/// clusters nothing is reserved. @error kForbidden the texts of kRefuse, for the first such key.
/// Cost: a look through the table for each key of the object.
[[nodiscard]] Expected<void> receive_metadata(const PathOf& path_of,
                                              const apiserver::WriteContext& context,
                                              const apiserver::ResourceDef& def, krm::Json& object,
                                              const krm::Json* old);
/// The step that does it.
[[nodiscard]] std::unique_ptr<apiserver::AdmissionStep> reserved_metadata_step(PathOf path_of);

}  // namespace kintsugi::controlplane
