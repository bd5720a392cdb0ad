#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "apiserver/server.h"
#include "base/alive.h"
#include "base/time.h"
#include "krm/json.h"
#include "net/loop.h"
#include "store/store.h"

namespace kintsugi::controlplane {

/// What a shard does when a logical cluster leaves it or comes to it, one step a call. Each can be
/// repeated, also by a driver that has forgotten what it did, and a shard that is killed at any
/// time goes on from its store. Who asks for which is MoveDrive's business.
/// Source: KK-212, GR-601 to GR-604.
///
/// Steps in their order, at the origin (O) or the destination (D), and what they answer:
/// - `begin` (D) notes the move, drops pages of an earlier try: `arrived`, `most` rows; or `other`,
///   a move whose copy is ready, which the origin is asked about first
/// - `page` (O) reads rows behind `continue` as of `at`, the first as of now: `entries`
///   [{key, value}], `continue`, `at`, `bytes`
/// - `past` (O) looks for deletions before `until`: `floor`, `deleted` {resource: revision},
///   `complete`
/// - `follow` (O) reads what was written after `after`, behind a fence all of it: `entries`
///   (without value: deleted), `deleted`, `complete`, `more`; with the last of them behind a fence
///   `rows`, `digest`
/// - `take` (D) keeps a page, where nobody sees it
/// - `fence` (O): no write is committed any more, for 5 s at most: `revision`, `at`
/// - `ready` (D) says that the copy is whole, and will be when it starts again
/// - `switch` (O) **gives the cluster away**, if the fence is the one of `at`: `moved`
/// - `arrive` (D): pages become rows, behind `revision`: `rows`, `revision`
/// - `leave` (O) forgets the logical cluster, which is its owner's no more
/// - `settle` (D): nobody asks for an earlier step any more
/// - `release` (O): writes go on, unless the cluster was given away: `moved`, `ask`
/// - `abandon` (D) drops the pages, unless it has arrived: `arrived`
///
/// `page` and `follow` answer `gone` where the store has dropped the history that they need.
/// Keys and values are base64; the pages become rows in one transaction, or in a store that others
/// write, too, in parts behind a fence of its own. The row that says who owns
/// the cluster is the origin's fence: `switch` and whatever ends the fence each expect it as it
/// was, so one of them comes to pass. The origin is the owner up to the commit of `switch` and the
/// destination from then on; it takes writes when it has them all. Bounds:
/// move_limits.h. Threads: one loop.
class MoveSteps {
 public:
  using Done = std::function<void(Expected<krm::Json>)>;
  struct Params {
    std::string shard;  ///< own name
    store::Store& store;
    std::function<const apiserver::ObjectReader&()> reader;
  };
  MoveSteps(net::Loop& loop, Params params);
  ~MoveSteps();
  MoveSteps(const MoveSteps&) = delete;
  MoveSteps& operator=(const MoveSteps&) = delete;

  /// @param asked {step, migration, …} of the table. Calls back once, in a later turn or at once,
  /// and not at all when this is gone.
  /// @error (in done) kInvalid  the cluster cannot move, for good; anything else: to be tried again
  void run(const std::string& cluster, const krm::Json& asked, Done done);

  /// Removes the rows about moves that have ended a day before `now` [unix s]: of what was
  /// abandoned; of what has arrived, once settled and older than the store's history, whose readers
  /// are told so by the store; of what has left, when nothing of it is here any more. Errors are
  /// forgotten, for it is done again. Cost: a look at each row, and for those that have left one at
  /// each kind of resource in the store.
  void drop_ended(std::int64_t now);
  /// Ends fences that are older than kLongestStop as this has seen them, unless the cluster was
  /// given away: whoever drives the move may be dead (GR-604). To be called often.
  void release_overdue(TimePoint now);

 private:
  struct Row;
  struct Incoming;
  void begin(const std::string& cluster, const krm::Json& asked, Done done);
  void page(const std::string& cluster, const krm::Json& asked, Done done);
  void past(const std::string& cluster, const krm::Json& asked, Done done);
  void follow(const std::string& cluster, const krm::Json& asked, Done done);
  void take(const std::string& cluster, const krm::Json& asked, Done done);
  void fence(const std::string& cluster, const krm::Json& asked, Done done);
  void ready(const std::string& cluster, const krm::Json& asked, Done done);
  void give(const std::string& cluster, const krm::Json& asked, Done done);
  void arrive(const std::string& cluster, const krm::Json& asked, Done done);
  void leave(const std::string& cluster, const krm::Json& asked, Done done);
  void settle(const std::string& cluster, const krm::Json& asked, Done done);
  void release(const std::string& cluster, const krm::Json& asked, Done done);
  void abandon(const std::string& cluster, const krm::Json& asked, Done done);

  using StepFunction = void (MoveSteps::*)(const std::string&, const krm::Json&, Done);
  [[nodiscard]] Row row(std::string_view resource, const std::string& cluster) const;
  [[nodiscard]] Expected<std::vector<store::Op>> arriving_rows(const std::string& cluster,
                                                               const Incoming& incoming) const;
  [[nodiscard]] Expected<void> drop_old_rows(const std::string& cluster,
                                             const std::set<std::string, std::less<>>& but,
                                             std::vector<store::Op>& ops) const;
  void arrive_at_once(const std::string& cluster, const Row& arrival, std::vector<store::Op> ops,
                      Done done);
  void arrive_in_parts(const std::string& cluster, const Row& arrival, std::vector<store::Op> ops,
                       Done done);
  void put_parts(const std::string& cluster, const Row& arrival, std::vector<store::Op> ops,
                 Done done);
  /// In as many transactions as they need, each where `guard` holds.
  void commit_parts(std::vector<store::Op> ops, const store::Op& guard, Done done);
  /// Where a transaction is too small for all pages that go: does `ops` first, in parts, and then
  /// the step once more. False: `ops` may stand in the step's own transaction.
  [[nodiscard]] bool drops_first(StepFunction step, const std::string& cluster,
                                 const krm::Json& asked, const Row& arrival,
                                 std::vector<store::Op>& ops, Done& done);
  void add_schemas(const std::string& cluster, krm::Json& entries) const;
  void drop_pages(const std::string& cluster, std::vector<store::Op>& ops) const;
  [[nodiscard]] Expected<Incoming*> load(const std::string& cluster, std::string_view migration);
  void commit(std::vector<store::Op> ops, krm::Json answer, Done done);

  net::Loop& loop_;
  Params params_;
  /// By cluster: what `take` has brought, so that nobody waits for it to be read again; for a
  /// minute.
  std::map<std::string, std::unique_ptr<Incoming>, std::less<>> incoming_;
  net::Timer forget_incoming_;
  std::set<std::string, std::less<>> arriving_;  ///< at this moment
  /// Of migrations: since when their fences were seen.
  std::map<std::string, TimePoint, std::less<>> fenced_since_;
  Alive alive_;
};

/// Whether a logical cluster may move at all (KK-211).
[[nodiscard]] bool can_move(std::string_view cluster) noexcept;

}  // namespace kintsugi::controlplane
