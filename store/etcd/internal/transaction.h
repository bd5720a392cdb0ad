#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "store/etcd/internal/keys.h"
#include "store/etcd/wire/messages.h"
#include "store/store.h"

/// A transaction of the store as one of etcd, and what etcd's answer says of it. Pure.
namespace kintsugi::store::etcd {

/// What the process writes under: a compare of its seat is part of every transaction (GR-109).
struct Seat {
  std::string key;
  std::uint64_t revision = 0;  ///< etcd's; 0: not taken yet
};

struct PlanInput {
  const std::vector<Op>& ops;
  const Keys& keys;
  const Seat& seat;
  Revision offset = 0;  ///< of the store's revisions over etcd's
  std::string_view id;  ///< of the transaction
  /// Modified revision of a key as it is known here; for deletes without an expectation.
  std::function<Revision(std::string_view key)> known;
  /// By operation: what an earlier answer has said instead; may be empty.
  const std::vector<std::optional<Revision>>& corrected;
  bool without_deletions = false;  ///< the key `d` is left alone: etcd has no space (GR-110)
};

struct Plan {
  TxnRequest request;
  std::vector<std::size_t> compared;  ///< operation of each compare after the seat's
  bool writes = false;                ///< else it takes no revision
};

/// @error kInvalid an operation that this store cannot do.
[[nodiscard]] Expected<Plan> plan(const PlanInput& input);

struct Verdict {
  enum class Kind : std::uint8_t {
    kDone,
    kConflict,     ///< `op`, `actual`
    kSeatGone,     ///< nothing but the seat has failed
    kDeleteAgain,  ///< `op`, a delete without an expectation, found `actual`
    kMalformed,
  } kind = Kind::kMalformed;
  Revision revision = 0;  ///< of etcd at the answer, as one of the store
  std::size_t op = 0;
  Revision actual = 0;
};
[[nodiscard]] Verdict judge(const Plan& plan, const std::vector<Op>& ops, Revision offset,
                            const TxnResponse& response);

}  // namespace kintsugi::store::etcd
