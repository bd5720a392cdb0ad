#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "apiserver/internal/change_feed.h"
#include "apiserver/internal/collection_sizes.h"
#include "apiserver/internal/live_event.h"
#include "base/strings.h"
#include "net/loop.h"
#include "store/store.h"

namespace kintsugi::apiserver::internal {

class Watcher;

/// Brings committed changes to this loop's listeners and watches, in order. Threads: its loop; the
/// store's writer thread only posts. Cost of a change: at most nine hash look-ups, then one call
/// per watch whose key range holds the key.
class WatchHub {
 public:
  WatchHub(net::Loop& loop, store::Store& store, const Registry& registry);
  ~WatchHub();
  WatchHub(const WatchHub&) = delete;
  WatchHub& operator=(const WatchHub&) = delete;

  /// Everything up to this revision has been dispatched.
  [[nodiscard]] store::Revision applied() const noexcept { return applied_; }
  [[nodiscard]] ChangeFeed& changes() noexcept { return feed_; }
  /// As of applied().
  [[nodiscard]] CollectionSizes& sizes() noexcept { return sizes_; }

  /// Watches whose key range is `range`: a prefix, or one whole key.
  struct Group {
    std::string range;
    std::vector<Watcher*> watchers;
  };
  /// Starts delivery. The group lives at least until remove().
  Group& add(const std::string& range, Watcher& watcher);
  void remove(Group& group, Watcher& watcher) noexcept;

  /// The shared encoding of this kind and form.
  [[nodiscard]] WatchEncodingPtr encoding(const ServedKindPtr& kind, const Form& form,
                                          IncludeObject include);

  void count_event() noexcept { ++events_; }
  [[nodiscard]] std::uint64_t events() const noexcept { return events_; }

 private:
  void dispatch(const std::vector<store::Event>& batch);
  void dispatch_to(std::string_view range, LiveEvent& event);
  void drop_empty_groups();

  store::Store& store_;
  ChangeFeed feed_;
  CollectionSizes sizes_;
  store::Revision applied_ = 0;
  std::uint64_t events_ = 0;
  bool dispatching_ = false;
  bool has_empty_groups_ = false;
  StringMap<std::unique_ptr<Group>> groups_;
  StringMap<std::weak_ptr<const WatchEncoding>> encodings_;
  std::shared_ptr<WatchHub*> alive_;
  std::shared_ptr<void> subscription_;
};

}  // namespace kintsugi::apiserver::internal
