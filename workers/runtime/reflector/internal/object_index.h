#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "shards/informer.h"

namespace kintsugi::workers {

/// Values that one object has in one index; copies of what is added. Reused, so that filling it
/// costs no allocation after warm-up.
class IndexValues {
 public:
  void add(std::string_view value) {
    text_.append(value);
    ends_.push_back(text_.size());
  }
  void clear() noexcept {
    text_.clear();
    ends_.clear();
  }
  [[nodiscard]] std::size_t size() const noexcept { return ends_.size(); }
  [[nodiscard]] std::string_view operator[](std::size_t at) const noexcept {
    const std::size_t begin = at == 0 ? 0 : ends_[at - 1];
    return std::string_view(text_).substr(begin, ends_[at] - begin);
  }

 private:
  std::string text_;
  std::vector<std::size_t> ends_;
};

/// Which objects have which value (RT-35). An object may have several values or none.
/// Shape: 12 bytes for each object and its first value, about 90 for each further one, about 30
/// bytes and the text for each value. A value is forgotten with its last object. Objects are
/// numbers below 2^30, and others with the highest bit set, both dense from 0. Cost: set and remove
/// O(values of the object), lookup O(1) + result. Threads: as an int.
class ObjectIndex {
 public:
  using Id = shards::KeyTable::Id;
  static constexpr Id kOther = 0x80000000;

  /// The object has these values now, and no others; one that is named twice counts once.
  void set(Id object, const IndexValues& values);
  void remove(Id object);
  /// Calls `visit(Id)` for each object with that value, in no order. It must not change the index.
  template <class Visit>
  void each(std::string_view value, Visit&& visit) const {
    const Id at = values_.find(value);
    for (std::uint32_t i = at == shards::KeyTable::kNone ? kEnd : heads_[at]; i != kEnd;
         i = posting(i).next) {
      visit(object_of(i));
    }
  }
  [[nodiscard]] std::size_t values() const noexcept { return values_.size(); }
  /// Heap in use [bytes].
  [[nodiscard]] std::size_t bytes() const noexcept;

 private:
  static constexpr std::uint32_t kEnd = 0xFFFFFFFF;
  static constexpr std::uint32_t kMore = 0x40000000;
  /// An object and a value. Number of the first one of an object: the object's; of others: kMore
  /// and their place in more_.
  struct Posting {
    Id value = shards::KeyTable::kNone;
    std::uint32_t next = kEnd, previous = kEnd;  // of the same value
  };
  struct More {
    Posting posting;
    Id object = 0;
  };
  [[nodiscard]] const Posting& posting(std::uint32_t at) const noexcept {
    return (at & kMore) != 0    ? more_[at & ~kMore].posting
           : (at & kOther) != 0 ? others_[at & ~kOther]
                                : firsts_[at];
  }
  [[nodiscard]] Posting& posting(std::uint32_t at) noexcept {
    return const_cast<Posting&>(static_cast<const ObjectIndex*>(this)->posting(at));
  }
  [[nodiscard]] Id object_of(std::uint32_t at) const noexcept {
    return (at & kMore) != 0 ? more_[at & ~kMore].object : at;
  }
  /// Room for its first posting.
  void make_room(Id object);
  [[nodiscard]] bool same(Id object, const IndexValues& values) const noexcept;
  [[nodiscard]] bool names(Id object, Id value) const noexcept;
  void add(Id object, Id value);
  void link(std::uint32_t at, Id value);
  void unlink(std::uint32_t at);

  shards::KeyTable values_;
  std::vector<std::uint32_t> heads_;      // by number of the value
  std::vector<Posting> firsts_, others_;  // by object
  std::vector<More> more_;
  std::vector<std::uint32_t> free_;                          // of more_
  std::unordered_map<Id, std::vector<std::uint32_t>> rest_;  // of an object, in their order
};

}  // namespace kintsugi::workers
