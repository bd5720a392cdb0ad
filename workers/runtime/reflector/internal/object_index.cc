#include "workers/runtime/reflector/internal/object_index.h"

#include <utility>

namespace kintsugi::workers {

std::uint32_t& ObjectIndex::first(Id object) {
  std::vector<std::uint32_t>& all = (object & kOther) == 0 ? firsts_ : others_;
  const std::size_t at = object & ~kOther;
  if (at >= all.size()) {
    all.resize(at + 1, kEnd);
  }
  return all[at];
}

bool ObjectIndex::same(std::uint32_t at, const IndexValues& values) const noexcept {
  for (std::size_t i = 0; i < values.size(); ++i, at = postings_[at].sibling) {
    if (at == kEnd || values_.key(postings_[at].value) != values[i]) {
      return false;
    }
  }
  return at == kEnd;
}

bool ObjectIndex::names(std::uint32_t at, Id value) const noexcept {
  for (; at != kEnd; at = postings_[at].sibling) {
    if (postings_[at].value == value) {
      return true;
    }
  }
  return false;
}

std::uint32_t ObjectIndex::link(Id object, Id value) {
  std::uint32_t at = free_;
  if (at == kEnd) {
    at = static_cast<std::uint32_t>(postings_.size());
    postings_.emplace_back();
  } else {
    free_ = postings_[at].next;
  }
  if (value >= heads_.size()) {
    heads_.resize(value + 1, kEnd);
  }
  const std::uint32_t next = std::exchange(heads_[value], at);
  postings_[at] = {object, value, next, kEnd, kEnd};
  if (next != kEnd) {
    postings_[next].previous = at;
  }
  return at;
}

void ObjectIndex::unlink(std::uint32_t at) {
  const Posting gone = postings_[at];
  if (gone.next != kEnd) {
    postings_[gone.next].previous = gone.previous;
  }
  if (gone.previous != kEnd) {
    postings_[gone.previous].next = gone.next;
  } else {
    heads_[gone.value] = gone.next;
    if (gone.next == kEnd) {
      const std::string text(values_.key(gone.value));
      values_.erase(text);
    }
  }
  postings_[at].next = std::exchange(free_, at);
}

void ObjectIndex::set(Id object, const IndexValues& values) {
  if (same(first(object), values)) {
    return;
  }
  remove(object);
  std::uint32_t last = kEnd;
  for (std::size_t i = 0; i < values.size(); ++i) {
    Id value = values_.find(values[i]);
    if (value == shards::KeyTable::kNone) {
      values_.put(values[i], 0, &value);
    }
    if (names(first(object), value)) {
      continue;
    }
    const std::uint32_t at = link(object, value);
    (last == kEnd ? first(object) : postings_[last].sibling) = at;
    last = at;
  }
}

void ObjectIndex::remove(Id object) {
  std::uint32_t at = std::exchange(first(object), kEnd);
  while (at != kEnd) {
    const std::uint32_t next = postings_[at].sibling;
    unlink(at);
    at = next;
  }
}

std::size_t ObjectIndex::bytes() const noexcept {
  return values_.bytes() + postings_.capacity() * sizeof(Posting) +
         (heads_.capacity() + firsts_.capacity() + others_.capacity()) * sizeof(std::uint32_t);
}

}  // namespace kintsugi::workers
