#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "aggregation/bytes/media_type.h"
#include "base/error.h"
#include "http/handler.h"
#include "krm/json.h"

/// What the answer of one shard means for a merged read (AGG-1001).
namespace kintsugi::aggregation {

/// Cause of a shard that is refused where cursors are numbers or of many shards (AGG-517).
inline constexpr std::string_view kTooLargeVersions =
    "its resourceVersions are too large for the cursors of this installation";

enum class ShardVerdict : std::uint8_t {
  kGood,
  kAbsent,   ///< 404: the shard does not serve the resource
  kDown,     ///< as if it were not there: the route's policy decides
  kFinal,    ///< its Status goes to the client
  kExpired,  ///< 410
};

/// @param body  as much of it as came, for the cause of a 504.
[[nodiscard]] ShardVerdict judge_answer(const http::ResponseHead& head, std::string_view body);

/// 503 of a list, or 429 of a watch, that needs shards which are away: one cause per shard.
[[nodiscard]] Error shards_unavailable(
    const std::vector<std::pair<std::string, std::string>>& causes, bool watch);

/// 504 of a revision that a shard has not reached (V16, AGG-402).
[[nodiscard]] Error version_too_large(std::uint64_t asked, std::uint64_t reached);

/// Makes a client's head the one that every shard is asked with: the media types that merges can
/// answer, nothing compressed, one Audit-Id.
void ask_as(http::RequestHead& head, std::string_view accept);
/// One Audit-Id for the request, its answer and all shards: the client's, or a new one.
void ensure_audit_id(http::RequestHead& head);

/// Fields of a shard's refusal that its client gets.
[[nodiscard]] http::HeaderList passed_headers(const http::ResponseHead& answer);

/// A 429 with the longest Retry-After of shards that stay busy. [s]
[[nodiscard]] Error shards_busy(int retry_after);
/// Retry-After of an answer [s]; 1 without one.
[[nodiscard]] int retry_after_of(const http::ResponseHead& answer) noexcept;
/// The Status of an answer, in either encoding; null: none.
[[nodiscard]] krm::Json status_of(const http::ResponseHead& answer, std::string_view body);

/// Values of Warning fields of one answer: at most 64, each once (AGG-1705).
class Warnings {
 public:
  /// What a shard has warned of.
  void add_from(const http::HeaderList& headers);
  /// The answer lacks a shard. These come first.
  void add_missing(std::string_view shard, std::string_view cause);
  void add_to(http::HeaderList& headers) const;
  static constexpr std::size_t kMost = 64;

 private:
  void add(std::vector<std::string>& list, std::string value);
  std::vector<std::string> missing_, passed_;
};

}  // namespace kintsugi::aggregation
