#include "store/etcd/etcd_store.h"

#include <pthread.h>

#include <algorithm>
#include <future>
#include <mutex>
#include <thread>
#include <utility>

#include "net/loop.h"
#include "net/tls.h"
#include "net/upstream.h"
#include "store/etcd/internal/connection.h"
#include "store/etcd/internal/core.h"
#include "store/etcd/internal/shared.h"
#include "store/internal/transaction.h"

namespace kintsugi::store {
namespace {

/// etcd's default limit of a request (1.5 MiB) without room for keys, compares and trailers, and
/// 8 KiB for what goes with an object (GR-102, GR-111).
constexpr std::size_t kMostObject = 1'556'480;
constexpr std::size_t kBesides = 8 * 1024;
constexpr Duration kLeaving = milliseconds(500);
constexpr Duration kLook = milliseconds(50);  // while it is opened

}  // namespace

struct EtcdStore::Parts {
  explicit Parts(EtcdParams given) : params(std::move(given)) {}
  EtcdParams params;
  std::vector<net::Url> urls;
  std::shared_ptr<net::TlsContext> tls;
  etcd::Shared shared;
  std::unique_ptr<net::Loop> loop;
  std::unique_ptr<etcd::Core> core;  // the loop's thread
  LmdbStore* mirror = nullptr;       // that of the core
  std::thread thread;

  /// Since the position was last known to be etcd's newest.
  [[nodiscard]] Duration silence() const {
    return Clock::now().time_since_epoch() - Duration(shared.confirmed_at.load());
  }
  void run(const std::function<void(Expected<void>)>& ready) {
    thread = std::thread([this, ready] {
      ::pthread_setname_np(::pthread_self(), "store-etcd");
      loop->post([this, ready] {
        core = std::make_unique<etcd::Core>(*loop, params, urls, tls, shared);
        core->start(ready);
      });
      loop->run();
    });
  }
  ~Parts() {
    if (thread.joinable()) {
      loop->post([this] {
        core.reset();
        loop->stop();
      });
      thread.join();
    }
  }
};

EtcdStore::EtcdStore(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
EtcdStore::~EtcdStore() = default;

Expected<std::unique_ptr<EtcdStore>> EtcdStore::open(EtcdParams params) {
  auto connection = etcd::understood_connection(params);
  if (!connection) {
    return fail(std::move(connection).error());
  }
  auto parts = std::make_unique<Parts>(std::move(params));
  parts->urls = std::move(connection->urls);
  parts->tls = std::move(connection->tls);
  parts->loop = std::make_unique<net::Loop>("store-etcd");
  auto answer = std::make_shared<std::promise<Expected<void>>>();
  auto ready = answer->get_future();
  parts->run([answer](Expected<void> done) { answer->set_value(std::move(done)); });
  const TimePoint limit = Clock::now() + parts->params.start_timeout * 2;
  while (ready.wait_for(kLook) != std::future_status::ready) {
    if (Clock::now() >= limit) {
      return fail(Errc::kUnavailable, "etcd does not answer");
    }
    if (parts->params.is_given_up && parts->params.is_given_up()) {
      return fail(Errc::kClosed, "nobody waits for etcd any more");
    }
  }
  if (auto done = ready.get(); !done) {
    return fail(std::move(done).error());
  }
  parts->params.is_given_up = nullptr;
  parts->mirror = parts->core->mirror();
  return std::unique_ptr<EtcdStore>(new EtcdStore(std::move(parts)));
}

Revision EtcdStore::current() const noexcept {
  const Revision position = parts_->shared.position;
  return parts_->shared.is_comparing ? position : std::max(position, parts_->mirror->current());
}

Revision EtcdStore::compacted() const noexcept { return parts_->mirror->compacted(); }

Expected<void> EtcdStore::fresh() const {
  if (parts_->shared.is_ended) {
    return fail(Errc::kUnavailable, etcd::kEndedHistory);
  }
  if (parts_->silence() > parts_->params.stale_limit) {
    return fail(Errc::kUnavailable, "etcd has told nothing for too long");
  }
  return {};
}

Expected<Entry> EtcdStore::get(std::string_view key) const {
  if (auto is_fresh = fresh(); !is_fresh) {
    return fail(std::move(is_fresh).error());
  }
  if (parts_->shared.is_corrupt(key)) {
    return fail(Errc::kCorrupt, "the record in etcd is damaged");
  }
  return parts_->mirror->get(key);
}

namespace {

/// The mirror has no revision of its own for what does not concern it.
RangeQuery in_mirror(const LmdbStore& mirror, Revision position, const RangeQuery& query) {
  RangeQuery asked = query;
  const Revision newest = mirror.current();
  if (asked.at > newest && asked.at <= position) {
    asked.at = newest;
  }
  return asked;
}

}  // namespace

Expected<Revision> EtcdStore::range(const RangeQuery& query, const Visitor& visit) const {
  if (auto is_fresh = fresh(); !is_fresh) {
    return fail(std::move(is_fresh).error());
  }
  const Revision position = parts_->shared.position;
  if (query.at > position && query.at < parts_->shared.lost_before) {
    return fail(Errc::kCompacted);  // the mirror never was what etcd was then
  }
  const bool any_corrupt = parts_->shared.corrupt_count.load(std::memory_order_acquire) > 0;
  std::string corrupt;
  const auto looking = [&](const EntryView& entry) {
    if (parts_->shared.is_corrupt(entry.key)) {
      corrupt = entry.key;
      return false;
    }
    return visit(entry);
  };
  auto read = any_corrupt
                  ? parts_->mirror->range(in_mirror(*parts_->mirror, position, query), looking)
                  : parts_->mirror->range(in_mirror(*parts_->mirror, position, query), visit);
  if (!corrupt.empty()) {
    return fail(Errc::kCorrupt, "the record in etcd is damaged");
  }
  return std::move(read).map(
      [&](Revision at) { return query.at != 0 ? query.at : std::max(at, position); });
}

Expected<std::uint64_t> EtcdStore::count(const RangeQuery& query) const {
  return parts_->mirror->count(in_mirror(*parts_->mirror, parts_->shared.position, query));
}

void EtcdStore::commit(std::vector<Op> ops, CommitCallback done) {
  std::size_t bytes = 0;
  for (const Op& op : ops) {
    bytes += sizeof(Op) + op.key.size() + op.value.size();
  }
  auto refused = check_transaction(ops, limits());
  etcd::Shared& shared = parts_->shared;
  if (refused &&
      (shared.queued >= parts_->params.queue_transactions ||
       (shared.queued > 0 && shared.queued_bytes + bytes > parts_->params.queue_bytes))) {
    refused = fail(Errc::kOverloaded, "the store's queue of writes is full");
  }
  if (refused) {
    ++shared.queued;
    shared.queued_bytes += bytes;
  }
  auto shared_ops = std::make_shared<std::vector<Op>>(std::move(ops));
  auto shared_refusal = std::make_shared<Expected<void>>(std::move(refused));
  parts_->loop->post(
      [parts = parts_.get(), shared_ops, shared_refusal, bytes, done = std::move(done)]() mutable {
        if (!*shared_refusal) {
          done(fail(std::move(shared_refusal->error())));
        } else if (parts->core == nullptr) {
          done(fail(Errc::kClosed));
        } else {
          parts->core->commit(std::move(*shared_ops), bytes, std::move(done));
        }
      });
}

void EtcdStore::synchronize(SynchronizeCallback done) {
  parts_->loop->post([parts = parts_.get(), done = std::move(done)]() mutable {
    if (parts->core == nullptr) {
      done(fail(Errc::kClosed));
    } else {
      parts->core->synchronize(std::move(done));
    }
  });
}

/// A listener that is not called any more once end() returns.
struct EtcdStore::Competitor {
  Competitor(Parts& of, DutyListener what) : parts(of), listener(std::move(what)) {}
  void tell(const std::optional<Fence>& held) {
    const std::lock_guard lock(running);
    if (listener) {
      listener(held);
    }
  }
  void end() {
    const std::lock_guard lock(running);
    listener = nullptr;
  }
  Parts& parts;
  std::recursive_mutex running;  // recursive: a listener may end itself
  DutyListener listener;
  std::uint64_t number = 0;  // the loop's
};

std::shared_ptr<void> EtcdStore::compete(std::string duty, DutyListener listener) {
  auto one = std::make_shared<Competitor>(*parts_, std::move(listener));
  parts_->loop->post([one, duty = std::move(duty)]() mutable {
    if (one->parts.core != nullptr) {
      one->number = one->parts.core->compete(
          std::move(duty), [one = one.get()](const auto& held) { one->tell(held); });
    }
  });
  return std::shared_ptr<void>(one.get(), [one](void*) {
    one->end();
    auto left = std::make_shared<std::promise<void>>();
    std::future<void> leaving = left->get_future();
    one->parts.loop->post([one, left] {
      if (one->parts.core == nullptr) {
        left->set_value();
      } else {
        one->parts.core->leave(one->number, [left] { left->set_value(); });
      }
    });
    if (std::this_thread::get_id() != one->parts.thread.get_id()) {
      (void)leaving.wait_for(kLeaving);
    }
  });
}

void EtcdStore::finish_upgrade() {
  parts_->loop->post([parts = parts_.get()] {
    if (parts->core != nullptr) {
      parts->core->finish_upgrade();
    }
  });
}

Limits EtcdStore::limits() const noexcept { return {100, kMostObject + kBesides}; }

Expected<Store::Changes> EtcdStore::changes(std::string_view prefix, Revision after,
                                            std::size_t limit) const {
  const Revision position = parts_->shared.position;
  if (after > parts_->mirror->current() && after <= position) {
    return Changes{{}, position};
  }
  auto changes = parts_->mirror->changes(prefix, after, limit);
  if (after < parts_->shared.lost_before) {  // looked at behind: what was read may be a part of it
    return fail(Errc::kCompacted);
  }
  if (changes && limit > 0 && changes->events.size() < limit) {
    changes->complete_to = std::max(changes->complete_to, position);
  }
  return changes;
}

Store::Subscription EtcdStore::subscribe(std::function<void(const EventBatch&)> listener) {
  return parts_->mirror->subscribe(std::move(listener));
}

void EtcdStore::compact(Revision revision) { parts_->mirror->compact(revision); }

StoreStats EtcdStore::stats() const {
  StoreStats stats = parts_->mirror->stats();
  stats.current = current();
  stats.commits = parts_->shared.commits;
  stats.conflicts = parts_->shared.conflicts;
  stats.queued = parts_->shared.queued;
  return stats;
}

Books* EtcdStore::books() noexcept { return parts_->mirror->books(); }

Expected<void> EtcdStore::health() const {
  if (parts_->shared.is_ended) {
    return fail(Errc::kUnavailable, etcd::kEndedHistory);
  }
  if (parts_->shared.is_full) {
    return fail(Errc::kFull, "etcd is out of space (alarm NOSPACE)");
  }
  const Duration silent = parts_->silence();
  if (silent > parts_->params.unready_after) {
    return fail(Errc::kUnavailable,
                "etcd has told nothing for " + std::to_string(silent / seconds(1)) + " s");
  }
  return parts_->mirror->health();
}

EtcdStats EtcdStore::etcd_stats() const {
  const etcd::Shared& shared = parts_->shared;
  EtcdStats stats;
  stats.watches = shared.watches;
  stats.resyncs = shared.resyncs;
  stats.head_reads = shared.head_reads;
  stats.barriers = shared.barriers;
  stats.progress_requests = shared.progress_requests;
  stats.unknown = shared.unknown;
  stats.resolved = shared.resolved;
  stats.durable_unseen = shared.durable_unseen;
  stats.corrupt = shared.corrupt_count;
  stats.foreign_keys = shared.foreign_keys;
  return stats;
}

Expected<void> EtcdStore::reload_tls() {
  if (parts_->tls == nullptr) {
    return {};
  }
  auto next = etcd::make_tls(parts_->params, parts_->urls);
  if (!next) {
    return fail(std::move(next).error());
  }
  parts_->tls->renew(std::move(*next));
  return {};
}

}  // namespace kintsugi::store
