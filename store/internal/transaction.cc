#include "store/internal/transaction.h"

#include <algorithm>
#include <string>
#include <string_view>

namespace kintsugi::store {
namespace {

bool has_duplicate_key(const std::vector<Op>& ops) {
  std::vector<std::string_view> keys;
  keys.reserve(ops.size());
  for (const Op& op : ops) {
    keys.emplace_back(op.key);
  }
  std::sort(keys.begin(), keys.end());
  return std::adjacent_find(keys.begin(), keys.end()) != keys.end();
}

}  // namespace

Expected<void> check_transaction(const std::vector<Op>& ops, const Limits& limits) {
  if (ops.size() > limits.ops) {
    return fail(Errc::kInvalid, "a transaction has " + std::to_string(ops.size()) +
                                    " operations, it may have " + std::to_string(limits.ops));
  }
  std::size_t bytes = 0;
  for (const Op& op : ops) {
    bytes += op.value.size();
  }
  if (bytes > limits.value_bytes) {
    return fail(Errc::kInvalid, "the values of a transaction have " + std::to_string(bytes) +
                                    " bytes, they may have " + std::to_string(limits.value_bytes));
  }
  for (std::size_t i = 0; i < ops.size(); ++i) {
    if (ops[i].key.empty() || ops[i].key.size() > kMaxKeyBytes) {
      return fail(Errc::kInvalid, "operation " + std::to_string(i) + ": the key has " +
                                      std::to_string(ops[i].key.size()) +
                                      " bytes, it must have 1 to " + std::to_string(kMaxKeyBytes));
    }
  }
  if (ops.size() > 1 && has_duplicate_key(ops)) {
    return fail(Errc::kInvalid, "a key appears twice in one transaction");
  }
  return {};
}

}  // namespace kintsugi::store
