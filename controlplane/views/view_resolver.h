#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apiserver/server.h"
#include "base/strings.h"
#include "controlplane/clusters/cluster_index.h"

/// Virtual workspaces of a shard: request targets below "/services/". Source: T-11,
/// KK-340 to KK-355, AM-510 to AM-518.
namespace kintsugi::controlplane {

/// A request for a virtual workspace: "/services/<name><rest>".
struct ViewRequest {
  const http::RequestHead& head;
  const auth::UserInfo& user;
  std::string_view name;  ///< "apiexport"
  std::string_view rest;  ///< undecoded, begins with '/' or is empty; keeps the query
};

/// Says where a request goes: api_root is all of the target before the API path, `view` is set.
/// nullopt: not a path of this virtual workspace, which is answered with 403.
using ViewFunction =
    std::function<Expected<std::optional<apiserver::ClusterTarget>>(const ViewRequest&)>;

/// The virtual workspaces by name. Threads: one loop.
class ViewResolver {
 public:
  void add(std::string name, ViewFunction function);

  /// The cluster resolver that answers targets below "/services/" by the table and asks `clusters`
  /// about all others. This object must outlive it. Errors of its own:
  ///   kForbidden  no such virtual workspace, or not a path of it (AM-511)
  ///   kInternal   forwarded too often (X-Kcp-Virtual-Resource-Hops, TP-078)
  [[nodiscard]] apiserver::ClusterResolver wrap(apiserver::ClusterResolver clusters) const;

 private:
  [[nodiscard]] Expected<std::optional<apiserver::ClusterTarget>> resolve(
      const http::RequestHead& head, const auth::UserInfo& user) const;

  StringMap<ViewFunction> functions_;
};

/// ViewRequest::rest taken apart: "/<segment>/…/clusters/<cluster><api path>".
struct ViewPath {
  std::vector<std::string> segments;  ///< decoded
  std::string cluster;                ///< decoded: "*" or a name, valid or not
  std::string api_root;               ///< as sent, from "/services/" on
  std::string_view api_path;          ///< undecoded, begins with '/' or is empty; keeps the query
};
/// nullopt: other than `segments` non-empty segments before "/clusters/", no cluster, or a path of
/// workspaces where the name of a cluster should be ("system:…" counts as a name).
[[nodiscard]] std::optional<ViewPath> split_view_path(const ViewRequest& request,
                                                      std::size_t segments);

/// How often a request was forwarded between virtual workspaces; 4, the limit, for what is no
/// number.
[[nodiscard]] int forwarded_hops(const http::HeaderList& headers) noexcept;

}  // namespace kintsugi::controlplane
