#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "http/headers.h"

/// What a client may be sent and what it sent (AM-076 to AM-101).
namespace kintsugi::apiserver::internal {

enum class Format : std::uint8_t { kJson, kYaml, kProtobuf };
enum class Shape : std::uint8_t { kObject, kTable, kPartial, kPartialList };

/// The form of an answer.
struct Form {
  Format format = Format::kJson;
  Shape shape = Shape::kObject;
  bool beta = false;    ///< meta.k8s.io/v1beta1 instead of v1
  bool pretty = false;  ///< two-space indentation

  [[nodiscard]] std::string_view meta_api_version() const noexcept {
    return beta ? "meta.k8s.io/v1beta1" : "meta.k8s.io/v1";
  }
  /// JSON of the object itself on one line: answers are spliced from stored bytes.
  [[nodiscard]] bool is_plain() const noexcept {
    return format == Format::kJson && shape == Shape::kObject && !pretty;
  }
};

/// One alternative of an Accept header.
struct AcceptClause {
  std::string type;  ///< lower case, "application/json", "*/*"
  std::vector<std::pair<std::string, std::string>> parameters;
  [[nodiscard]] std::string_view parameter(std::string_view name) const noexcept;
};

/// Alternatives by weight, then order; those with q=0 are left out. An empty or absent header is
/// "*/*".
[[nodiscard]] std::vector<AcceptClause> parse_accept(std::string_view header);

struct Offer {
  bool yaml = true;
  bool protobuf = false;
  bool transforms = false;  ///< Table and PartialObjectMetadata
};
/// What an error is written in: the first of JSON, YAML and protobuf that the client names, else
/// JSON.
[[nodiscard]] Format error_format(const std::vector<AcceptClause>& accept) noexcept;
/// The first alternative that the offer can serve; nullopt: 406. PartialObjectMetadata may be
/// protobuf also of kinds that have no protobuf form.
[[nodiscard]] std::optional<Form> negotiate(const std::vector<AcceptClause>& accept,
                                            const Offer& offer);

/// Whether the client names any type that builtin kinds have, or anything at all.
[[nodiscard]] bool names_known_type(const std::vector<AcceptClause>& accept) noexcept;

/// AM-096, AM-097: the query's `pretty` if it is there, else Accept's, else by browser or curl.
[[nodiscard]] bool wants_pretty(std::optional<std::string_view> query_value,
                                const std::vector<AcceptClause>& accept,
                                std::string_view user_agent);

/// Content types of request bodies, parameters ignored.
enum class BodyType : std::uint8_t {
  kJson,
  kYaml,
  kProtobuf,
  kJsonPatch,
  kMergePatch,
  kStrategicPatch,
  kApplyPatch,
  kOther
};
/// @param header Content-Type; absent or empty is kJson when `default_json`, else kOther.
[[nodiscard]] BodyType body_type(std::string_view header, bool default_json);

[[nodiscard]] std::string_view content_type(Format format) noexcept;

}  // namespace kintsugi::apiserver::internal
