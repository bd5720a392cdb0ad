#include "net/internal/listener_group.h"

#include <unistd.h>

#include <utility>

namespace kintsugi::net {
namespace {

/// A descriptor on its way: closed when nobody takes it.
class Parcel {
 public:
  explicit Parcel(int fd) noexcept : fd_(fd) {}
  ~Parcel() {
    if (fd_ >= 0) {
      ::close(fd_);
    }
  }
  Parcel(const Parcel&) = delete;
  Parcel& operator=(const Parcel&) = delete;
  [[nodiscard]] int take() noexcept { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

}  // namespace

std::shared_ptr<ListenerGroup::Member> ListenerGroup::join(Loop& loop) {
  return members_.emplace_back(std::make_shared<Member>(loop));
}

std::shared_ptr<ListenerGroup::Member> ListenerGroup::better_than(
    const Member& own) const noexcept {
  const std::shared_ptr<Member>* lightest = nullptr;
  std::size_t least = 0;
  for (const auto& member : members_) {
    const std::size_t count = member->connections.load(std::memory_order_relaxed);
    if (member.get() != &own && member->open.load(std::memory_order_relaxed) &&
        (lightest == nullptr || count < least)) {
      lightest = &member;
      least = count;
    }
  }
  const std::size_t here = own.connections.load(std::memory_order_relaxed) + 1;
  return lightest != nullptr && 2 * here > 4 + 3 * least ? *lightest : nullptr;
}

void ListenerGroup::hand_over(const std::shared_ptr<Member>& to, int fd) {
  to->connections.fetch_add(1, std::memory_order_relaxed);
  to->loop.post([to, parcel = std::make_shared<Parcel>(fd)] {
    to->connections.fetch_sub(1, std::memory_order_relaxed);  // adopt counts it again
    if (to->adopt) {
      to->adopt(parcel->take());
    }
  });
}

}  // namespace kintsugi::net
