#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "workers/delivery/protocol/resource_message.h"

namespace kintsugi::workers {

enum class ManifestState : std::uint8_t { kQueued, kApplied, kDegraded, kDeleting, kDeleted };

/// What an agent keeps of the last order for one uid; the manifest itself is in the journal.
struct ManifestRecord {
  std::int64_t generation = 0;
  bool deleting = false;
  bool answered = false;  ///< a status for this order was given out
  ManifestState state = ManifestState::kQueued;
  std::string id = "null";  ///< resourceGenerationID, JSON
  std::string prefix;       ///< of the topic that it came by
  std::string hash;         ///< of the message
  std::string api_version, kind, ns, name;
  std::string target_uid;    ///< of the object that is being deleted
  std::string content_hash;  ///< of the object as it was applied
  std::string status_hash;   ///< of the status that was given out last

  bool operator==(const ManifestRecord&) const = default;
  [[nodiscard]] std::string encode() const;
  [[nodiscard]] static std::optional<ManifestRecord> decode(std::string_view text);
};

/// What an agent keeps of a message that it refused: the answer, until another message takes the
/// place of it. What was ordered before stays ordered.
struct RefusalRecord {
  std::int64_t generation = 0;            ///< 0: none was readable
  bool told = false;                      ///< the broker has the answer
  std::string id = "null", prefix, hash;  ///< as in ManifestRecord
  std::string reason, message;

  [[nodiscard]] std::string encode() const;
  [[nodiscard]] static std::optional<RefusalRecord> decode(std::string_view text);
};

enum class ManifestVerdict : std::uint8_t { kTaken, kSame, kOlder };

/// What a message means beside the last order for its uid; null: there was none. Source: CM-30.
/// The greater generation counts, of equal ones the deletion, and what was deleted comes
/// again with a greater one only.
[[nodiscard]] ManifestVerdict judge_manifest(const ManifestRecord* known,
                                             const ResourceMessage& message,
                                             std::string_view hash) noexcept;
/// The order that it is. @param known  may be null
[[nodiscard]] ManifestRecord ordered(const ManifestRecord* known, const ResourceMessage& message,
                                     std::string_view prefix, std::string hash);

}  // namespace kintsugi::workers
