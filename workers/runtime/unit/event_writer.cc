#include "workers/runtime/unit/event_writer.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "krm/path_prefixes.h"

namespace kintsugi::workers {
namespace {

constexpr std::size_t kMostWritten = 4'096;  // events whose counts are kept

std::string events_path(const EventRecorder::Write& event) {
  std::string path = krm::cluster_root(event.cluster)
                         .append("/apis/events.k8s.io/v1/namespaces/")
                         .append(event.ns)
                         .append("/events");
  return event.create ? path : path.append("/").append(event.name);
}

}  // namespace

bool EventPace::may(bool warning, TimePoint now) {
  const auto refilled = (now - at_) / kRefill;
  if (refilled > 0) {
    tokens_ = std::min<std::int64_t>(kMost, tokens_ + static_cast<std::int64_t>(refilled));
    at_ = now;
  }
  return tokens_ > (warning ? 0 : kMost / 2);
}

EventWriter::EventWriter(Unit& unit, EventRecorder::Params params)
    : unit_(unit), events_(std::move(params), nullptr, unit.params().seed), counts_(unit.loop()) {}

void EventWriter::tell(const EventObject& about, const Tale& tale, const StepOf& step) {
  const TimePoint now = unit_.loop().now();
  if (!pace_.may(tale.warning, now)) {
    ++dropped_;
    return;
  }
  EventRecorder::Happening what;
  what.about = about;
  what.warning = tale.warning;
  what.reason = tale.reason;
  what.note = tale.note;
  if (std::optional<EventRecorder::Write> event = events_.record(what, now, unix_microseconds())) {
    pace_.take();
    if (written_.size() >= kMostWritten) {
      written_.clear();
    }
    written_.insert_or_assign(event->name, step);
    put(step, std::move(*event));
  }
  wait_for_counts(now);
}

void EventWriter::wait_for_counts(TimePoint now) {
  if (const std::optional<TimePoint> due = events_.next_timer()) {
    counts_.start(std::max<Duration>(*due - now, milliseconds(1)), [this] { put_counts(); });
  }
}

void EventWriter::put_counts() {
  const TimePoint now = unit_.loop().now();
  while (std::optional<EventRecorder::Write> count = events_.take_due(now)) {
    if (const auto of = written_.find(count->name); of != written_.end()) {
      put(of->second, std::move(*count));
    }
  }
  wait_for_counts(now);
}

void EventWriter::put(StepOf step, EventRecorder::Write event) {
  waiting_.push_back({std::move(step), std::move(event)});
  if (!std::exchange(sending_, true)) {
    job_ = net::Job(send());
  }
}

net::Task<> EventWriter::send() {
  while (!waiting_.empty()) {
    Waiting one = std::move(waiting_.front());
    waiting_.pop_front();
    ApiWrite write;
    write.method = one.event.create ? "POST" : "PATCH";
    write.path = events_path(one.event);
    write.body = std::move(one.event.body);
    write.kind = WriteKind::kObject;
    if (!one.event.create) {
      write.content_type = kMergePatch;
    }
    const Step step = one.step();
    net::Task<ApiAnswer> writing = unit_.write(step, std::move(write));
    const ApiAnswer answer = co_await writing;
    ++sent_;
    if (!answer.ok()) {
      events_.forget(one.event.cluster, one.event.ns, one.event.name);
      written_.erase(one.event.name);
    }
  }
  sending_ = false;
}

}  // namespace kintsugi::workers
