#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/secret.h"
#include "base/time.h"
#include "base/version.h"
#include "store/store.h"

namespace kintsugi::store {

struct EtcdParams {
  std::vector<std::string> endpoints;        ///< "https://10.0.0.1:2379"
  std::string prefix;                        ///< of all keys; begins with '/', is not "/"
  std::string ca_file, cert_file, key_file;  ///< of https endpoints
  std::string user;                          ///< "": no user of etcd
  Secret password;
  bool insecure = false;  ///< http also to other machines
  /// Compacts etcd's history as that of the store is kept, while no other process of the prefix
  /// does; else others do, or nobody.
  bool compacts = false;
  bool opens_moved = false;  ///< also what was copied elsewhere (store/transfer)
  /// Etcd was restored to an older state, or somebody has found that (GR-125): nothing is read or
  /// written from now on, and a store that is opened anew has revisions above all that were told.
  /// On a thread of the store, once; must only hand on.
  std::function<void()> on_ended{};
  /// The release that this is: the prefix may be for later ones only (GR-211).
  std::string program = product_version();
  std::string mirror_directory;  ///< of this process alone
  BookRules books{};

  Duration start_timeout = seconds(30);
  /// Asked now and then while open() waits, which ends with kClosed. On the caller's thread.
  std::function<bool()> is_given_up{};
  Duration write_timeout = seconds(10);
  Duration attempt_timeout = milliseconds(2'500);
  Duration synchronize_timeout = seconds(3);
  /// After it, without news of etcd, reads fail with kUnavailable: they are too old (GR-121).
  Duration stale_limit = seconds(300);
  Duration unready_after = seconds(10);  ///< without news of etcd: health() says so
  Duration history_age = std::chrono::minutes(5);
  std::uint64_t history_events = 10'000;
  Duration compaction_interval = seconds(30);
  std::size_t queue_transactions = 65'536;
  std::size_t queue_bytes = std::size_t{64} << 20;
  /// The password as it is now, each time that a token is asked for; empty: `password` stays. On
  /// the store's thread.
  std::function<Expected<Secret>()> password_now{};
  /// LmdbParams::commit_fault_for_test of the mirror.
  std::function<int(bool committed)> mirror_fault_for_test{};
};

/// Counters since the store was opened.
struct EtcdStats {
  std::uint64_t watches = 0;  ///< streams that were opened
  std::uint64_t resyncs = 0;  ///< fills of the mirror, the first one counted
  std::uint64_t head_reads = 0, barriers = 0, progress_requests = 0;
  std::uint64_t unknown = 0, resolved = 0;  ///< outcomes of writes
  std::uint64_t durable_unseen = 0;
  std::uint64_t corrupt = 0;       ///< rows that cannot be read now
  std::uint64_t foreign_keys = 0;  ///< events of keys that are no rows of ours
};

/// The Store on etcd v3. Source: docs/spec/growing.md; docs/decisions/0014-etcd-store.md.
/// Shape: all keys of `prefix` are mirrored into an LMDB store of this process, which answers every
/// read and feeds subscribers; etcd gets the writes, one watch, and reads of its newest revision
/// for synchronize(). Revisions are etcd's plus an offset that the prefix keeps.
/// Several processes may use one prefix. limits() are etcd's: an object of 1,556,480 bytes.
/// Threads: as Store, plus one that talks to etcd, and the mirror's writer.
class EtcdStore final : public Store {
 public:
  /// Ready when it returns: the mirror is complete. Waits for etcd up to start_timeout.
  /// @error kConfig what cannot become right by itself: parameters, another version, another kind
  /// of server, a prefix of somebody else; kUnavailable etcd did not answer; those of
  /// LmdbStore::open.
  [[nodiscard]] static Expected<std::unique_ptr<EtcdStore>> open(EtcdParams params);
  /// Transactions without an answer are answered kClosed; they may have happened.
  ~EtcdStore() override;

  [[nodiscard]] Revision current() const noexcept override;
  [[nodiscard]] Revision compacted() const noexcept override;
  [[nodiscard]] Expected<Entry> get(std::string_view key) const override;
  [[nodiscard]] Expected<Revision> range(const RangeQuery& query,
                                         const Visitor& visit) const override;
  [[nodiscard]] Expected<std::uint64_t> count(const RangeQuery& query) const override;
  /// @error (in done) also kTimeout it may have happened, kUnavailable it has not: etcd could not
  /// be reached, kRequestEntityTooLarge etcd takes less.
  void commit(std::vector<Op> ops, CommitCallback done) override;
  void synchronize(SynchronizeCallback done) override;
  [[nodiscard]] Limits limits() const noexcept override;
  [[nodiscard]] bool is_shared() const noexcept override { return true; }
  /// Others take a duty over 1.5 s after its holder was last heard of (GR-207). The token has to go
  /// before the store.
  [[nodiscard]] std::shared_ptr<void> compete(std::string duty, DutyListener listener) override;
  [[nodiscard]] Expected<Changes> changes(std::string_view prefix, Revision after,
                                          std::size_t limit) const override;
  [[nodiscard]] Subscription subscribe(std::function<void(const EventBatch&)> listener) override;
  /// Of the mirror's history; etcd's is left alone.
  void compact(Revision revision) override;
  [[nodiscard]] StoreStats stats() const override;
  [[nodiscard]] Books* books() noexcept override;
  [[nodiscard]] Expected<void> health() const override;

  [[nodiscard]] EtcdStats etcd_stats() const;
  /// From now on the store is for programs of this release and later ones (GR-211), unless it is
  /// already. What fails is written to the log, and may be asked for again.
  void finish_upgrade();
  /// Reads the files of the TLS end again; what is connected stays.
  /// @error kConfig names the file; the old ones stay.
  [[nodiscard]] Expected<void> reload_tls();

 private:
  struct Parts;
  struct Competitor;
  [[nodiscard]] Expected<void> fresh() const;
  explicit EtcdStore(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace kintsugi::store
