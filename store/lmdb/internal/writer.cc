#include "store/lmdb/internal/writer.h"

#include <pthread.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "base/log.h"
#include "store/internal/transaction.h"
#include "store/lmdb/internal/book_table.h"
#include "store/lmdb/internal/group.h"
#include "store/lmdb/internal/history_pins.h"
#include "store/lmdb/internal/reader.h"
#include "store/store_totals.h"

namespace kintsugi::store {
namespace {

constexpr std::size_t kGroupTransactions = 1'000;
constexpr std::size_t kGroupBytes = std::size_t{8} << 20;
constexpr std::uint64_t kProbeBytes = 64 * 1024;
constexpr Duration kStopPoll = milliseconds(2);

HistoryClock make_clock(const LmdbParams& params) {
  if (params.clock_for_test) {
    return {1, params.clock_for_test};
  }
  return HistoryClock::boot_time();
}

bool too_big(int code) noexcept { return code == MDB_MAP_FULL || code == MDB_TXN_FULL; }

}  // namespace

void SharedState::raise_current(Revision revision) noexcept {
  Revision known = current.load(std::memory_order_relaxed);
  while (known < revision && !current.compare_exchange_weak(known, revision)) {
  }
}

Writer::Writer(Environment& environment, SharedState& shared, SubscriberList& subscribers,
               LmdbParams params)
    : environment_(environment),
      shared_(shared),
      subscribers_(subscribers),
      params_(std::move(params)),
      marks_(make_clock(params_), params_.history_age),
      handover_(params_.on_moved, params_.most_stop),
      books_(params_.books) {}

Expected<void> Writer::start() {
  auto snapshot = environment_.read();
  if (!snapshot) {
    return fail(std::move(snapshot).error());
  }
  MDB_txn* txn = snapshot->get();
  const auto state = reader::state(txn, environment_.tables());
  if (!state) {
    return fail(state.error().clone());
  }
  state_ = *state;
  shared_.current = state_.revision;
  shared_.compacted = state_.compacted;
  subscribers_.publish(state_.revision, nullptr);
  MDB_val key = to_val("marks");
  MDB_val value{};
  const int code = mdb_get(txn, environment_.tables().meta, &key, &value);
  marks_.load(code == 0 ? to_view(value) : std::string_view(), state_.revision);
  handover_.begin(txn, environment_.tables());
  if (auto opened = open_books(txn); !opened) {
    return opened;
  }
  bound_ = state_.compacted;
  compacting_ = bound_ > 0;  // the last process may have left rows
  if (reader::row_count(txn, environment_.tables().log) > params_.history_events) {
    tick_at_ = Clock::now() + params_.compaction_interval;
  }
  thread_ = std::thread([this] { run(); });
  return {};
}

/// As the table has them; where it is of another time, counted anew, and kept from the first
/// transaction on.
Expected<void> Writer::open_books(MDB_txn* txn) {
  if (!books_.is_open()) {
    return {};
  }
  if (!params_.recount) {
    return load_books(txn, state_.revision);
  }
  books_due_ = true;
  if (auto counted = book_table::count(txn, environment_.tables(), books_); !counted) {
    return counted;
  }
  auto write = begin();
  if (!write) {
    return fail(std::move(write).error());
  }
  int code = save_books(*write, state_.revision);
  if (code != 0) {
    mdb_txn_abort(*write);
  } else {
    code = finish(*write);
  }
  if (code != 0) {
    return fail(lmdb_error(code, "books"));
  }
  books_due_ = false;
  return {};
}

Expected<void> Writer::load_books(MDB_txn* txn, Revision revision) {
  const auto loaded = book_table::load(txn, environment_.tables(), revision, books_);
  if (!loaded) {
    return fail(loaded.error().clone());
  }
  books_due_ = !*loaded;
  return *loaded ? Expected<void>() : book_table::count(txn, environment_.tables(), books_);
}

int Writer::save_books(MDB_txn* txn, Revision revision) {
  if (!books_.is_open()) {
    return 0;
  }
  return books_due_ ? book_table::save_all(txn, environment_.tables(), books_, revision)
                    : book_table::save(txn, environment_.tables(), books_, revision);
}

void Writer::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    wake_.notify_all();
  }
  if (thread_.joinable()) {
    thread_.join();
  }
}

void Writer::commit(std::vector<Op> ops, CommitCallback done) {
  Item item{std::move(ops), std::move(done), sizeof(Item), std::nullopt};
  if (auto valid = check_transaction(item.ops, params_.limits); !valid) {
    item.refused = std::move(valid).error();
  }
  for (const Op& op : item.ops) {
    item.bytes += sizeof(Op) + op.key.size() + op.value.size();
  }
  {
    const std::lock_guard lock(mutex_);
    if (!stopping_) {
      if (!item.refused &&
          (queue_accepted_ >= params_.queue_transactions ||
           (queue_accepted_ > 0 && queue_bytes_ + item.bytes > params_.queue_bytes))) {
        item.refused = Error(Errc::kOverloaded, "the store's queue of writes is full");
      }
      if (item.refused) {
        item.ops.clear();
        item.bytes = 0;
      } else {
        ++queue_accepted_;
        queue_bytes_ += item.bytes;
      }
      queue_.push_back(std::move(item));
      if (queue_.size() == 1) {
        wake_.notify_all();
      }
      return;
    }
  }
  if (item.done) {
    item.done(fail(Errc::kClosed));
  }
}

void Writer::compact(Revision revision) {
  const std::lock_guard lock(mutex_);
  compact_request_ = std::max(compact_request_, std::min(revision, shared_.current.load()));
  wake_.notify_all();
}

void Writer::compact_now_for_test() {
  std::unique_lock lock(mutex_);
  const std::uint64_t ticket = ++tick_asked_;
  wake_.notify_all();
  compacted_.wait(lock, [&] { return tick_done_ >= ticket || stopping_; });
}

std::size_t Writer::queued() const {
  const std::lock_guard lock(mutex_);
  return queue_.size();
}

Expected<void> Writer::health() const {
  const std::lock_guard lock(health_mutex_);
  if (health_) {
    return fail(health_->clone());
  }
  return {};
}

void Writer::set_unhealthy(const Error& error) {
  probe_at_ = Clock::now() + params_.retry;
  const std::lock_guard lock(health_mutex_);
  if (!health_) {
    log_error("store cannot write",
              {{"directory", params_.directory}, {"error", error.to_string()}});
  }
  health_ = error.clone();
}

void Writer::set_healthy() {
  if (probe_at_) {
    probe_at_.reset();
    const std::lock_guard lock(health_mutex_);
    health_.reset();
    log_info("store writes again", {{"directory", params_.directory}});
  }
}

void Writer::wait_for_work(std::unique_lock<std::mutex>& lock) {
  while (!stopping_ && queue_.empty() && compact_request_ <= bound_ && tick_asked_ == tick_done_) {
    std::optional<TimePoint> until;
    const auto consider = [&until](const std::optional<TimePoint>& at) {
      if (at && (!until || *at < *until)) {
        until = at;
      }
    };
    if (compacting_) {
      if (!compact_retry_at_) {
        return;
      }
      consider(compact_retry_at_);
    }
    consider(tick_at_);
    consider(probe_at_);
    consider(handover_.is_told() ? std::optional(Clock::now() + OwnersHandover::kLook)
                                 : std::nullopt);
    if (!until) {
      wake_.wait(lock);
    } else if (wake_.wait_until(lock, *until) == std::cv_status::timeout) {
      return;
    }
  }
}

Writer::Items Writer::take_group() {
  Items items;
  std::size_t bytes = 0;
  while (!queue_.empty() && items.size() < kGroupTransactions && bytes < kGroupBytes) {
    Item& next = queue_.front();
    bytes += next.bytes;
    queue_bytes_ -= next.bytes;
    queue_accepted_ -= next.refused ? 0 : 1;
    items.push_back(std::move(next));
    queue_.pop_front();
  }
  return items;
}

void Writer::run() {
  ::pthread_setname_np(::pthread_self(), "store-writer");
  std::unique_lock lock(mutex_);
  while (true) {
    wait_for_work(lock);
    if (stopping_) {
      break;
    }
    const std::uint64_t ticket = tick_asked_;
    const bool tick = ticket > tick_done_;
    const Revision request = compact_request_;
    Items items = take_group();
    lock.unlock();
    turn(std::move(items), request, tick);
    lock.lock();
    if (!compacting_ || compact_retry_at_) {
      tick_done_ = ticket;
      compacted_.notify_all();
    }
  }
  compacted_.notify_all();
  while (!queue_.empty()) {
    Items items = take_group();
    lock.unlock();
    answer_all(items, 0, items.size(), Error(Errc::kClosed));
    lock.lock();
  }
}

void Writer::turn(Items items, Revision compact_request, bool tick) {
  const TimePoint now = Clock::now();
  if (compact_request > bound_) {
    bound_ = compact_request;
    compacting_ = true;
  }
  if (tick || (tick_at_ && *tick_at_ <= now)) {
    start_automatic_compaction();
  }
  if (compacting_ && (!compact_retry_at_ || *compact_retry_at_ <= now)) {
    compact_slice();
  }
  if (!items.empty()) {
    commit_group(items, 0, items.size());
  }
  if (items.empty() && handover_.is_told()) {
    look_for_handover();
  }
  if (probe_at_ && *probe_at_ <= now) {
    probe();
  }
}

/// Where nothing is written that would come upon it.
void Writer::look_for_handover() {
  bool is_news = false;
  if (auto snapshot = environment_.read(); snapshot) {
    is_news = handover_.is_news(snapshot->get(), environment_.tables());
  }
  if (auto txn = is_news ? begin() : fail(Errc::kOk)) {
    (void)finish(*txn);
  }
}

Expected<MDB_txn*> Writer::begin() {
  while (true) {
    auto txn = begin_now();
    if (!txn) {
      return txn;
    }
    const auto look = handover_.look(*txn, environment_.tables(), Clock::now());
    if (look == OwnersHandover::Look::kFree) {
      return txn;
    }
    if (look != OwnersHandover::Look::kStop) {
      mdb_txn_abort(*txn);
      return fail(Errc::kUnavailable, look ? "the store has moved" : "the store cannot be written");
    }
    if (const int code = finish(*txn); code != 0) {
      return fail(lmdb_error(code, "stop"));
    }
    std::unique_lock lock(mutex_);
    if (wake_.wait_for(lock, kStopPoll, [this] { return stopping_; })) {
      return fail(Errc::kClosed);
    }
  }
}

Expected<MDB_txn*> Writer::begin_now() {
  MDB_txn* txn = nullptr;
  int code = broken_ ? MDB_PANIC : mdb_txn_begin(environment_.get(), nullptr, 0, &txn);
  if (code == MDB_PANIC) {
    broken_ = true;
    if (auto opened = environment_.reopen(); !opened) {
      return fail(std::move(opened).error());
    }
    broken_ = false;
    code = mdb_txn_begin(environment_.get(), nullptr, 0, &txn);
  }
  if (code != 0) {
    return fail(lmdb_error(code, "begin"));
  }
  const auto state = reader::state(txn, environment_.tables());
  if (!state) {
    mdb_txn_abort(txn);
    return fail(state.error().clone());
  }
  // A commit that LMDB reported as failed may have reached the disk after all.
  if (state->revision > state_.revision) {
    catch_up(state->revision);
    if (auto loaded = books_.is_open() ? load_books(txn, state->revision) : Expected<void>();
        !loaded) {
      mdb_txn_abort(txn);
      return fail(std::move(loaded).error());
    }
  }
  shared_.compacted = state->compacted;
  state_ = *state;
  return txn;
}

void Writer::catch_up(Revision revision) {
  std::vector<Event> events;
  auto snapshot = environment_.read();
  if (snapshot) {
    auto changes =
        reader::changes(snapshot->get(), environment_.tables(), {revision, state_.compacted}, {},
                        state_.revision, std::numeric_limits<std::size_t>::max());
    if (changes) {
      events = std::move(changes->events);
    } else {
      log_error("store lost events of an interrupted commit",
                {{"directory", params_.directory}, {"error", changes.error().to_string()}});
    }
  }
  publish(revision, std::move(events));
}

int Writer::finish(MDB_txn* txn) {
  int code = params_.commit_fault_for_test ? params_.commit_fault_for_test(false) : 0;
  if (code != 0) {
    mdb_txn_abort(txn);
  } else {
    code = mdb_txn_commit(txn);
    if (code == 0) {
      ++shared_.syncs;
      code = params_.commit_fault_for_test ? params_.commit_fault_for_test(true) : 0;
    }
  }
  broken_ = broken_ || code == MDB_PANIC;
  if (code == EIO && environment_.disk_is_full()) {
    code = ENOSPC;
  }
  return code;
}

int Writer::save_state(MDB_txn* txn, const layout::State& state, bool with_marks) {
  const std::string record = layout::encode_state(state);
  MDB_val key = to_val("state");
  MDB_val value = to_val(record);
  int code = mdb_put(txn, environment_.tables().meta, &key, &value, 0);
  if (code == 0 && with_marks) {
    const std::string marks = marks_.record();
    key = to_val("marks");
    value = to_val(marks);
    code = mdb_put(txn, environment_.tables().meta, &key, &value, 0);
  }
  return code;
}

void Writer::commit_group(Items& items, std::size_t from, std::size_t to) {
  auto txn = begin();
  if (!txn) {
    set_unhealthy(txn.error());
    answer_all(items, from, to, txn.error());
    return;
  }
  Group group(*txn, environment_.tables(), state_, params_.map_limit, books_);
  std::vector<Expected<CommitResult>> answers;
  answers.reserve(to - from);
  bool full = false;
  for (std::size_t i = from; i < to && group.failed() == 0; ++i) {
    answers.push_back(items[i].refused ? fail(items[i].refused->clone())
                                       : group.apply(items[i].ops));
    full = full || (!answers.back() && answers.back().error().code() == Errc::kFull);
  }
  int code = group.failed();
  const bool changed = group.state().revision != state_.revision;
  if (code == 0 && changed) {
    code = save_state(*txn, group.state(), marks_.sample(state_.revision));
    code = code != 0 ? code : save_books(*txn, group.state().revision);
  }
  if (code != 0 || !changed) {
    mdb_txn_abort(*txn);
  } else {
    const TimePoint begin = Clock::now();
    code = finish(*txn);
    if (code == 0 && !params_.no_sync) {
      store_totals().committed(group.commits(), Clock::now() - begin);
    }
  }
  if (code != 0) {
    books_.drop();
  }
  if (too_big(code) && to - from > 1) {
    const std::size_t middle = from + (to - from) / 2;
    commit_group(items, from, middle);
    commit_group(items, middle, to);
    return;
  }
  if (code != 0) {
    const Error error = lmdb_error(code, "commit");
    if (error.code() != Errc::kInvalid) {
      store_totals().failed();
      set_unhealthy(error);
    }
    answer_all(items, from, to, error);
    return;
  }
  if (changed) {
    books_.publish();
    books_due_ = false;
    shared_.commits += group.commits();
    publish(group.state().revision, std::move(group.events()));
    state_ = group.state();
    if (!tick_at_) {
      tick_at_ = Clock::now() + params_.compaction_interval;
    }
  }
  if (full) {
    set_unhealthy(Error(Errc::kFull, "the store has reached its size limit"));
  } else if (changed) {
    set_healthy();
  }
  for (std::size_t i = from; i < to; ++i) {
    Expected<CommitResult>& answer = answers[i - from];
    shared_.conflicts += answer && answer->conflict ? 1U : 0U;
    if (items[i].done) {
      items[i].done(std::move(answer));
    }
  }
}

void Writer::publish(Revision revision, std::vector<Event> events) {
  shared_.raise_current(revision);
  subscribers_.publish(revision, std::make_shared<const std::vector<Event>>(std::move(events)));
}

void Writer::answer_all(Items& items, std::size_t from, std::size_t to, const Error& error) {
  for (std::size_t i = from; i < to; ++i) {
    if (items[i].done) {
      items[i].done(fail(items[i].refused ? items[i].refused->clone() : error.clone()));
    }
  }
}

void Writer::start_automatic_compaction() {
  marks_.sample(state_.revision);
  tick_at_.reset();
  auto snapshot = environment_.read();
  if (!snapshot) {
    tick_at_ = Clock::now() + params_.compaction_interval;
    return;
  }
  const Tables& tables = environment_.tables();
  Revision bound = compactor::automatic_bound(snapshot->get(), tables, marks_.old_revision(),
                                              params_.history_events);
  if (bound > bound_) {  // who reads for long keeps what is from then on
    bound = std::min(bound, lowest_pin(params_.directory).value_or(bound));
  }
  if (bound > bound_) {
    bound_ = bound;
    compacting_ = true;
  }
  if (reader::row_count(snapshot->get(), tables.log) > params_.history_events) {
    tick_at_ = Clock::now() + params_.compaction_interval;
  }
}

void Writer::compact_slice() {
  auto txn = begin();
  Error error(Errc::kOk);
  if (!txn) {
    error = std::move(txn).error();
  } else {
    layout::State next = state_;
    next.compacted = std::max(next.compacted, bound_);
    int code = next.compacted > state_.compacted ? save_state(*txn, next, false) : 0;
    compactor::Slice slice;
    if (code == 0) {
      slice = compactor::drop_some(*txn, environment_.tables(), bound_);
      code = slice.code;
    }
    if (code != 0) {
      mdb_txn_abort(*txn);
    } else {
      code = finish(*txn);
    }
    if (code == 0) {
      state_ = next;
      shared_.compacted = next.compacted;
      compacting_ = slice.more;
      compact_retry_at_.reset();
      return;
    }
    error = lmdb_error(code, "compaction");
  }
  compact_retry_at_ = Clock::now() + params_.retry;
  set_unhealthy(error);
}

void Writer::probe() {
  probe_at_ = Clock::now() + params_.retry;
  auto txn = begin();
  if (!txn) {
    return;
  }
  const std::uint64_t spare = std::min(kProbeBytes, params_.map_limit / 16);
  if (reader::used_bytes(*txn, environment_.tables()) + spare > params_.map_limit ||
      save_state(*txn, state_, false) != 0) {
    mdb_txn_abort(*txn);
    return;
  }
  if (finish(*txn) == 0) {
    set_healthy();
  }
}

}  // namespace kintsugi::store
