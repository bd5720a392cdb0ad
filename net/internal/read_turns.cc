#include "net/internal/read_turns.h"

#include <utility>

namespace kintsugi::net {

struct ReadTurns::Share {
  std::string payer;
  std::size_t readers = 0;
  TimePoint turn{};
  std::size_t used = 0;  // in it
  std::deque<Reader*> waiting;

  [[nodiscard]] bool has_room(TimePoint now) noexcept {
    if (turn != now) {
      turn = now;
      used = 0;
    }
    return used < kRequests;
  }
};

ReadTurns::ReadTurns() = default;
ReadTurns::~ReadTurns() = default;

void ReadTurns::join(Reader& reader, const std::string& payer) {
  std::unique_ptr<Share>& share = shares_[payer];
  if (share == nullptr) {
    share = std::make_unique<Share>();
    share->payer = payer;
  }
  ++share->readers;
  reader.turns_ = this;
  reader.share_ = share.get();
}

bool ReadTurns::may_read(Reader& reader, TimePoint now, bool first) {
  Share* const share = reader.share_;
  if (share == nullptr ||
      (!reader.waits_ && (first || share->waiting.empty()) && share->has_room(now))) {
    return true;
  }
  if (!std::exchange(reader.waits_, true)) {
    if (share->waiting.empty()) {
      busy_.push_back(share);
    }
    share->waiting.insert(first ? share->waiting.begin() : share->waiting.end(), &reader);
  }
  return false;
}

void ReadTurns::count(Reader& reader, std::size_t requests, std::size_t bytes) noexcept {
  if (reader.share_ != nullptr) {
    reader.share_->used += requests + bytes / kBytes;
  }
}

ReadTurns::Reader* ReadTurns::next(TimePoint now) {
  for (std::size_t looked = 0, all = busy_.size(); looked < all; ++looked) {
    Share* const share = busy_.front();
    busy_.pop_front();
    Reader* found = nullptr;
    if (share->has_room(now)) {
      found = share->waiting.front();
      share->waiting.pop_front();
      found->waits_ = false;
    }
    if (!share->waiting.empty()) {
      busy_.push_back(share);
    }
    if (found != nullptr) {
      return found;
    }
  }
  return nullptr;
}

void ReadTurns::leave(Reader& reader) noexcept {
  reader.turns_ = nullptr;
  if (reader.share_ == nullptr) {
    return;
  }
  Share& share = *std::exchange(reader.share_, nullptr);
  if (reader.waits_) {
    std::erase(share.waiting, &reader);
    if (share.waiting.empty()) {
      std::erase(busy_, &share);
    }
  }
  if (--share.readers == 0) {
    shares_.erase(share.payer);
  }
}

}  // namespace kintsugi::net
