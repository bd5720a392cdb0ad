#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>

namespace kintsugi::bench {

/// The objects of one shard of a bench of merged reads, as a Kubernetes server would tell of them:
/// ConfigMaps object-0000000, …. Every event replaces one of them and has the next
/// resourceVersion. Versions have ten digits, the first of which is the number of the shard, so
/// that one says of which shard an event is and which must come next.
class Collection {
 public:
  /// @param shard    1-9
  /// @param objects  at least 1
  /// @param size     of an event [bytes], about that of an item
  Collection(std::uint64_t shard, std::uint64_t objects, std::size_t size);

  /// The next event as a line with its send time [ns]; valid until the next call.
  [[nodiscard]] std::string_view next_event(std::uint64_t time);
  /// Adds the events after `revision`; false: they are forgotten.
  [[nodiscard]] bool replay(std::uint64_t revision, std::string& out) const;
  /// Adds ADDED events of all objects.
  void add_initial(std::string& out);
  [[nodiscard]] std::string bookmark(bool initial_end) const;

  /// `{…,"items":[`
  [[nodiscard]] std::string list_head() const;
  /// Adds items [first, first + count) with the commas between and after them, but for the last of
  /// `total`, behind which the list is closed.
  void add_items(std::string& out, std::uint64_t first, std::uint64_t count, std::uint64_t total);

  [[nodiscard]] std::uint64_t objects() const noexcept { return objects_; }
  [[nodiscard]] std::uint64_t revision() const noexcept { return revision_; }

 private:
  /// A text whose numbers are replaced in place.
  struct Form {
    std::string text;
    std::size_t name = 0, revision = 0, sent = 0;
    void put(std::uint64_t value, std::size_t at, std::size_t digits);
  };
  static Form make(std::string_view begin, std::string_view type, std::string_view end,
                   std::size_t size);

  std::uint64_t objects_, base_, revision_;
  Form event_, added_, item_;
  std::deque<std::string> log_;  // the last events
};

/// Value of a query parameter of `target`; "": none.
[[nodiscard]] std::string_view parameter(std::string_view target, std::string_view name) noexcept;

}  // namespace kintsugi::bench
