#include "workers/runtime/reflector/internal/object_index.h"

#include <algorithm>
#include <utility>

namespace kintsugi::workers {

namespace {
constexpr ObjectIndex::Id kNone = shards::KeyTable::kNone;
}  // namespace

void ObjectIndex::make_room(Id object) {
  std::vector<Posting>& all = (object & kOther) == 0 ? firsts_ : others_;
  if (const std::size_t at = object & ~kOther; at >= all.size()) {
    all.resize(at + 1);
  }
}

bool ObjectIndex::same(Id object, const IndexValues& values) const noexcept {
  const Id first = posting(object).value;
  const auto rest = rest_.find(object);
  const std::size_t more = rest == rest_.end() ? 0 : rest->second.size();
  if (values.size() != (first == kNone ? 0 : 1 + more)) {
    return false;
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    const Id value = i == 0 ? first : posting(rest->second[i - 1]).value;
    if (values_.key(value) != values[i]) {
      return false;
    }
  }
  return true;
}

bool ObjectIndex::names(Id object, Id value) const noexcept {
  const auto rest = rest_.find(object);
  return posting(object).value == value ||
         (rest != rest_.end() &&
          std::any_of(rest->second.begin(), rest->second.end(),
                      [&](std::uint32_t at) { return posting(at).value == value; }));
}

void ObjectIndex::link(std::uint32_t at, Id value) {
  if (value >= heads_.size()) {
    heads_.resize(value + 1, kEnd);
  }
  const std::uint32_t next = std::exchange(heads_[value], at);
  posting(at) = {value, next, kEnd};
  if (next != kEnd) {
    posting(next).previous = at;
  }
}

void ObjectIndex::unlink(std::uint32_t at) {
  const Posting gone = std::exchange(posting(at), {});
  if (gone.next != kEnd) {
    posting(gone.next).previous = gone.previous;
  }
  if (gone.previous != kEnd) {
    posting(gone.previous).next = gone.next;
    return;
  }
  heads_[gone.value] = gone.next;
  if (gone.next == kEnd) {
    const std::string text(values_.key(gone.value));
    values_.erase(text);
  }
}

void ObjectIndex::add(Id object, Id value) {
  if (posting(object).value == kNone) {
    return link(object, value);
  }
  auto at = static_cast<std::uint32_t>(more_.size());
  if (free_.empty()) {
    more_.emplace_back();
  } else {
    at = free_.back();
    free_.pop_back();
  }
  more_[at].object = object;
  link(kMore | at, value);
  rest_[object].push_back(kMore | at);
}

void ObjectIndex::set(Id object, const IndexValues& values) {
  make_room(object);
  if (same(object, values)) {
    return;
  }
  remove(object);
  for (std::size_t i = 0; i < values.size(); ++i) {
    Id value = values_.find(values[i]);
    if (value == kNone) {
      values_.put(values[i], 0, &value);
    }
    if (!names(object, value)) {
      add(object, value);
    }
  }
}

void ObjectIndex::remove(Id object) {
  make_room(object);
  if (posting(object).value == kNone) {
    return;
  }
  unlink(object);
  if (const auto rest = rest_.find(object); rest != rest_.end()) {
    for (const std::uint32_t at : rest->second) {
      unlink(at);
      free_.push_back(at & ~kMore);
    }
    rest_.erase(rest);
  }
}

std::size_t ObjectIndex::bytes() const noexcept {
  return values_.bytes() + (firsts_.capacity() + others_.capacity()) * sizeof(Posting) +
         more_.capacity() * sizeof(More) +
         (heads_.capacity() + free_.capacity()) * sizeof(std::uint32_t);
}

}  // namespace kintsugi::workers
