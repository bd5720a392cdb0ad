#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "store/books.h"

/// An MVCC key-value store with one revision counter, history for watches and snapshot reads.
/// Source: AM-456 to AM-467, GR-102. Backends: store/lmdb (embedded), store/etcd.
namespace kintsugi::store {

/// Position in the store's history. Rises with each committed transaction, not always by 1; never
/// repeated, also across restarts. 0: before all.
using Revision = std::uint64_t;

/// One stored version of a key.
struct Entry {
  std::string key;
  SharedBytes value;
  Revision created = 0;   ///< revision of the write that created the key
  Revision modified = 0;  ///< revision of the write that made this version
};

enum class EventType : std::uint8_t { kPut, kDelete };

/// One change. Events of one transaction share a revision and come in the transaction's order.
struct Event {
  Revision revision = 0;
  EventType type = EventType::kPut;
  std::string key;
  SharedBytes value;     ///< new value; for kDelete what the transaction gave (may be empty)
  SharedBytes previous;  ///< value before; empty when the key was created
  Revision created = 0;
  Revision previous_modified = 0;  ///< 0 when the key was created
};
using EventBatch = std::shared_ptr<const std::vector<Event>>;

/// One operation of a transaction.
struct Op {
  EventType type = EventType::kPut;
  std::string key;    ///< at most 480 bytes
  std::string value;  ///< for kDelete: the last state that watchers get (may be empty)
  /// Must equal the key's current modified revision; 0: the key must not exist; nullopt: no check.
  std::optional<Revision> expected;
  Keeps keeps{};  ///< limits of the books that this one keeps to
  /// Only `expected` counts: the key stays as it is, and no event tells of it.
  bool only_expected = false;
  /// Of a copy of another store's row (0: none): what it says of a key that is not there, and what
  /// one that is there has to say, else that is a conflict. For stores that are written by one
  /// copier.
  Revision created = 0;
};
/// The transaction is for a store where the key is still as it was read.
[[nodiscard]] inline Op unchanged(std::string key, Revision modified) {
  Op op;
  op.key = std::move(key);
  op.expected = modified;
  op.only_expected = true;
  return op;
}

struct CommitResult {
  Revision revision = 0;           ///< of this transaction, when `conflict` is false
  bool conflict = false;           ///< an expectation failed and nothing was written
  std::size_t failed_op = 0;       ///< index of the first failed expectation
  Revision actual = 0;             ///< that key's modified revision now (0: absent)
  std::optional<Excess> excess{};  ///< a limit would have been passed, and nothing was written
};
using CommitCallback = std::function<void(Expected<CommitResult>)>;

/// Calls `done` with the revision up to which the store is known to be complete.
using SynchronizeCallback = std::function<void(Expected<Revision>)>;

/// What one transaction may have; more is kInvalid (GR-102).
struct Limits {
  std::size_t ops = 100;  ///< with guards
  /// Values together [bytes]: one stored object and 8 KiB.
  std::size_t value_bytes = 1'572'864 + 8'192;
};

/// What the holder of a duty writes under (duty.h).
struct Fence {
  std::string duty;
  Revision revision = 0;  ///< of the takeover; 0: nobody else can have it
};
/// Gets the fence of a duty that is held from now on, or nullopt when it is not any more.
using DutyListener = std::function<void(const std::optional<Fence>& held)>;

struct RangeQuery {
  std::string prefix;  ///< keys that begin with it
  std::string start;   ///< first key that may be returned; "" = prefix itself
  Revision at = 0;     ///< state as of this revision; 0 = now
};
/// Return false to stop. Views are valid during the call only.
struct EntryView {
  std::string_view key;
  std::string_view value;
  Revision created;
  Revision modified;
};
using Visitor = std::function<bool(const EntryView&)>;

struct StoreStats {
  Revision current = 0, compacted = 0;
  std::uint64_t keys = 0, bytes = 0, commits = 0, syncs = 0, conflicts = 0;
  std::size_t queued = 0;
};

/// Threads: all functions may be called from any thread. Reads run in the caller and never block
/// writers; writes are queued to one writer thread that commits groups and syncs before it
/// acknowledges.
class Store {
 public:
  virtual ~Store() = default;

  /// Newest committed (durable) revision. Every value that a read returned before is at or below
  /// it.
  [[nodiscard]] virtual Revision current() const noexcept = 0;
  /// Reads at revisions below this one fail with kCompacted.
  [[nodiscard]] virtual Revision compacted() const noexcept = 0;

  /// @error kNotFound, kCorrupt, kIo.
  [[nodiscard]] virtual Expected<Entry> get(std::string_view key) const = 0;
  /// Visits entries in key order (bytewise) as of one revision.
  /// @returns that revision (query.at, or the current one).
  /// @error kCompacted, kFutureRevision, kCorrupt, kIo.
  [[nodiscard]] virtual Expected<Revision> range(const RangeQuery& query,
                                                 const Visitor& visit) const = 0;
  /// Number of keys with the prefix as of `at` (0: now) that are at or after `start`.
  [[nodiscard]] virtual Expected<std::uint64_t> count(const RangeQuery& query) const = 0;

  /// Applies all operations or none. A key may appear once. A transaction that changes nothing (it
  /// deletes absent keys only) takes no revision and answers the current one.
  /// `done` runs on the writer thread, after the commit is durable;
  /// it must not block.
  /// @error (in done) kInvalid key empty, longer than 480 bytes or used twice, or more than
  /// limits(), kFull disk or map full, kIo, kOverloaded queue of 65,536 transactions full, kClosed
  /// store closing.
  virtual void commit(std::vector<Op> ops, CommitCallback done) = 0;
  /// The same where `guards` (of unchanged()) hold. They are expectations like those of `ops`:
  /// `failed_op` counts them after these.
  void commit(std::vector<Op> ops, std::vector<Op> guards, CommitCallback done);
  /// The same, waiting. For start-up and tests; never on a loop.
  [[nodiscard]] Expected<CommitResult> commit_wait(std::vector<Op> ops);

  /// Calls `done` when reads show the newest revision that anybody has committed before this call;
  /// at once, in the caller, where nobody else can have (the default).
  /// @error (in done) kDeadline, kClosed.
  virtual void synchronize(SynchronizeCallback done) { done(current()); }
  [[nodiscard]] virtual Limits limits() const noexcept { return {}; }
  /// Other processes write it, too: what they have committed may show here a moment later.
  [[nodiscard]] virtual bool is_shared() const noexcept { return false; }

  /// Strives for a duty until the token goes, which gives it up and waits for that for a moment and
  /// for a running call. `listener` runs on a thread of the store and must only hand on; or at
  /// once, in the caller, where nobody else can have the duty (the default). Whoever holds it shows
  /// reads of all that holders before have written.
  /// @param duty  letters, digits and '-', at most 64
  [[nodiscard]] virtual std::shared_ptr<void> compete(std::string duty, DutyListener listener) {
    listener(Fence{std::move(duty), 0});
    return nullptr;
  }

  /// Events with revision > after, at most `limit` (more only to finish a revision), of keys with
  /// the prefix, in order, from history.
  /// @returns the revision up to which the answer is complete (>= the last event's).
  /// @error kCompacted when events after `after` are gone, kFutureRevision.
  struct Changes {
    std::vector<Event> events;
    Revision complete_to = 0;
  };
  [[nodiscard]] virtual Expected<Changes> changes(std::string_view prefix, Revision after,
                                                  std::size_t limit) const = 0;

  /// `listener` gets every committed batch in order, on the writer thread, after durability and
  /// before the commit callbacks of that batch; it must only hand the batch on (Loop::post).
  /// Batches may hold several revisions.
  /// @returns the revision after which batches are delivered, and a token whose destruction
  /// unsubscribes (and waits for a running call).
  struct Subscription {
    Revision from = 0;
    std::shared_ptr<void> token;
  };
  [[nodiscard]] virtual Subscription subscribe(std::function<void(const EventBatch&)> listener) = 0;

  /// Drops history up to `revision` (at most current()); runs in the background in small
  /// transactions.
  virtual void compact(Revision revision) = 0;
  [[nodiscard]] virtual StoreStats stats() const = 0;
  /// Null: it keeps none.
  [[nodiscard]] virtual Books* books() noexcept { return nullptr; }
  /// Ok, or why writes fail now (disk full, I/O error); for /readyz.
  [[nodiscard]] virtual Expected<void> health() const = 0;
};

}  // namespace kintsugi::store
