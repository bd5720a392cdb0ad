#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace kintsugi::aggregation {

/// A request for a document of `clusters/*` understood (AGG-1601).
struct DocumentRequest {
  enum class Kind : std::uint8_t {
    kGroups,           ///< /api, /apis
    kDiscovery,        ///< what is below them
    kOpenApiIndex,     ///< /openapi/v3
    kOpenApiDocument,  ///< below it
    kOpenApiV2,
    kVersion,
    kOther,  ///< nothing that can be merged
  };
  Kind kind = Kind::kOther;
  std::string path;                 ///< without query and trailing slash
  std::string key;                  ///< of an OpenAPI document: "apis/apps/v1"
  std::optional<std::string> hash;  ///< that its client asks for
  std::string accept;               ///< what shards are asked for
  std::string type;                 ///< what the client gets; "": what the shard answers with
  bool aggregated = false;          ///< APIGroupDiscoveryList
  /// The client takes nothing that there is: 406.
  bool acceptable = true;
  std::string plain_type;  ///< what else it would take than `aggregated`; "": nothing
};

/// @param trail   what follows "clusters/*", with the query.
/// @param accept  of the client.
[[nodiscard]] DocumentRequest read_document_request(std::string_view trail,
                                                    std::string_view accept);

/// Does one of the tags of If-None-Match mean `tag`? Weak ones compare as strong ones.
/// @param tag without quotes.
[[nodiscard]] bool names_tag(std::string_view if_none_match, std::string_view tag) noexcept;

/// An answer's ETag without quotes, "" when it has none.
[[nodiscard]] std::string_view unquoted_tag(std::string_view tag) noexcept;

/// Is the server of /version document `a` older than that of `b`, by gitVersion? What cannot be
/// read is the oldest.
[[nodiscard]] bool is_older_server(std::string_view a, std::string_view b);

}  // namespace kintsugi::aggregation
