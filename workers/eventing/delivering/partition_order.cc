#include "workers/eventing/delivering/partition_order.h"

#include <algorithm>
#include <utility>

namespace kintsugi::workers {

bool PartitionOrder::take(std::int64_t offset) {
  if (offset <= last_) {
    return false;
  }
  last_ = offset;
  records_.push_back({offset, false});
  return true;
}

std::optional<std::int64_t> PartitionOrder::begin() {
  if (begun_ == records_.size() || under_way_ >= most_) {
    return std::nullopt;
  }
  ++under_way_;
  return records_[begun_++].offset;
}

void PartitionOrder::finish(std::int64_t offset) {
  const auto end = records_.begin() + static_cast<std::ptrdiff_t>(begun_);
  const auto at = std::find_if(records_.begin(), end,
                               [&](const Record& record) { return record.offset == offset; });
  if (at == end || std::exchange(at->finished, true)) {
    return;
  }
  --under_way_;
  while (begun_ > 0 && records_.front().finished) {
    done_ = records_.front().offset + 1;
    records_.pop_front();
    --begun_;
  }
}

std::optional<std::int64_t> PartitionOrder::take_commit() {
  if (done_ <= asked_) {
    return std::nullopt;
  }
  asked_ = done_;
  return done_;
}

}  // namespace kintsugi::workers
