#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "store/etcd/wire/messages.h"

/// What one watch stream says, as whole revisions in order. Pure; memory: one revision of at most
/// `limit` bytes, and what is given out.
namespace kintsugi::store::etcd {

struct JoinedEvent {
  bool is_delete = false;
  std::string key, value;
  std::uint64_t create_revision = 0;
};
struct RevisionGroup {
  std::uint64_t revision = 0;  ///< etcd's
  std::vector<JoinedEvent> events;
};

struct Joined {
  enum class Kind : std::uint8_t {
    kNothing,   ///< or a part of something
    kGroups,    ///< `groups`, each complete
    kProgress,  ///< nothing at or below `revision` is to come
    kCreated,
    kCompacted,  ///< history up to `revision` is gone; the stream has ended
    kCanceled,   ///< `reason`; the stream has ended
    kBroken,     ///< `reason`; nobody can believe this stream
  } kind = Kind::kNothing;
  std::vector<RevisionGroup> groups;
  std::uint64_t revision = 0;
  std::string reason;
};

class WatchJoiner {
 public:
  /// @param position  etcd's revision up to which everything is known
  WatchJoiner(std::uint64_t position, std::size_t limit) noexcept
      : position_(position), limit_(limit) {}

  [[nodiscard]] Joined on_response(const WatchResponse& response);
  /// Up to here all has been given out.
  [[nodiscard]] std::uint64_t position() const noexcept { return position_; }

 private:
  [[nodiscard]] Joined broken(std::string reason);
  void close(Joined& out);

  std::uint64_t position_;
  std::size_t limit_;
  RevisionGroup open_;
  std::size_t open_bytes_ = 0;
  std::uint64_t last_ = 0;  // of the events of this stream
  bool broken_ = false;
};

}  // namespace kintsugi::store::etcd
