#include "workers/runtime/journal/start_compare.h"

#include <algorithm>

namespace kintsugi::workers {
namespace {

struct ListedKey {
  std::uint32_t listed;  // index
  std::size_t at;        // in the arena
  std::uint32_t size;
};

}  // namespace

StartComparison compare_at_start(const std::vector<JournalEntry>& rows,
                                 const std::vector<ListedObject>& listed) {
  StartComparison result;
  std::string arena;
  std::vector<ListedKey> keys;
  keys.reserve(listed.size());
  for (std::size_t i = 0; i < listed.size(); ++i) {
    const std::size_t at = arena.size();
    const auto index = static_cast<std::uint32_t>(i);
    if (append_journal_key(arena, listed[i].key)) {
      keys.push_back({index, at, static_cast<std::uint32_t>(arena.size() - at)});
    } else {
      result.unfit.push_back(index);
    }
  }
  const auto text = [&arena](const ListedKey& key) {
    return std::string_view(arena).substr(key.at, key.size);
  };
  std::sort(keys.begin(), keys.end(), [&text](const ListedKey& a, const ListedKey& b) {
    const int order = text(a).compare(text(b));
    return order != 0 ? order < 0 : a.listed < b.listed;
  });
  std::size_t row = 0;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const std::string_view key = text(keys[i]);
    if (i + 1 < keys.size() && text(keys[i + 1]) == key) {
      continue;
    }
    for (; row < rows.size() && rows[row].key < key; ++row) {
      result.gone.push_back(static_cast<std::uint32_t>(row));
    }
    const std::string_view rv = listed[keys[i].listed].rv;
    const bool known = row < rows.size() && rows[row].key == key;
    if (known && !rv.empty() && rows[row].rv == rv) {
      ++result.unchanged;
    } else {
      result.queue.push_back(keys[i].listed);
    }
    row += known ? 1 : 0;
  }
  for (; row < rows.size(); ++row) {
    result.gone.push_back(static_cast<std::uint32_t>(row));
  }
  return result;
}

}  // namespace kintsugi::workers
