#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "krm/json.h"
#include "workers/delivery/protocol/resync_message.h"
#include "workers/delivery/protocol/status_received.h"

namespace kintsugi::workers {

/// metadata.uid; of an object without one what a hub gives it, the same for the same client and
/// object. nullopt: none that a topic and an agent's journal can have.
[[nodiscard]] std::optional<std::string> hub_uid(std::string_view client,
                                                 const krm::Json& manifest);

/// What is published for an order: that object, with what hubs say of it.
/// @param deletion  RFC 3339, when it was asked for; "": it is wanted
[[nodiscard]] std::string hub_order(krm::Json manifest, const std::string& uid,
                                    std::int64_t generation, const std::string& deletion,
                                    std::int64_t unix);

/// What a hub wants of one client, and what the client has answered: gives objects their
/// generations, says what is to be published and when, and drops answers that are older than what
/// is known. Source: CM-26, CM-27, CM-50 to CM-53. No clock, no I/O.
class HubBook {
 public:
  struct Params {
    std::string client, prefix = "v1/";
    Duration resend = seconds(600);        ///< what is not answered
    Duration resend_delete = seconds(60);  ///< what is not deleted yet
    Duration answer = seconds(2);          ///< for which an order counts as on its way
    std::size_t on_way = 500;              ///< at most
    bool authoritative = false;            ///< what the client has besides is deleted
  };
  /// An object of a file.
  struct Wish {
    std::string file;
    krm::Json manifest;
  };
  /// Retained. Payload "": clears what is retained.
  struct Publication {
    std::string topic, payload;
  };
  explicit HubBook(Params params) : params_(std::move(params)) {}

  /// All that is wanted. What is not in it any more is deleted, but for what came from `unreadable`
  /// files. @returns what is wrong with wishes: those are left out
  std::vector<std::string> wish(const std::vector<Wish>& wishes,
                                const std::set<std::string>& unreadable);
  /// @returns false: it is older than what is known, and means nothing
  bool take_status(const std::string& uid, const ReceivedStatus& status);
  /// What the client has: what it lacks is sent again, and what it has besides is deleted where
  /// this hub decides.
  void take_versions(const std::vector<ResyncItem>& items);
  [[nodiscard]] std::vector<ResyncItem> status_hashes() const;
  /// What goes out now. Save the book before where ordered() says so. @param unix  for messages
  [[nodiscard]] std::vector<Publication> due(TimePoint now, std::int64_t unix);
  /// Nothing is known of what is on its way: the connection is new.
  void begin_anew() noexcept { on_way_.clear(); }

  /// Something changed since the last encode(); of what the client was told, or is to be told.
  [[nodiscard]] bool dirty() const noexcept { return dirty_ || ordered_; }
  [[nodiscard]] bool ordered() const noexcept { return ordered_; }
  [[nodiscard]] krm::Json encode();
  /// @returns false: it is no book; nothing changed
  [[nodiscard]] bool decode(const krm::Json& json);

  [[nodiscard]] std::size_t objects() const noexcept { return entries_.size(); }
  [[nodiscard]] std::size_t unanswered() const;
  [[nodiscard]] const std::string& client() const noexcept { return params_.client; }

 private:
  struct Entry {
    std::string file, hash, deletion;  ///< "": it is wanted; else the time of its deletion
    krm::Json manifest;                ///< of what is deleted: what names it
    std::int64_t generation = 0, answered = 0;
    std::uint64_t sequence = 0;
    std::string status_hash;
    std::optional<TimePoint> sent;
    bool queued = false;
    bool has_manifest = false;  ///< false: read from the state, no file has been read yet
    bool young = false;         ///< this book never knew of an earlier one
    [[nodiscard]] bool deleting() const noexcept { return !deletion.empty(); }
  };
  void want(const std::string& uid, const Wish& wish);
  void drop(const std::string& uid, Entry& entry);
  void raise(const std::string& uid, Entry& entry, std::int64_t above);
  void queue(const std::string& uid, Entry& entry);
  void clear(const std::string& uid);
  void look_for_late(TimePoint now);
  [[nodiscard]] std::string topic(const std::string& uid, std::string_view leaf) const;

  Params params_;
  std::map<std::string, Entry, std::less<>> entries_;
  std::deque<std::string> queue_;
  std::map<std::string, TimePoint> on_way_;
  std::vector<Publication> clears_;
  std::int64_t floor_ = 0;  // generations of what is gone are not above
  bool dirty_ = false, ordered_ = false;
};

}  // namespace kintsugi::workers
