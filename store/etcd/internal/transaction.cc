#include "store/etcd/internal/transaction.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "store/etcd/internal/stored_value.h"
#include "store/raise.h"

namespace kintsugi::store::etcd {
namespace {

void add_compare(TxnRequest& request, std::string key, std::uint64_t revision) {
  request.failure.push_back({TxnOp::Kind::kRange, key, {}, 0});
  request.compares.push_back({std::move(key), revision});
}

/// 0 stays 0: "there is no such key".
std::uint64_t to_etcd(Revision revision, Revision offset) {
  return revision > offset ? revision - offset : revision == 0 ? 0 : ~std::uint64_t{0} >> 1U;
}

}  // namespace

Expected<Plan> plan(const PlanInput& input) {
  Plan out;
  add_compare(out.request, input.seat.key, input.seat.revision);
  Deletions deletions;
  std::vector<TxnOp> writes;
  for (std::size_t i = 0; i < input.ops.size(); ++i) {
    const Op& op = input.ops[i];
    if (op.key == kRaiseKey) {
      return fail(Errc::kInvalid, "a store on etcd cannot jump to a revision");
    }
    std::string key = input.keys.row(op.key);
    const bool is_delete = op.type == EventType::kDelete && !op.only_expected;
    std::optional<Revision> expected = op.expected;
    if (!expected && is_delete) {
      expected = i < input.corrected.size() ? input.corrected[i] : std::nullopt;
      expected = expected ? expected : input.known(op.key);
    }
    if (expected) {
      add_compare(out.request, key, to_etcd(*expected, input.offset));
      out.compared.push_back(i);
    }
    if (op.only_expected) {
      continue;
    }
    if (!is_delete) {
      std::string value = seal_value(key, op.value, input.id);
      writes.push_back({TxnOp::Kind::kPut, std::move(key), std::move(value), 0});
    } else if (*expected != 0) {
      deletions.emplace_back(op.key, op.value);
      writes.push_back({TxnOp::Kind::kDelete, std::move(key), {}, 0});
    }
  }
  if (!deletions.empty() && !input.without_deletions) {
    const std::string key = input.keys.deletions();
    out.request.success.push_back(
        {TxnOp::Kind::kPut, key, seal_value(key, encode_deletions(deletions), input.id), 0});
  }
  out.writes = !writes.empty();
  std::move(writes.begin(), writes.end(), std::back_inserter(out.request.success));
  return out;
}

Verdict judge(const Plan& plan, const std::vector<Op>& ops, Revision offset,
              const TxnResponse& response) {
  Verdict verdict;
  verdict.revision = response.header.revision + offset;
  if (response.header.revision == 0) {
    return verdict;
  }
  if (response.succeeded) {
    verdict.kind = Verdict::Kind::kDone;
    return verdict;
  }
  const std::vector<Compare>& compares = plan.request.compares;
  if (response.ranges.size() != compares.size()) {
    return verdict;
  }
  const auto found = [&response](std::size_t i) {
    return response.ranges[i].kvs.empty() ? 0 : response.ranges[i].kvs.front().mod_revision;
  };
  // What somebody waits for is told first, though a delete without an expectation comes before.
  std::optional<std::size_t> again;
  for (std::size_t i = 1; i < compares.size(); ++i) {
    if (found(i) == compares[i].mod_revision) {
      continue;
    }
    const std::size_t op = plan.compared[i - 1];
    if (ops[op].expected) {
      verdict.kind = Verdict::Kind::kConflict;
      verdict.op = op;
      verdict.actual = found(i) == 0 ? 0 : found(i) + offset;
      return verdict;
    }
    again = again ? again : i;
  }
  if (again) {
    verdict.kind = Verdict::Kind::kDeleteAgain;
    verdict.op = plan.compared[*again - 1];
    verdict.actual = found(*again) == 0 ? 0 : found(*again) + offset;
  } else if (found(0) != compares[0].mod_revision) {
    verdict.kind = Verdict::Kind::kSeatGone;
  }
  return verdict;
}

}  // namespace kintsugi::store::etcd
