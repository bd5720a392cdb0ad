#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

/// The messages of etcd's API v3 that are used, as bytes of protocol buffers. Source: etcd's
/// rpc.proto and kv.proto (3.4 to 3.6). What is decoded has views into the message; fields that
/// nobody here reads are skipped. Numbers that etcd calls int64 are never negative but for watch
/// ids, which nobody here reads.
namespace kintsugi::store::etcd {

struct Header {
  std::uint64_t cluster_id = 0, member_id = 0, revision = 0, raft_term = 0;
};
struct KeyValue {
  std::string_view key, value;
  std::uint64_t create_revision = 0, mod_revision = 0, version = 0;
};

struct RangeRequest {
  std::string key, range_end;
  std::uint64_t limit = 0, revision = 0;
  bool serializable = false, keys_only = false, count_only = false;
  std::uint64_t min_mod_revision = 0;  ///< without rows that were written before
};
struct RangeResponse {
  Header header;
  std::vector<KeyValue> kvs;
  bool more = false;
  std::uint64_t count = 0;
};

/// That the key's mod_revision is this one; 0: there is no such key. With a `range_end`: that those
/// of all keys from `key` on and before that are less.
struct Compare {
  std::string key;
  std::uint64_t mod_revision = 0;
  std::string range_end = {};
};
struct TxnOp {
  /// kRange: the key's revisions; kRead: its value, too, as of `revision` (0: now).
  enum class Kind : std::uint8_t { kRange, kRead, kPut, kDelete };
  Kind kind = Kind::kRange;
  std::string key, value;
  std::uint64_t revision = 0;
  std::string range_end = {};  ///< of a delete: all keys from `key` on and before this one
};
struct TxnRequest {
  std::vector<Compare> compares;
  std::vector<TxnOp> success, failure;
};
struct TxnResponse {
  Header header;
  bool succeeded = false;
  std::vector<RangeResponse> ranges;  ///< of the branch that ran, in its order
};

struct WatchCreate {
  std::string key, range_end;
  std::uint64_t start_revision = 0;
  bool fragment = true;
};
struct WatchedEvent {
  bool is_delete = false;
  KeyValue kv;
};
struct WatchResponse {
  Header header;
  bool created = false, canceled = false, fragment = false;
  std::uint64_t compact_revision = 0;
  std::string_view cancel_reason;
  std::vector<WatchedEvent> events;
};

struct StatusResponse {
  Header header;
  std::string_view version;
  std::uint64_t db_size = 0, leader = 0;
  bool is_learner = false;
};
struct Member {
  std::uint64_t id = 0;
  std::string_view name;
  std::vector<std::string_view> client_urls;
  bool is_learner = false;
};
struct MemberListResponse {
  Header header;
  std::vector<Member> members;
};
struct Alarm {
  std::uint64_t member_id = 0, alarm = 0;  ///< alarm: 1 NOSPACE, 2 CORRUPT
};
struct AlarmResponse {
  Header header;
  std::vector<Alarm> alarms;
};

[[nodiscard]] std::string encode(const RangeRequest& request);
[[nodiscard]] std::string encode(const TxnRequest& request);
/// WatchRequest with create_request.
[[nodiscard]] std::string encode(const WatchCreate& request);
/// WatchRequest with progress_request.
[[nodiscard]] std::string encode_progress_request();
/// @param lease  with which the key goes; 0: it stays
[[nodiscard]] std::string encode_put(std::string_view key, std::string_view value,
                                     std::uint64_t lease = 0);
/// @param ttl  [seconds]
[[nodiscard]] std::string encode_lease_grant(std::uint64_t ttl);
[[nodiscard]] std::string encode_lease_revoke(std::uint64_t lease);
[[nodiscard]] std::string encode_compaction(std::uint64_t revision);
[[nodiscard]] std::string encode_authenticate(std::string_view name, std::string_view password);
/// action 0: get; 2: deactivate `alarm` of the member
[[nodiscard]] std::string encode_alarm(std::uint64_t action, const Alarm& alarm);

/// False: malformed; `out` is then of no use.
[[nodiscard]] bool decode(std::string_view bytes, RangeResponse& out);
[[nodiscard]] bool decode(std::string_view bytes, TxnResponse& out);
[[nodiscard]] bool decode(std::string_view bytes, WatchResponse& out);
[[nodiscard]] bool decode(std::string_view bytes, StatusResponse& out);
[[nodiscard]] bool decode(std::string_view bytes, MemberListResponse& out);
[[nodiscard]] bool decode(std::string_view bytes, AlarmResponse& out);
/// Answers that only their header is read of (Put, Compact).
[[nodiscard]] bool decode(std::string_view bytes, Header& out);
[[nodiscard]] bool decode_lease_grant(std::string_view bytes, std::uint64_t& lease);
[[nodiscard]] bool decode_authenticate(std::string_view bytes, std::string& token);

/// End of the range of all keys that begin with `prefix`, which has a byte below 0xFF.
[[nodiscard]] std::string prefix_end(std::string_view prefix);

}  // namespace kintsugi::store::etcd
