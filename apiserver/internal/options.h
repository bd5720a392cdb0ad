#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/time.h"
#include "krm/json.h"
#include "krm/request_info.h"
#include "store/store.h"

/// Query and body options of requests, read and checked (AM-146 to AM-154, AM-182, AM-261, AM-291).
namespace kintsugi::apiserver::internal {

enum class VersionMatch : std::uint8_t { kUnset, kExact, kNotOlderThan };

struct ListOptions {
  std::string label_selector, field_selector;
  std::string resource_version;  ///< as sent; "" and "0" have meanings of their own
  store::Revision revision = 0;  ///< the number in it
  VersionMatch match = VersionMatch::kUnset;
  std::int64_t limit = 0;  ///< 0: none
  std::string continue_token;
  bool allow_bookmarks = false;
  std::optional<bool> send_initial_events;
  std::optional<std::int64_t> timeout_seconds;
};
/// @error kBadRequest numbers that are none; kInvalid forbidden combinations (ListOptions).
[[nodiscard]] Expected<ListOptions> parse_list_options(const krm::Query& query, bool watch);

/// `resourceVersion` of a get. @error kBadRequest
[[nodiscard]] Expected<store::Revision> parse_get_version(const krm::Query& query);
/// Digits to a revision. @error kBadRequest `resourceVersion: Invalid value: "abc": strconv…`
[[nodiscard]] Expected<store::Revision> parse_resource_version(std::string_view text);

enum class FieldValidation : std::uint8_t { kWarn, kStrict, kIgnore };

struct WriteOptions {
  bool dry_run = false;
  std::string field_manager;  ///< "" = from User-Agent
  FieldValidation validation = FieldValidation::kWarn;
  bool force = false;
};
/// @param kind CreateOptions, UpdateOptions or PatchOptions, for error texts.
/// @error kInvalid
[[nodiscard]] Expected<WriteOptions> parse_write_options(const krm::Query& query,
                                                         std::string_view kind, bool apply_patch);

enum class Propagation : std::uint8_t { kDefault, kBackground, kForeground, kOrphan };

struct DeleteOptions {
  bool dry_run = false;
  Propagation propagation = Propagation::kDefault;
  std::string precondition_uid, precondition_version;
};
/// From a decoded body (an object), or from the query when `body` is null.
/// @error kBadRequest wrong kinds and types; kInvalid forbidden values (DeleteOptions).
[[nodiscard]] Expected<DeleteOptions> parse_delete_options(const krm::Query& query,
                                                           const krm::Json* body);

/// As CreateOptions or UpdateOptions of meta.k8s.io.
[[nodiscard]] krm::Json write_options_document(const WriteOptions& options, bool create);
/// As DeleteOptions.
[[nodiscard]] krm::Json delete_options_document(const DeleteOptions& options);

/// Deadline of an ordinary request (AM-031, AM-064): 60 s or less.
[[nodiscard]] Expected<Duration> parse_timeout(const krm::Query& query);

/// fieldManager, else User-Agent up to the first '/', else "unknown".
[[nodiscard]] std::string field_manager(const WriteOptions& options, std::string_view user_agent);

}  // namespace kintsugi::apiserver::internal
