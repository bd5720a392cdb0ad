#pragma once

#include <charconv>
#include <string>
#include <string_view>

#include "store/store.h"

namespace kintsugi::store {

/// No row has this key. Among the operations of a transaction that writes something it says that
/// the revision of the transaction is larger than the number in its value, so that what it tells is
/// newer than all that another store has told (GR-603). Revisions rise, not always by one. Alone it
/// makes that number the newest revision, of which no event tells; not on etcd, whose revisions
/// are its own. `expected` of it is the newest revision: so nothing is applied behind a transaction
/// that was lost.
inline constexpr std::string_view kRaiseKey{"\x01raise", 6};

[[nodiscard]] inline Op raise_to(Revision revision) {
  Op op;
  op.key = std::string(kRaiseKey);
  op.value = std::to_string(revision);
  op.only_expected = true;
  return op;
}

/// The same in a store whose newest revision is `from`; else it is a conflict.
[[nodiscard]] inline Op raise_from(Revision from, Revision revision) {
  Op op = raise_to(revision);
  op.expected = from;
  return op;
}

template <typename Ops>
[[nodiscard]] bool only_raises(const Ops& ops) {
  return ops.size() == 1 && ops.front().key == kRaiseKey;
}

/// The revision that the next transaction has.
template <typename Ops>
[[nodiscard]] Revision next_revision(Revision current, const Ops& ops) {
  for (const Op& op : ops) {
    if (op.key == kRaiseKey) {
      Revision wanted = 0;
      std::from_chars(op.value.data(), op.value.data() + op.value.size(), wanted);
      current = wanted > current ? wanted : current;
    }
  }
  return current + 1;
}

}  // namespace kintsugi::store
