#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "apiserver/server.h"
#include "base/alive.h"
#include "krm/json.h"
#include "net/loop.h"
#include "store/store.h"

namespace kintsugi::controlplane {

/// What a shard does when a logical cluster leaves it or comes to it, one step a call. Each can be
/// repeated, also by a driver that has forgotten what it did, and a shard that is killed at any
/// time goes on from its store. Source: KK-212, GR-601, GR-602.
///
/// | step | at | does | answers |
/// |---|---|---|---|
/// | begin | destination | notes the move, drops pages of an earlier try | `arrived` |
/// | fence | origin | no write is committed any more | `revision` |
/// | page | origin | reads rows behind `continue` | `entries` [{key, value}], `continue` |
/// | take | destination | keeps a page, where nobody sees it | – |
/// | arrive | destination | pages become rows, behind `revision` | `rows`, `revision` |
/// | leave | origin | forgets the logical cluster, which is its owner's no more | – |
/// | settle | destination | nobody asks for an earlier step any more | – |
/// | abandon | destination | will not arrive any more, unless it has | `arrived` |
/// | release | origin | writes go on | – |
///
/// Keys and values are base64; the pages become rows in one transaction.
/// The owner is the origin up to the commit of `arrive` and the destination from then on; in
/// between `fence` and then neither takes writes. `release` needs an `abandon` that was not
/// `arrived`, `leave` an `arrive`, `settle` a `leave`. Bounds: 100,000 rows and 256 MiB a logical
/// cluster. Threads: one loop.
class MoveSteps {
 public:
  using Done = std::function<void(Expected<krm::Json>)>;
  struct Params {
    std::string shard;  ///< own name
    store::Store& store;
    std::function<const apiserver::ObjectReader&()> reader;
  };
  MoveSteps(net::Loop& loop, Params params) : loop_(loop), params_(std::move(params)) {}
  ~MoveSteps() { alive_.end(); }
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

 private:
  struct Row;
  void begin(const std::string& cluster, const krm::Json& asked, Done done);
  void fence(const std::string& cluster, const krm::Json& asked, Done done);
  void page(const std::string& cluster, const krm::Json& asked, Done done);
  void take(const std::string& cluster, const krm::Json& asked, Done done);
  void arrive(const std::string& cluster, const krm::Json& asked, Done done);
  void leave(const std::string& cluster, const krm::Json& asked, Done done);
  void settle(const std::string& cluster, const krm::Json& asked, Done done);
  void abandon(const std::string& cluster, const krm::Json& asked, Done done);
  void release(const std::string& cluster, const krm::Json& asked, Done done);
  [[nodiscard]] Row row(std::string_view resource, const std::string& cluster) const;
  void drop_pages(const std::string& cluster, std::vector<store::Op>& ops) const;
  void commit(std::vector<store::Op> ops, krm::Json answer, Done done);

  net::Loop& loop_;
  Params params_;
  Alive alive_;
};

/// Whether a logical cluster may move at all (KK-211).
[[nodiscard]] bool can_move(std::string_view cluster) noexcept;

}  // namespace kintsugi::controlplane
