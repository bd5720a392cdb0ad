#include "aggregation/watch/internal/group_readers.h"

#include <algorithm>
#include <set>
#include <utility>

#include "aggregation/asking/merge_guard.h"
#include "base/prefetch.h"

namespace kintsugi::aggregation {
namespace {

constexpr std::size_t kAhead = 4;  // readers

}  // namespace

GroupReaders::GroupReaders(net::Loop& loop, Duration max_stall)
    : loop_(loop), max_stall_(max_stall), due_(loop), stall_(loop) {}

void GroupReaders::add(GroupReader& reader) {
  readers_.push_back(&reader);
  ++count_;
}

bool GroupReaders::remove(GroupReader& reader) noexcept {
  const auto found = std::find(readers_.begin(), readers_.end(), &reader);
  if (found == readers_.end()) {
    return false;
  }
  --count_;
  if (calling_) {
    *found = nullptr;
  } else {
    readers_.erase(found);
  }
  return true;
}

void GroupReaders::each(const std::function<void(GroupReader&)>& call) {
  const bool outermost = !std::exchange(calling_, true);
  for (std::size_t i = 0; i < readers_.size(); ++i) {
    // Among a thousand readers each is far from every cache.
    if (i + 2 * kAhead < readers_.size()) {
      fetch_ahead(readers_[i + 2 * kAhead], 3);
    }
    if (i + kAhead < readers_.size() && readers_[i + kAhead] != nullptr) {
      readers_[i + kAhead]->approach();
    }
    if (readers_[i] != nullptr) {
      GroupReader& reader = *readers_[i];
      guard_read(
          "client of a merged watch", [&] { call(reader); }, [&] { reader.on_reader_fault(); });
    }
  }
  if (outermost) {
    calling_ = false;
    std::erase(readers_, nullptr);
  }
}

void GroupReaders::expect(TimePoint due) {
  ++expecting_;
  if (due < due_at_) {
    due_at_ = due;
    due_.start(due - loop_.now(), [this] { be_due(); });
  }
}

void GroupReaders::expect_less() noexcept {
  if (--expecting_ == 0) {
    due_at_ = TimePoint::max();
    due_.cancel();
  }
}

void GroupReaders::be_due() {
  due_at_ = TimePoint::max();
  const TimePoint now = loop_.now();
  TimePoint next = TimePoint::max();
  each([&next, now](GroupReader& reader) { next = std::min(next, reader.on_due(now)); });
  if (next < due_at_) {
    due_at_ = next;
    due_.start(next - now, [this] { be_due(); });
  }
}

void GroupReaders::expect_stall() {
  if (!std::exchange(expects_stall_, true)) {
    stall_.start(max_stall_, [this] { be_stalled(); });
  }
}

void GroupReaders::be_stalled() {
  const TimePoint now = loop_.now();
  TimePoint next = TimePoint::max();
  each([&next, now](GroupReader& reader) { next = std::min(next, reader.on_stall(now)); });
  expects_stall_ = next != TimePoint::max();
  if (expects_stall_) {
    stall_.start(std::max<Duration>(next - now, milliseconds(1)), [this] { be_stalled(); });
  }
}

bool GroupReaders::cover(const Member& member) const noexcept {
  return std::all_of(readers_.begin(), readers_.end(), [&member](const GroupReader* reader) {
    return reader == nullptr || reader->covers(member);
  });
}

std::size_t GroupReaders::queue_bytes() const noexcept {
  std::size_t farthest = 0, own = 0;
  for (const GroupReader* reader : readers_) {
    if (reader != nullptr) {
      const GroupReader::Queued queued = reader->queued();
      farthest = std::max(farthest, queued.shared);
      own += queued.own;
    }
  }
  return farthest + own;
}

std::size_t GroupReaders::callers() const {
  std::set<std::string_view> callers;
  for (const GroupReader* reader : readers_) {
    if (reader != nullptr) {
      callers.insert(reader->caller());
    }
  }
  return callers.size();
}

}  // namespace kintsugi::aggregation
