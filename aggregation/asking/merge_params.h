#pragma once

#include <cstddef>
#include <cstdint>

#include "base/time.h"

/// What operators may set of merged reads (AGG-904, AGG-1001; `aggregation` in
/// proxy.yaml).
namespace kintsugi::aggregation {

/// What a list or watch does without a shard that is away.
enum class MissingShards : std::uint8_t {
  kStrict,   ///< nothing: 503, 429
  kPartial,  ///< it goes on with the others, and says so
};

/// How a client learns what it missed of a shard whose history is gone.
enum class Resync : std::uint8_t {
  kDiff,    ///< the differences arrive as events
  kExpire,  ///< ERROR 410: it lists again
};

/// With whose credential shards are asked (AGG-904).
enum class Share : std::uint8_t {
  kCaller,    ///< the caller's: equal callers share streams
  kReviewed,  ///< the proxy's own, for callers whom SubjectAccessReviews allow it
};

/// What a document made of those of several shards holds (AGG-1601).
enum class Join : std::uint8_t {
  kUnion,         ///< what any of them serves
  kIntersection,  ///< what all of them serve
};

struct MergeOptions {
  MissingShards policy = MissingShards::kStrict;
  bool allow_partial = false;  ///< requests may ask for partial (X-Kintsugi-Partial)
  Resync resync = Resync::kDiff;
  bool watch_list = true;  ///< false: WatchList is refused as by servers without it (AGG-805)
  Join discovery = Join::kUnion;  ///< of what several shards serve (AGG-1601)
  bool sequence = false;          ///< cursors are numbers although vectors would do (AGG-516)
  Share share = Share::kCaller;
  /// Objects of the logical clusters that every shard has are named after their shard too; false:
  /// they are left out (AGG-1501).
  bool qualify_system = false;
  bool operator==(const MergeOptions&) const = default;
};

struct MergeParams {
  Duration bookmark_gap = milliseconds(200);        ///< D, up to 16 slots
  Duration bookmark_gap_wide = milliseconds(1000);  ///< D above 16 slots
  Duration bookmark_idle = seconds(60);
  Duration headers_wait = milliseconds(1000);
  Duration max_stall = seconds(300);
  Duration min_life = seconds(1);  ///< of a watch that sends nothing (AGG-1303)
  Duration group_linger = seconds(30);
  std::size_t group_log = 8U << 20;        ///< [bytes] of recent events of a group
  std::size_t resume_events = 16'384;      ///< that a group can be resumed at, whatever their age
  std::size_t queue_high = 1U << 20;       ///< [bytes] a client may be behind its group
  std::size_t queue_high_events = 16'384;  ///< [events] the same
  /// [bytes] that may wait for all clients of the process; 0: a quarter of its memory limit
  std::size_t queue_total = 0;
  std::size_t private_high = 256U << 10;    ///< [bytes] unsent before a private stream waits
  Duration slow_grace = seconds(5);         ///< to finish an event before a slow client's end
  std::size_t max_event = 16U << 20;        ///< [bytes]
  Duration silence = seconds(10);           ///< of a shard during its initial events
  Duration initial_deadline = seconds(60);  ///< of a slow shard's initial events
  Duration give_up = seconds(120);          ///< on initial events of a shard
  Duration first_byte = seconds(10);
  Duration list_deadline = seconds(55);
  std::size_t list_streams = 1'024;
  std::size_t protobuf_spool = 64U << 20;  ///< [bytes] of one list
  std::size_t index_bytes = 256U << 20;    ///< of all key indexes of a loop
  /// After how long a stream that began at a cursor gets a key index by a list; 0: never.
  Duration index_after = seconds(30);
  Duration expire_spread = seconds(10);
  std::uint32_t expire_rate = 50;  ///< [1/s] watches of a loop that are ended with 410
  Duration reprobe = seconds(30);  ///< of a resource that a shard lacks
  Duration future_wait = seconds(3);
  std::size_t generations_kept = 256;          ///< of the slot table; all of a day in any case
  Duration first_backoff = milliseconds(100);  ///< before a shard is asked again; then doubled
  Duration last_backoff = seconds(5);          ///< the longest
  std::size_t sequence_bytes = 64U << 20;      ///< [bytes] of the vectors behind sequence cursors
  Duration rights_age = seconds(10);           ///< of a shard's word that an identity may watch
  Duration rights_recheck = seconds(60);       ///< of running watches, give or take a fifth
  Duration rights_grace = seconds(300);        ///< of running watches while nobody can be asked
  std::size_t rights_entries = 65'536;         ///< decisions that a loop remembers
  bool operator==(const MergeParams&) const = default;
};

}  // namespace kintsugi::aggregation
