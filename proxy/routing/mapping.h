#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "auth/request_header.h"
#include "base/error.h"
#include "krm/path_prefixes.h"

namespace kintsugi::proxy {

/// One entry of a mapping file: requests below `path` go to `backend`.
struct MappingEntry {
  std::string path;                    ///< pattern as written
  std::vector<std::string> segments;   ///< of the pattern; "{name}" stands for any one
  std::string backend;                 ///< http(s) URL; its own path is put before the request's
  std::string ca_file;                 ///< for the backend's certificate
  std::string cert_file, key_file;     ///< client pair that asserts identities
  std::string server_name;             ///< TLS; "": the host of the URL
  auth::RequestHeaderConfig identity;  ///< header names that the backend reads
  bool own_names = false;              ///< `identity` differs from what shards read
  bool is_static = false;              ///< virtual workspaces are not routed to owner shards
  std::size_t line = 0;                ///< in the file, from 1
  /// What its connections are called.
  [[nodiscard]] std::string name() const { return "mapping " + path; }
  /// The exact entry "/clusters/": shards and their credentials, no backend of its own.
  [[nodiscard]] bool is_clusters() const { return path == krm::kClustersPrefix; }
};

/// The mapping file of kcp-front-proxy: a YAML list. Names of files stay as they are written:
/// relative ones are relative to the working directory, as there. Limits: 10,000 entries of 32
/// segments.
/// @param path of the file, for messages.
/// @return entries in file order; none for an empty file.
/// @error kConfig "<file>:<line>: <what is wrong>": unknown keys, missing keys, patterns that are
///        none or are there twice. The first fault in file order.
[[nodiscard]] Expected<std::vector<MappingEntry>> parse_mapping(std::string_view text,
                                                                const std::string& path);

}  // namespace kintsugi::proxy
