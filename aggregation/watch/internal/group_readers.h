#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "aggregation/asking/asking.h"
#include "base/error.h"
#include "base/time.h"
#include "http/handler.h"
#include "net/loop.h"

namespace kintsugi::aggregation {

/// One client of a group. None of these may add readers.
class GroupReader {
 public:
  /// The log has grown, or positions have moved; a batch is complete.
  virtual void on_group_moved() = 0;
  /// The slot's stream was accepted, or its shard lacks the resource.
  virtual void on_slot_accepted(std::size_t slot) = 0;
  /// The slot's stream, which no shard had accepted yet, could not be had; it is tried again.
  virtual void on_slot_lost(std::size_t slot, std::string_view cause) = 0;
  /// The shard answered with a Status that trying again does not change.
  virtual void on_slot_refused(std::size_t slot, const http::ResponseHead& head,
                               const std::string& body) = 0;
  /// Events of the slot were lost: the client has to list again after `delay`; nothing more of the
  /// slot comes.
  virtual void on_slot_expired(std::size_t slot, std::string_view reason, Duration delay) = 0;
  /// Events of the slot after `position` are replaced by the differences from there: a reader who
  /// is further on may have objects that they do not name.
  virtual void on_slot_compared(std::size_t slot, std::uint64_t position) = 0;
  /// A logical cluster has left the slot's shard: what the log has of it from there is older than
  /// what a stream of the reader's own tells of its new shard.
  virtual void on_cluster_leaves(std::size_t slot) = 0;
  /// The log tells objects of the slot anew that its streams have left out: a reader who has the
  /// slot from a stream of its own lacks them, and one who is behind at the shard that had them
  /// would get its older events later.
  virtual void on_slot_supplied(std::size_t slot) = 0;
  virtual void on_group_failed(const Error& error, std::string_view reason) = 0;
  /// One of these has thrown: it ends, with 500 where its answer has not begun.
  virtual void on_reader_fault() = 0;
  /// The members are other ones than before.
  virtual void on_members() = 0;
  /// @returns when it wants the next call; max: when something moves
  virtual TimePoint on_due(TimePoint now) = 0;
  /// Others come first, but soon something is told: what it needs for that can be fetched.
  virtual void approach() const noexcept = 0;
  /// Some shard has been silent for as long as a client may wait for it, perhaps.
  /// @returns when it wants the next call, if nothing is heard by then; max: none
  virtual TimePoint on_stall(TimePoint now) = 0;
  /// It may read this member: without it the group does not begin with new ones.
  [[nodiscard]] virtual bool covers(const Member& member) const noexcept = 0;
  [[nodiscard]] virtual std::string_view caller() const noexcept = 0;
  /// Bytes that it has not given to its connection yet, or this not to the client. None of who is
  /// about to end.
  struct Queued {
    std::size_t shared = 0;  ///< of the group's log
    std::size_t own = 0;
  };
  [[nodiscard]] virtual Queued queued() const noexcept = 0;
  /// Too much waits for all clients. False: it cannot end in order now.
  virtual bool end_for_memory() noexcept = 0;

 protected:
  ~GroupReader() = default;
};

/// The clients of a group: all are told something, also while some of them leave, and those who
/// want to be called later are called by one timer. Threads: its loop.
class GroupReaders {
 public:
  /// @param max_stall  a shard may be silent so long before its readers are asked
  GroupReaders(net::Loop& loop, Duration max_stall);
  GroupReaders(const GroupReaders&) = delete;
  GroupReaders& operator=(const GroupReaders&) = delete;

  void add(GroupReader& reader);
  /// @returns false: it is not one of these
  bool remove(GroupReader& reader) noexcept;
  /// Those who are there when it begins, but for who leaves meanwhile; one who throws is told so.
  void each(const std::function<void(GroupReader&)>& call);
  [[nodiscard]] std::size_t count() const noexcept { return count_; }
  /// Some may be null.
  [[nodiscard]] const std::vector<GroupReader*>& all() const noexcept { return readers_; }

  /// One more reader wants on_due() not before `due`, and soon after it.
  void expect(TimePoint due);
  /// One reader does not any more.
  void expect_less() noexcept;
  /// A shard has gone silent: readers are asked, when `max_stall` is over, whether they go on.
  void expect_stall();

  /// All may read this member.
  [[nodiscard]] bool cover(const Member& member) const noexcept;
  /// Bytes that wait for them; those of the log once.
  [[nodiscard]] std::size_t queue_bytes() const noexcept;
  /// Different ones.
  [[nodiscard]] std::size_t callers() const;

 private:
  void be_due();
  void be_stalled();

  net::Loop& loop_;
  const Duration max_stall_;
  std::vector<GroupReader*> readers_;  // null: left during a call to all
  std::size_t count_ = 0;
  bool calling_ = false;
  std::size_t expecting_ = 0;  // readers
  TimePoint due_at_ = TimePoint::max();
  bool expects_stall_ = false;
  net::Timer due_, stall_;
};

}  // namespace kintsugi::aggregation
