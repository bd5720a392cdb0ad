#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "krm/json.h"

/// OpenAPI documents that both the proxy and a shard have parts of (AM-124 to AM-136).
namespace kintsugi::aggregation {

/// The document of this key is made of both sides' documents; those of the proxy's own group
/// (topology.kcp.io) are the proxy's alone.
inline constexpr std::string_view kSharedOpenApiKey = "apis/apis.kcp.io/v1alpha1";

/// A target of /openapi/v2 or /openapi/v3 as the merge needs it.
struct OpenApiTarget {
  bool is_v2 = false;               ///< the one document of v2
  bool is_index = false;            ///< of v3; else the document of a group version
  std::optional<std::string> hash;  ///< of the query
  std::string_view path;            ///< the target without its query
};
/// @param target path and query, with anything before /openapi. Nullopt: something else.
[[nodiscard]] std::optional<OpenApiTarget> split_openapi_target(std::string_view target);

/// Hash of a merged document: made of the hashes of its parts, so that the index can name it
/// without the documents. The same on every proxy. Upper-case hex SHA-512.
[[nodiscard]] std::string merged_openapi_hash(std::string_view theirs, std::string_view ours);

/// Puts the proxy's group into a shard's index of /openapi/v3 and names the merged document with
/// its hash. False when one of them is no index; `theirs` is unchanged then.
[[nodiscard]] bool merge_openapi_index(krm::Json& theirs, const krm::Json& ours);

/// Makes every link of an index begin with `root`, "/clusters/root:org".
void root_openapi_index(krm::Json& index, std::string_view root);

/// Puts paths and components of `ours` into `theirs`; ours win. False when one of them is no
/// OpenAPI v3 document; `theirs` is unchanged then.
[[nodiscard]] bool merge_openapi_document(krm::Json& theirs, const krm::Json& ours);

/// The v2 document of both sides: our paths, the shard's definitions and those it does not have.
/// The protobuf form is merged without decoding what is inside. nullopt when one of them is no
/// OpenAPI v2 document.
[[nodiscard]] std::optional<std::string> merge_openapi_v2_json(std::string_view theirs,
                                                               std::string_view ours);
[[nodiscard]] std::optional<std::string> merge_openapi_v2_protobuf(std::string_view theirs,
                                                                   std::string_view ours);

/// @{ Documents of several shards (AGG-1604): what only `more` has is put into `into`.
/// @returns of the index: how many documents both have with other hashes; nullopt when one of them
///          is no such document, `into` is unchanged then.
[[nodiscard]] std::optional<std::size_t> unite_openapi_index(krm::Json& into,
                                                             const krm::Json& more);
[[nodiscard]] std::optional<std::string> unite_openapi_v2_json(std::string_view into,
                                                               std::string_view more);
[[nodiscard]] std::optional<std::string> unite_openapi_v2_protobuf(std::string_view into,
                                                                   std::string_view more);
/// Hash of a document that merged reads pass on, made of its shard's: a client never takes it for
/// the shard's own.
[[nodiscard]] std::string passed_openapi_hash(std::string_view theirs);
/// Every link of an index gets that hash.
void pass_openapi_hashes(krm::Json& index);
/// @}

/// ETag of the merged v2 document, which holds those of its parts, so that a client's tag can be
/// passed on to the shard. Without quotes.
[[nodiscard]] std::string merged_openapi_v2_tag(std::string_view theirs, std::string_view ours);
/// The shard's part of a tag made with the same `ours`; "" when it is of another making.
[[nodiscard]] std::string_view their_openapi_v2_tag(std::string_view merged,
                                                    std::string_view ours) noexcept;

}  // namespace kintsugi::aggregation
