#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace kintsugi::krm {

/// The virtual workspaces whose paths are understood (front proxy, 8.2).
enum class VirtualWorkspace : std::uint8_t {
  kApiExport,
  kInitializing,
  kTerminating,
  kReplication,
  kApiResourceSchema,
  kMigrating,
  kAdmin,
  kOther,  ///< one that only a shard may know
};

/// A /services/… target taken apart by the grammar of topology 9.3. Segments are decoded once; it
/// refers to nothing.
struct ServicePath {
  VirtualWorkspace kind = VirtualWorkspace::kOther;
  std::string name;        ///< "apiexport"; as it was sent where the kind is kOther
  std::string owner;       ///< cluster of the export, slice or type, or the consumer; "" for none
  std::string type;        ///< of initializing and terminating workspaces
  std::string object;      ///< name of the export or slice, "" for none
  std::string cluster;     ///< "*", a name or a path; "" for none
  std::string object_raw;  ///< as it was sent
  std::string trail;       ///< undecoded: what follows, with the query; begins with '/' or '?'
};

/// @param target begins with "/services" in any spelling.
/// @return nullopt for what no virtual workspace serves: a part is missing or empty, or the name of
/// an object holds a separator (E4).
[[nodiscard]] std::optional<ServicePath> parse_service_path(std::string_view target);

/// Which one a path below "/services" is for; kOther for names that are not known.
[[nodiscard]] VirtualWorkspace virtual_workspace_of(std::string_view path);

/// The target for a shard, with logical cluster names in the place of human paths.
/// @param owner,cluster names for the parts of the same name; ignored where there is none.
[[nodiscard]] std::string service_target(const ServicePath& path, std::string_view owner,
                                         std::string_view cluster);

}  // namespace kintsugi::krm
