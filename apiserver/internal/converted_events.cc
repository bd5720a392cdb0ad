#include "apiserver/internal/converted_events.h"

#include <utility>

namespace kintsugi::apiserver::internal {
namespace {

constexpr std::size_t kBatch = 200;         ///< objects in one review
constexpr std::size_t kGuessedBytes = 512;  ///< of an event that is still to be converted

}  // namespace

ConvertedEvents::ConvertedEvents(net::Loop& loop, Conversions& conversions, std::string cluster,
                                 WatchEncodingPtr encoding,
                                 std::function<void(const SharedBytes&, bool)> emit,
                                 std::function<void()> drained,
                                 std::function<void(const Error&)> failed)
    : loop_(loop),
      conversions_(conversions),
      cluster_(std::move(cluster)),
      encoding_(std::move(encoding)),
      emit_(std::move(emit)),
      drained_(std::move(drained)),
      failed_(std::move(failed)) {}

void ConvertedEvents::push(SharedBytes bytes, bool is_event) {
  if (slots_.empty()) {
    emit_(bytes, is_event);
    return;
  }
  auto slot = std::make_shared<Slot>();
  slot->ready = true;
  slot->is_event = is_event;
  slot->size = bytes.size();
  slot->bytes = std::move(bytes);
  waiting_bytes_ += slot->size;
  slots_.push_back(std::move(slot));
}

void ConvertedEvents::convert(WatchType type, krm::Json object, bool with_columns) {
  auto slot = std::make_shared<Slot>();
  slot->type = type;
  slot->with_columns = with_columns;
  slot->size = kGuessedBytes;
  waiting_bytes_ += slot->size;
  slots_.push_back(slot);
  if (batch_.empty()) {
    loop_.post([this, alive = alive_.weak()] {
      if (alive) {
        send_batch();
      }
    });
  }
  batch_slots_.push_back(std::move(slot));
  batch_.push_back(std::move(object));
  if (batch_.size() >= kBatch) {
    send_batch();
  }
}

void ConvertedEvents::send_batch() {
  if (batch_.empty()) {
    return;
  }
  conversions_.convert(cluster_, encoding_->kind(), std::exchange(batch_, {}),
                       [this, alive = alive_.weak(), slots = std::exchange(batch_slots_, {})](
                           const Expected<std::vector<krm::Json>>& converted) {
                         if (!alive) {
                           return;
                         }
                         if (!converted) {
                           slots_.clear();
                           alive_.end();
                           failed_(converted.error());
                           return;
                         }
                         take(slots, *converted);
                       });
}

void ConvertedEvents::take(const std::vector<std::shared_ptr<Slot>>& slots,
                           const std::vector<krm::Json>& objects) {
  for (std::size_t i = 0; i < slots.size(); ++i) {
    Slot& slot = *slots[i];
    slot.bytes = encode_object_event(*encoding_, slot.type, objects[i], slot.with_columns);
    slot.ready = true;
  }
  drain();
}

void ConvertedEvents::drain() {
  const Alive::Guard alive = alive_.weak();
  while (alive && !slots_.empty() && slots_.front()->ready) {
    const std::shared_ptr<Slot> slot = std::move(slots_.front());
    slots_.pop_front();
    waiting_bytes_ -= slot->size;
    emit_(slot->bytes, slot->is_event);
  }
  if (alive) {
    drained_();
  }
}

}  // namespace kintsugi::apiserver::internal
