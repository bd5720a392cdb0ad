#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "store/etcd/etcd_store.h"
#include "store/store.h"

namespace kintsugi::store {

/// What is under a prefix of etcd, for tools that copy it: to elsewhere and from there while nobody
/// serves it (GR-306, GR-409), into a backup beside those who do (GR-402). Calls block; one thread.
/// Every write of it compares the record that says what is there, so that of two tools one fails.
class EtcdPrefix {
 public:
  /// How the place of a copy begins that is made of a backup.
  static constexpr std::string_view kOfBackup = "backup ";

  /// Connects; those of `params` that are about serving are not used.
  /// @error kConfig, kUnavailable as EtcdStore::open().
  [[nodiscard]] static Expected<std::unique_ptr<EtcdPrefix>> open(EtcdParams params);
  ~EtcdPrefix();
  EtcdPrefix(const EtcdPrefix&) = delete;
  EtcdPrefix& operator=(const EtcdPrefix&) = delete;

  enum class Kind : std::uint8_t {
    kEmpty,
    kStore,
    kCopying,  ///< a copy of `place` that has not ended
    kMoved,    ///< was copied to `place`
    kMoving,   ///< writes have stopped for a moment: it is being copied to `place`
    kForeign,  ///< keys of somebody else
  };
  struct Content {
    Kind kind = Kind::kEmpty;
    std::string place;
    Revision revision = 0;  ///< of the store, the newest; 0: there is none
    std::string lowest;     ///< release of programs that it is for
    std::string uid{};      ///< of the store, or of the copy
  };
  /// Looks; what the calls below compare is what it has found. @error kConfig, also where it is for
  /// later programs only; kUnavailable.
  [[nodiscard]] Expected<Content> look();

  // A copy to here, after look() has found nothing or an unfinished one, which is removed.
  /// @param after  revisions of the new store are above it. @error kConfig they get too large;
  /// kConflict somebody else writes here; kUnavailable.
  [[nodiscard]] Expected<void> begin(const std::string& from, Revision after);
  [[nodiscard]] Expected<void> put(const EntryView& row);
  /// A key not more than once between two of flush().
  [[nodiscard]] Expected<void> remove(std::string_view key);
  /// What put() has gathered is there. @returns the newest revision of the store.
  [[nodiscard]] Expected<Revision> flush();
  /// It is a store from now on.
  [[nodiscard]] Expected<void> finish() { return finish_all({this}); }
  /// All of these are stores from now on, or none is. They are of one etcd.
  [[nodiscard]] static Expected<void> finish_all(const std::vector<EtcdPrefix*>& prefixes);

  // A copy from here.
  /// Nothing is written for that long. @error kConfig somebody is at work here; kUnavailable.
  [[nodiscard]] Expected<void> expect_quiet(Duration time);
  /// All rows as of the newest revision of look(), look_at() or flush(), with revisions of the
  /// store.
  /// @param damaged  gets the keys of records that do not hold, which are left out then
  /// @error kCorrupt names a record that does not hold, where nobody gets its key; kCompacted,
  /// kUnavailable; what `visit` says.
  using RowVisit = std::function<Expected<void>(const EntryView& row)>;
  [[nodiscard]] Expected<void> each(const RowVisit& visit,
                                    std::vector<std::string>* damaged = nullptr);
  /// The same of rows whose key begins so, that are no objects; as of now.
  [[nodiscard]] Expected<void> each_record(std::string_view key, const RowVisit& visit);
  /// One row, as of then. @error kNotFound; else as each().
  [[nodiscard]] Expected<std::string> get(std::string_view key);
  struct Event {
    Revision revision = 0;
    bool is_delete = false;
    std::string_view key;
    std::string_view value;  ///< of a put; what it is if it does not hold: "", is_damaged
    bool is_damaged = false;
  };
  using EventVisit = std::function<void(const Event& event)>;
  /// What happened to rows after that revision of the store, of which etcd has history (0: all), up
  /// to now, in order. @returns the first revision of which something would have been told.
  /// @error kCompacted that history is gone; kUnavailable.
  [[nodiscard]] Expected<Revision> each_event(Revision after, const EventVisit& visit);
  /// It opens by force only, and nobody writes on that was there before.
  /// @error kConflict a row was written since look(); kUnavailable.
  [[nodiscard]] Expected<void> mark_moved(const std::string& place);

  // The same while others serve it.
  /// Rows that were written after `after` (of position()) up to what look() or stop_writes() found.
  [[nodiscard]] Expected<void> each_since(std::uint64_t after, const RowVisit& visit);
  /// Keys of all rows, and how many, as of then.
  [[nodiscard]] Expected<void> each_key(const std::function<void(std::string key)>& visit);
  [[nodiscard]] Expected<std::uint64_t> count();
  /// etcd's revision as of which is read.
  [[nodiscard]] std::uint64_t position() const noexcept;
  /// How far revisions of the store are above etcd's.
  [[nodiscard]] Revision offset() const noexcept;
  /// From this moment, which is the position then, nobody writes: who serves it ends, and waits
  /// when he starts anew. Then mark_moved() decides, before it is taken back. After look().
  /// @error kConflict, kUnavailable.
  [[nodiscard]] Expected<void> stop_writes(const std::string& place);
  /// Who served it goes on. @error kConflict somebody has done so, or has decided; kUnavailable.
  [[nodiscard]] Expected<void> take_back();

  // A snapshot of a store that goes on. What is `at` here is a revision of etcd, not of the store.
  /// Which etcd it is: revisions of prefixes that have the same one are of one count.
  [[nodiscard]] std::uint64_t cluster() const noexcept;
  /// Who compacts for the store keeps the history from now on until release() or the end of this,
  /// and for an hour at most: etcd itself drops what was left. @error kUnavailable, and what says
  /// that one may not: history is kept for as long as usual.
  [[nodiscard]] Expected<void> hold();
  /// Tries, for 2 s at most. Nothing was held: nothing happens.
  void release();
  /// At a moment of the call it was the newest one. @error kUnavailable.
  [[nodiscard]] Expected<std::uint64_t> newest();
  /// As look() would have found it then. @error kConfig, kUnavailable; kCompacted etcd has no
  /// history of then.
  [[nodiscard]] Expected<Content> look_at(std::uint64_t at);
  /// Nothing of the store was written or deleted after that until now. @error kUnavailable.
  [[nodiscard]] Expected<bool> is_unchanged_since(std::uint64_t at);
  /// Which store was found; another one, or one whose revisions were let go on later, has another.
  [[nodiscard]] std::string incarnation() const;

  /// Revisions of the store that look() has found go on 1,000,000,000 later, and who serves it
  /// begins anew: for an etcd that was restored to an older state while nobody ran who could notice
  /// (GR-125).
  /// @returns where they go on. @error kConfig it is no store, or they get too large; kConflict,
  /// kUnavailable.
  [[nodiscard]] Expected<Revision> renew();

  /// Only programs of this release and later open it from now on; who serves it goes on (GR-211).
  /// After look(). @error kConfig it is no store; kConflict, kUnavailable.
  [[nodiscard]] Expected<void> raise_lowest(const std::string& program);

 private:
  struct Parts;
  [[nodiscard]] Expected<void> make_room(std::size_t bytes);
  explicit EtcdPrefix(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace kintsugi::store
