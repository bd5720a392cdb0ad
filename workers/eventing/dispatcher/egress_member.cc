#include "workers/eventing/dispatcher/egress_member.h"

#include <algorithm>
#include <utility>

#include "base/log.h"

namespace kintsugi::workers {
namespace {

constexpr Duration kCommitPause = milliseconds(100), kCommitAgain = seconds(1),
                   kCommitAnswer = seconds(5);
/// For deliveries of partitions that go to another member; others of the group wait for it.
constexpr Duration kHandOver = seconds(3);
constexpr Duration kClose = seconds(5);

std::size_t size_of(const KafkaRecord& record) {
  std::size_t out = sizeof(KafkaRecord) + record.key.value_or("").size();
  out += record.value ? record.value->size() : 0;
  for (const auto& [name, value] : record.headers) {
    out += name.size() + (value ? value->size() : 0);
  }
  return out;
}

}  // namespace

EgressMember::EgressMember(net::Loop& loop, const DispatcherSettings& settings,
                           DispatcherCounters& counters, KafkaConsumerParams params, bool ordered,
                           Hooks hooks)
    : loop_(loop),
      settings_(settings),
      counters_(counters),
      hooks_(std::move(hooks)),
      most_(ordered ? 1 : settings.in_flight),
      commit_timer_(loop),
      answer_timer_(loop),
      leave_timer_(loop),
      consumer_(
          loop, std::move(params),
          {[this](std::vector<KafkaRecord> records) { on_records(std::move(records)); },
           [this](const std::vector<KafkaPartition>& list) { on_assigned(list); },
           [this](const std::vector<KafkaPartition>& list, bool lost) { on_revoked(list, lost); },
           [this](const std::string& text, bool fatal) {
             ++counters_.kafka_errors;
             hooks_.on_error(text, fatal);
           },
           [this](const KafkaOffsets& taken, bool all) { on_committed(taken, all); },
           [this] { tell_end(); }}) {}

EgressMember::~EgressMember() {
  while (!assigned_.empty()) {
    drop(KafkaPartition(assigned_.begin()->first));
  }
}

std::vector<KafkaPartition> EgressMember::partitions() const {
  std::vector<KafkaPartition> out;
  for (const auto& [partition, assigned] : assigned_) {
    out.push_back(partition);
  }
  return out;
}

void EgressMember::on_assigned(const std::vector<KafkaPartition>& partitions) {
  for (const KafkaPartition& partition : partitions) {
    drop(partition);
    assigned_.emplace(partition, Assigned(most_));
  }
}

void EgressMember::on_records(std::vector<KafkaRecord> records) {
  for (KafkaRecord& record : records) {
    ++counters_.records;
    const KafkaPartition partition(record.topic, record.partition);
    const auto at = assigned_.find(partition);
    if (at == assigned_.end() || at->second.leaving) {
      continue;  // whose it is next gets it again
    }
    Assigned& assigned = at->second;
    if (!assigned.order.take(record.offset)) {
      ++counters_.repeated;
      continue;
    }
    const std::size_t size = size_of(record);
    assigned.bytes += size;
    counters_.queued_bytes += size;
    ++counters_.queued;
    assigned.waiting.emplace(record.offset, std::move(record));
    if (!assigned.paused &&
        (assigned.waiting.size() >= settings_.queued || assigned.bytes >= settings_.queued_bytes)) {
      assigned.paused = true;
      ++counters_.pauses;
      consumer_.pause(partition);
    }
  }
  pump();
}

void EgressMember::resume_if_low(const KafkaPartition& partition, Assigned& assigned) {
  if (assigned.paused && assigned.waiting.size() <= settings_.queued / 2 &&
      assigned.bytes <= settings_.queued_bytes / 2) {
    assigned.paused = false;
    consumer_.resume(partition);
  }
}

bool EgressMember::begin_one(const KafkaPartition& partition, Assigned& assigned) {
  if (assigned.leaving || !hooks_.may_begin()) {
    return false;
  }
  const auto offset = assigned.order.begin();
  if (!offset) {
    return false;
  }
  auto taken = assigned.waiting.extract(*offset);
  const std::size_t size = size_of(taken.mapped());
  assigned.bytes -= size;
  counters_.queued_bytes -= size;
  --counters_.queued;
  const auto terms = hooks_.terms();
  CloudEvent event = event_of(std::move(taken.mapped()), terms->resource, terms->egress);
  if (!passes_filters(terms->egress, event)) {
    ++counters_.outcomes[static_cast<std::size_t>(DeliveryOutcome::kFiltered)];
    assigned.order.finish(*offset);
    commit_later(kCommitPause);
  } else {
    auto delivery =
        std::make_unique<Delivery>(loop_, terms, partition.first, std::move(event), counters_,
                                   [this, partition, offset = *offset](const Delivery::End& end) {
                                     finish(partition, offset, end);
                                   });
    ++counters_.in_flight;
    hooks_.on_begun();
    delivery->begin();
    assigned.under_way.emplace(*offset, std::move(delivery));
  }
  resume_if_low(partition, assigned);
  return true;
}

void EgressMember::pump() {
  if (std::exchange(pumping_, true)) {
    return;
  }
  for (bool begun = true; begun;) {
    begun = false;
    for (auto& [partition, assigned] : assigned_) {
      begun = begin_one(partition, assigned) || begun;
    }
  }
  pumping_ = false;
}

void EgressMember::finish(const KafkaPartition& partition, std::int64_t offset,
                          const Delivery::End& end) {
  ++counters_.outcomes[static_cast<std::size_t>(end.outcome)];
  if (end.outcome == DeliveryOutcome::kSkipped) {
    log_warn("record skipped: nobody has taken it", {{"egress", hooks_.terms()->egress.uid},
                                                     {"partition", partition_text(partition)},
                                                     {"offset", offset},
                                                     {"why", end.why}});
  }
  --counters_.in_flight;
  Assigned& assigned = assigned_.at(partition);  // what is under way keeps it
  assigned.order.finish(offset);
  assigned.under_way.erase(offset);
  commit_later(kCommitPause);
  leave_if_done();
  hooks_.on_finished();
}

void EgressMember::drop_waiting(Assigned& assigned) {
  counters_.queued -= assigned.waiting.size();
  counters_.queued_bytes -= assigned.bytes;
  assigned.waiting.clear();
  assigned.bytes = 0;
}

void EgressMember::drop(const KafkaPartition& partition) {
  const auto at = assigned_.find(partition);
  if (at == assigned_.end()) {
    return;
  }
  drop_waiting(at->second);
  const std::size_t count = at->second.under_way.size();
  counters_.abandoned += count;
  counters_.in_flight -= count;
  assigned_.erase(at);
  for (std::size_t i = 0; i < count; ++i) {
    hooks_.on_finished();
  }
}

void EgressMember::commit_later(Duration pause) {
  if (!std::exchange(commit_pending_, true)) {
    commit_timer_.start(pause, [this] { commit(); });
  }
}

void EgressMember::on_committed(const KafkaOffsets& taken, bool all) {
  ++(all ? counters_.commits : counters_.failed_commits);
  for (const auto& [partition, offset] : taken) {
    if (const auto at = assigned_.find(partition); at != assigned_.end()) {
      at->second.order.committed(offset);
    }
  }
  if (!all && !closing_) {
    commit_again();
    commit_later(kCommitAgain);
  }
}

void EgressMember::commit_again() {
  for (auto& [partition, assigned] : assigned_) {
    assigned.order.commit_again();
  }
}

void EgressMember::commit() {
  commit_pending_ = false;
  commit_timer_.cancel();
  if (consumer_.is_joining() && !closing_) {
    commit_later(kCommitPause);
    return;
  }
  KafkaOffsets offsets;
  for (auto& [partition, assigned] : assigned_) {
    if (const auto offset = assigned.order.take_commit()) {
      offsets.emplace_back(partition, *offset);
    }
  }
  if (!offsets.empty()) {
    consumer_.commit(offsets);
    if (!std::exchange(answer_pending_, true)) {
      answer_timer_.start(kCommitAnswer, [this] { look_for_answers(); });
    }
  }
}

/// Of commits some are never answered, such as those on their way when the coordinator moves.
void EgressMember::look_for_answers() {
  answer_pending_ = false;
  const bool all = std::all_of(assigned_.begin(), assigned_.end(),
                               [](const auto& one) { return one.second.order.all_committed(); });
  if (!all && !closing_) {
    commit_again();
    commit();
  }
}

void EgressMember::on_revoked(const std::vector<KafkaPartition>& partitions, bool lost) {
  if (lost) {
    for (const KafkaPartition& partition : partitions) {
      drop(partition);
    }
    consumer_.release();
    return;
  }
  for (const KafkaPartition& partition : partitions) {
    if (const auto at = assigned_.find(partition); at != assigned_.end()) {
      at->second.leaving = true;
      drop_waiting(at->second);
    }
  }
  revoking_ = true;
  if (!closing_ && !stops()) {
    leave_timer_.start(kHandOver, [this] { give_up_leaving(); });
  }
  leave_if_done();
}

void EgressMember::leave_if_done() {
  const bool busy = std::any_of(assigned_.begin(), assigned_.end(), [](const auto& one) {
    return one.second.leaving && !one.second.under_way.empty();
  });
  if (busy && !closing_) {
    return;
  }
  if (stops() && !closing_) {
    return close();
  }
  if (!std::exchange(revoking_, false)) {
    return;
  }
  commit();
  std::vector<KafkaPartition> gone;
  for (const auto& [partition, assigned] : assigned_) {
    if (assigned.leaving) {
      gone.push_back(partition);
    }
  }
  for (const KafkaPartition& partition : gone) {
    drop(partition);
  }
  if (!closing_) {
    leave_timer_.cancel();
  }
  consumer_.release();
}

void EgressMember::give_up_leaving() {
  commit();
  for (auto& [partition, assigned] : assigned_) {
    if (assigned.leaving) {
      counters_.abandoned += assigned.under_way.size();
      counters_.in_flight -= assigned.under_way.size();
      for (std::size_t i = assigned.under_way.size(); i > 0; --i) {
        hooks_.on_finished();
      }
      assigned.under_way.clear();
    }
  }
  leave_if_done();
}

void EgressMember::stop(std::function<void()> done) {
  done_ = std::move(done);
  for (auto& [partition, assigned] : assigned_) {
    assigned.leaving = true;
    drop_waiting(assigned);
  }
  leave_timer_.start(settings_.drain, [this] { give_up_leaving(); });
  leave_if_done();
}

void EgressMember::close() {
  closing_ = true;
  commit();
  if (std::exchange(revoking_, false)) {
    consumer_.release();
  }
  consumer_.close();
  leave_timer_.start(kClose, [this] {
    log_warn("a consumer has not left its group in time", {});
    tell_end();
  });
}

void EgressMember::tell_end() {
  leave_timer_.cancel();
  loop_.post(alive_.guard([this] {
    if (const auto done = std::exchange(done_, nullptr)) {
      done();
    }
  }));
}

}  // namespace kintsugi::workers
