#include "workers/messaging/control/internal/object_numbers.h"

namespace kintsugi::workers {

namespace {

std::string place_text(const ObjectRefKey& object) {
  ObjectRefKey nameless = object;
  nameless.key.name.clear();
  return text_of(nameless);
}

}  // namespace

std::uint32_t ObjectNumbers::place_of(const ObjectRefKey& object) {
  const auto [at, is_new] = places_by_text_.try_emplace(place_text(object), 0);
  if (is_new) {
    if (free_places_.empty()) {
      at->second = static_cast<std::uint32_t>(places_.size());
      places_.emplace_back();
    } else {
      at->second = free_places_.back();
      free_places_.pop_back();
    }
    places_[at->second] = {object.kind, object.key.cluster, object.key.ns, 0};
  }
  return at->second;
}

std::size_t ObjectNumbers::home(std::uint32_t place, std::string_view name) const noexcept {
  return siphash(key_, name) + place * std::size_t{0x9E3779B97F4A7C15U};
}

/// Where it is in the index, or where it would be. There is an empty place.
std::size_t ObjectNumbers::slot_of(std::uint32_t place, std::string_view name) const noexcept {
  const std::size_t mask = index_.size() - 1;
  std::size_t at = home(place, name) & mask;
  for (; index_[at] != kNone; at = (at + 1) & mask) {
    const Record& record = records_[index_[at]];
    if (record.place == place && name == name_of(record)) {
      break;
    }
  }
  return at;
}

void ObjectNumbers::grow() {
  std::vector<ObjectId> old(index_.empty() ? 64 : 2 * index_.size(), kNone);
  old.swap(index_);
  for (const ObjectId number : old) {
    if (number != kNone) {
      index_[slot_of(records_[number].place, name_of(records_[number]))] = number;
    }
  }
}

ObjectId ObjectNumbers::ensure(const ObjectRefKey& object) {
  if (size_ + 1 > index_.size() / 4 * 3) {
    grow();
  }
  const std::uint32_t place = place_of(object);
  const std::string& name = object.key.name;
  const std::size_t slot = slot_of(place, name);
  if (index_[slot] != kNone) {
    return index_[slot];
  }
  ObjectId number = end();
  if (free_.empty()) {
    records_.emplace_back();
  } else {
    number = free_.back();
    free_.pop_back();
  }
  Record& record = records_[number];
  record.place = place;
  record.name = names_.put({name.c_str(), name.size() + 1});
  index_[slot] = number;
  ++places_[place].uses;
  ++size_;
  return number;
}

std::optional<ObjectId> ObjectNumbers::find(const ObjectRefKey& object) const {
  const auto place = places_by_text_.find(place_text(object));
  if (place == places_by_text_.end()) {
    return std::nullopt;
  }
  const ObjectId number = index_[slot_of(place->second, object.key.name)];
  return number == kNone ? std::nullopt : std::optional(number);
}

void ObjectNumbers::drop(ObjectId number) {
  Record& record = records_[number];
  const std::size_t mask = index_.size() - 1;
  std::size_t hole = slot_of(record.place, name_of(record));
  // What stands behind the hole and could not stand before it moves up.
  for (std::size_t at = (hole + 1) & mask; index_[at] != kNone; at = (at + 1) & mask) {
    const Record& other = records_[index_[at]];
    const std::size_t wished = home(other.place, name_of(other)) & mask;
    if (((at - wished) & mask) >= ((at - hole) & mask)) {
      index_[hole] = index_[at];
      hole = at;
    }
  }
  index_[hole] = kNone;
  if (--places_[record.place].uses == 0) {
    places_by_text_.erase(place_text(object(number)));
    places_[record.place] = Place();
    free_places_.push_back(record.place);
  }
  names_.give_back(record.name, name_of(record).size() + 1);
  record = Record();
  free_.push_back(number);
  --size_;
}

ObjectRefKey ObjectNumbers::object(ObjectId number) const {
  if (!is_used(number)) {
    return {};
  }
  const Record& record = records_[number];
  const Place& place = places_[record.place];
  return {place.kind, {place.cluster, place.ns, std::string(name_of(record))}};
}

}  // namespace kintsugi::workers
