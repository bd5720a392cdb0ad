#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"

namespace kintsugi::krm {

/// Query parameters in order, decoded ('+' is a space). Undecodable pairs are dropped. What is
/// found lives as long as this: a temporary is not asked.
class Query {
 public:
  Query() = default;
  explicit Query(std::string_view raw);  ///< without '?'
  /// First value, nullopt when absent.
  [[nodiscard]] std::optional<std::string_view> get(std::string_view key) const& noexcept;
  std::optional<std::string_view> get(std::string_view key) const&& = delete;
  [[nodiscard]] std::vector<std::string_view> all(std::string_view key) const&;
  std::vector<std::string_view> all(std::string_view key) const&& = delete;
  [[nodiscard]] const std::vector<std::pair<std::string, std::string>>& pairs() const& {
    return pairs_;
  }
  const std::vector<std::pair<std::string, std::string>>& pairs() const&& = delete;

 private:
  std::vector<std::pair<std::string, std::string>> pairs_;
};

/// A request target understood, by the rules of api-machinery 3.2 (AM-036 to AM-051). The cluster
/// prefix has been taken off before (RequestTarget). The path is decoded once and then split, so an
/// escaped slash separates like a plain one (KK-371).
struct RequestInfo {
  bool is_resource = false;
  /// get list watch create update patch delete deletecollection; "proxy" in the path form that
  /// Kubernetes has given up; non-resource: lower-case method
  std::string verb;
  std::string path;        ///< decoded path below the API root, as authorizers see it
  std::string api_prefix;  ///< "api" or "apis"
  std::string group;       ///< "" for core
  std::string version;
  std::string ns;
  std::string resource;
  std::string subresource;
  std::string name;  ///< also taken from fieldSelector metadata.name= for list and watch (AM-040)
  std::vector<std::string>
      parts;  ///< the segments after the version ("namespaces", "t1", "configmaps", "a")
  bool path_has_name = false;     ///< name stands in the path, not in a selector
  bool deprecated_watch = false;  ///< /api/v1/watch/… form
  Query query;

  /// "configmaps", "widgets.ex.io"
  [[nodiscard]] std::string qualified_resource() const {
    return group.empty() ? resource : resource + "." + group;
  }
};

/// @param target path and query below the API root ("/api/v1/namespaces/t1/configmaps?watch=1").
/// Never fails: what is no API path is a non-resource request.
[[nodiscard]] RequestInfo parse_request_info(std::string_view method, std::string_view target);

/// What the first value of the query parameter `watch` says (AM-039).
[[nodiscard]] bool asks_for_watch(std::optional<std::string_view> value) noexcept;

/// "/clusters/<segment>/<rest>" taken apart.
struct ClusterPath {
  std::string segment;    ///< decoded once; "*", a name or a workspace path; may be invalid (check
                          ///< is_cluster_path)
  std::string_view rest;  ///< undecoded, begins with '/' or is empty; keeps the query
};
/// nullopt when the target does not begin with "/clusters/" and a non-empty segment.
[[nodiscard]] std::optional<ClusterPath> split_cluster_path(std::string_view target);

/// name = [a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?
[[nodiscard]] bool is_cluster_name(std::string_view text) noexcept;
/// names joined by ':'
[[nodiscard]] bool is_workspace_path(std::string_view text) noexcept;
/// Logical cluster name of a user's home workspace.
[[nodiscard]] std::string home_cluster_name(std::string_view user_name);

}  // namespace kintsugi::krm
