#include "net/internal/address_book.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace kintsugi::net {
namespace {

bool same(const SocketAddress& a, const SocketAddress& b) {
  return a.size == b.size && std::memcmp(&a.storage, &b.storage, a.size) == 0;
}

}  // namespace

void AddressBook::set(std::vector<SocketAddress> addresses) {
  std::vector<Entry> entries;
  for (SocketAddress& address : addresses) {
    const auto known = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
      return same(entry.address, address);
    });
    Entry entry;
    if (known != entries_.end()) {
      entry = *known;
    }
    entry.address = address;
    entries.push_back(entry);
  }
  entries_ = std::move(entries);
}

std::vector<SocketAddress> AddressBook::order(TimePoint now) {
  std::vector<SocketAddress> result;
  if (entries_.empty()) {
    return result;
  }
  std::vector<const Entry*> out;
  for (const Entry& entry : entries_) {
    if (now < entry.out_until) {
      out.push_back(&entry);
    }
  }
  // Of too many, those that were left out first get their chance.
  const std::size_t most = entries_.size() / 2;
  std::stable_sort(out.begin(), out.end(),
                   [](const Entry* a, const Entry* b) { return a->out_until > b->out_until; });
  out.resize(std::min(out.size(), most));
  const std::size_t shift = rotation_++ % entries_.size();
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const Entry& entry = entries_[(shift + i) % entries_.size()];
    if (std::find(out.begin(), out.end(), &entry) == out.end()) {
      result.push_back(entry.address);
    }
  }
  return result;
}

void AddressBook::on_result(const SocketAddress& address, bool connected, TimePoint now) noexcept {
  for (Entry& entry : entries_) {
    if (!same(entry.address, address)) {
      continue;
    }
    if (connected) {
      entry.failures = entry.pauses = 0;
      entry.out_until = TimePoint{};
    } else if (++entry.failures >= kFailures && now >= entry.out_until) {
      ++entry.pauses;
      entry.out_until = now + std::min<Duration>(kPause * entry.pauses, kLongestPause);
    }
  }
}

}  // namespace kintsugi::net
