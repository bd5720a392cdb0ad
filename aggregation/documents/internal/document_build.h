#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "aggregation/documents/discovery_merge.h"
#include "aggregation/documents/document_cache.h"
#include "aggregation/documents/document_request.h"

namespace kintsugi::aggregation {

/// What one merged document is made of.
struct DocumentParts {
  struct Part {
    KnownDocumentPtr document;
    bool stale = false;  ///< its shard cannot be asked now
  };
  std::vector<Part> shards;  ///< by slot: the first has the first word
  /// What the proxy serves itself; it wins over the shards'. Null: nothing.
  KnownDocumentPtr local;
  /// What one shard alone says of some resources (DocumentRoute::exported). Null: nothing.
  KnownDocumentPtr exported;
  std::function<bool(std::string_view group, std::string_view resource)> is_exported;
  Join join = Join::kUnion;
  std::vector<std::string_view> verbs;      ///< that merged reads serve; empty: all
  std::vector<std::string> empty_versions;  ///< "g/v" in which no resource has one of them
  std::string root;                         ///< what links of OpenAPI begin with
};

struct BuiltDocument {
  std::string etag;  ///< without quotes
  std::string type;  ///< "": with these verbs nothing is left that is served
  std::string body;
  std::size_t differences = 0;  ///< OpenAPI documents that the shards have in different forms
};

/// Pure; the same parts give the same bytes on every replica (AGG-1603). Cost: that of parsing the
/// parts that differ. nullopt: they cannot be read as what was asked for.
[[nodiscard]] std::optional<BuiltDocument> build_document(const DocumentRequest& request,
                                                          const DocumentParts& parts);

/// Where the result may be kept: names everything that it depends on.
[[nodiscard]] std::string built_key(const DocumentRequest& request, const DocumentParts& parts);

}  // namespace kintsugi::aggregation
