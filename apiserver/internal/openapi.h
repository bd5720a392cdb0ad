#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "apiserver/internal/openapi_v2.h"
#include "apiserver/internal/request.h"
#include "apiserver/resource.h"
#include "base/bytes.h"
#include "base/strings.h"
#include "krm/json.h"

namespace kintsugi::apiserver::internal {

/// OpenAPI documents of logical clusters (AM-124 to AM-136), made when they are first
/// asked for and again only when Registry::generation changes. Clusters that serve the same
/// resources of a group version share one document. Threads: one loop. Limit: kMaxClusters
/// clusters are kept, then all are dropped; documents live as long as a cluster shows them.
/// OpenAPI v2 documents are put together for every request from the parts of these documents,
/// which are made when somebody first asks for v2 and shared like the documents themselves.
class OpenApi {
 public:
  static constexpr std::size_t kMaxClusters = 256;
  static constexpr std::size_t kBuffers = 4;

  struct Document {
    std::string json;
    std::string hash;  ///< upper-case hex SHA-512 of the text
    std::vector<ResourcePtr> made_of;
    /// As part of the v2 document, in JSON and in protobuf; null until it is asked for.
    mutable std::unique_ptr<const OpenApiV2Part> v2[2];
  };
  using DocumentPtr = std::shared_ptr<const Document>;

  explicit OpenApi(const Registry& registry) : registry_(registry) {}

  /// The index of /openapi/v3. @param root  what stands before the API path, for the links.
  [[nodiscard]] std::string index(std::string_view cluster, std::string_view root);
  /// @param key  what follows /openapi/v3/: "api/v1", "apis/ex.io/v1", "apis/ex.io", "version".
  ///             Null when there is no such document.
  [[nodiscard]] DocumentPtr document(std::string_view cluster, std::string_view key);
  /// The v2 document: JSON, or the protobuf message openapi.v2.Document.
  [[nodiscard]] std::string v2(std::string_view cluster, bool protobuf);
  /// The same in one buffer for all who read it, packed by gzip or not. The last kBuffers are kept.
  [[nodiscard]] SharedBytes v2_buffer(std::string_view cluster, bool protobuf, bool gzip);
  /// Hash of the v2 document. Cost: nothing is written for it.
  [[nodiscard]] std::string v2_hash(std::string_view cluster, bool protobuf);

 private:
  struct Entry {
    std::string key;
    DocumentPtr document;
  };
  struct Cluster {
    std::uint64_t generation = 0;
    std::vector<Entry> entries;  ///< sorted by key
  };
  Cluster& cluster(std::string_view name);
  DocumentPtr group_version(std::string_view group, std::string_view version,
                            std::vector<ResourcePtr> resources);
  DocumentPtr discovery(std::string_view key, std::string_view group, bool builtin);
  [[nodiscard]] DocumentPtr known(const std::string& key) const;
  DocumentPtr keep(std::string key, krm::Json document, std::vector<ResourcePtr> resources);

  const Registry& registry_;
  StringMap<std::unique_ptr<Cluster>> clusters_;
  struct Buffer {
    std::string hash;  // of the document
    bool gzip = false;
    SharedBytes bytes;
  };
  std::vector<Buffer> buffers_;  // the last one used is the last
  std::size_t sweep_at_ = 64;    ///< so many documents let go of those that are gone
  StringMap<std::weak_ptr<const Document>>
      documents_;  ///< by key and addresses of what they are made of
};

/// Upper-case hex SHA-512.
[[nodiscard]] std::string openapi_hash(std::string_view text);

/// True for /openapi/v2, /openapi/v3 and what is below.
[[nodiscard]] bool is_openapi_path(std::string_view path) noexcept;
/// Answers them.
void handle_openapi(const RequestPtr& request);

}  // namespace kintsugi::apiserver::internal
