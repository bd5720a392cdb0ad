#include "workers/runtime/control/controller.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "base/time.h"
#include "base/trace.h"

namespace kintsugi::workers {
namespace {

/// Reconciles begun in one turn of the loop; the rest follows in the next ones.
constexpr std::size_t kPerTurn = 64;

}  // namespace

struct Controller::Run {
  explicit Run(net::Loop& loop) : deadline(loop) {}
  std::optional<KeyedQueue::Item> item;  // while it runs
  TimePoint begin{};
  net::Timer deadline;
  std::optional<Span> span;  ///< of a trace that is recorded
  net::Job job;
};

Controller::Controller(net::Loop& loop, Params params, Reconcile reconcile,
                       std::function<bool(const QueueKey&)> ours)
    : loop_(loop),
      params_(std::move(params)),
      reconcile_(std::move(reconcile)),
      ours_(std::move(ours)),
      queue_(params_.queue, params_.seed, loop.now()),
      timer_(loop) {}

Controller::~Controller() = default;

void Controller::add(const QueueKey& key, Priority priority) {
  (void)queue_.add(key, priority, loop_.now());
  wake();
}

void Controller::add_after(const QueueKey& key, Duration delay) {
  (void)queue_.add_after(key, delay, Priority::kRetry, loop_.now());
  wake();
}

void Controller::add_periodic(const QueueKey& key, Duration interval) {
  (void)queue_.add_periodic(key, interval, loop_.now());
  wake();
}

void Controller::set_pressure(bool pressure) {
  queue_.hold_initial(pressure);
  wake();
}

void Controller::set_waiting(bool waiting) {
  waiting_ = waiting;
  wake();
}

void Controller::drain(std::function<void()> idle) {
  queue_.shut_down();
  timer_.cancel();
  idle_ = std::move(idle);
  wake();
}

void Controller::each_running(const std::function<void(const QueueKey&)>& visit) const {
  for (const auto& run : runs_) {
    if (run->item) {
      visit(run->item->key);
    }
  }
}

void Controller::cut(const std::function<bool(const QueueKey&)>& which) {
  for (const auto& run : runs_) {
    if (run->item && which(run->item->key)) {
      run->job.end();
      finish(*run, Outcome::terminal());
    }
  }
}

void Controller::wake() {
  if (!woken_) {
    woken_ = true;
    loop_.post(alive_.guard([this] { pump(); }));
  }
}

void Controller::pump() {
  woken_ = false;
  const Alive::Guard alive = alive_.weak();
  pumping_ = true;
  for (std::size_t begun = 0; !waiting_ && running_ < params_.most; ++begun) {
    if (begun == kPerTurn) {
      pumping_ = false;
      wake();
      return;
    }
    const std::optional<KeyedQueue::Item> item = queue_.pop(loop_.now());
    if (!item) {
      break;
    }
    if (ours_ && !ours_(item->key)) {
      ++counts_.not_ours;
      (void)queue_.done(*item, Outcome::terminal(), loop_.now());
      continue;
    }
    start(*item);
    if (!alive) {
      return;
    }
  }
  pumping_ = false;
  arm();
  if (running_ == 0 && queue_.is_shut_down() && idle_) {
    std::exchange(idle_, nullptr)();
  }
}

void Controller::arm() {
  timer_.cancel();
  if (waiting_ || running_ == params_.most) {
    return;  // whoever ends looks again
  }
  if (const std::optional<TimePoint> next = queue_.next_timer()) {
    timer_.start(std::max<Duration>(*next - loop_.now(), milliseconds(1)), [this] { pump(); });
  }
}

void Controller::start(const KeyedQueue::Item& item) {
  auto free = std::find_if(runs_.begin(), runs_.end(), [](const auto& run) { return !run->item; });
  if (free == runs_.end()) {
    free = runs_.insert(runs_.end(), std::make_unique<Run>(loop_));
  }
  Run& run = **free;
  run.item = item;
  run.begin = loop_.now();
  starting_ = item.priority;
  ++running_;
  run.deadline.start(params_.deadline, [this, &run] {
    ++counts_.timeouts;
    run.job.end();
    finish(run, Outcome::error());
  });
  std::optional<TraceParent> trace;
  if (is_tracing()) {
    trace = begin_span(run);
  }
  run.job = net::Job(work(run), trace);
}

std::optional<TraceParent> Controller::begin_span(Run& run) const {
  const TraceId trace = new_trace_id();
  run.span.reset();
  if (!is_in_share(trace, trace_share())) {
    return std::nullopt;
  }
  Span& span = run.span.emplace();
  span.trace = trace;
  span.id = new_span_id();
  span.kind = SpanKind::kConsumer;
  span.name = "reconcile " + params_.name;
  span.begin = unix_microseconds();
  const QueueKey& key = run.item->key;
  span.attributes.emplace_back("kintsugi.cluster", std::string(key.cluster));
  span.attributes.emplace_back("k8s.namespace.name", std::string(key.ns));
  span.attributes.emplace_back("kintsugi.object", std::string(key.name));
  return TraceParent{span.trace, span.id, true};
}

void Controller::end_span(Run& run, const Outcome& outcome) {
  Span& span = *run.span;
  span.end = unix_microseconds();
  const bool failed =
      outcome.kind == Outcome::Kind::kError || outcome.kind == Outcome::Kind::kTerminal;
  span.fault = failed ? "failed" : "";
  record_span(std::move(span));
  run.span.reset();
}

net::Task<> Controller::work(Run& run) {
  Outcome outcome = Outcome::error();
  bool thrown = true;
  std::string why;
  try {
    const QueueKey& key = run.item->key;
    Key own{std::string(key.cluster), std::string(key.ns), std::string(key.name)};
    net::Task<Outcome> reconciling = reconcile_(std::move(own));
    outcome = co_await reconciling;
    thrown = false;
  } catch (const std::exception& error) {
    why = error.what();
  } catch (...) {
    why = "an exception of unknown type";
  }
  if (thrown) {
    ++counts_.panics;
    log_warn("a reconciler threw an exception", {{"controller", params_.name},
                                                 {"cluster", run.item->key.cluster},
                                                 {"ns", run.item->key.ns},
                                                 {"name", run.item->key.name},
                                                 {"err", why}});
  }
  finish(run, outcome);
}

void Controller::finish(Run& run, const Outcome& outcome) {
  const double took = std::chrono::duration<double>(loop_.now() - run.begin).count();
  const auto bound =
      std::lower_bound(ControllerCounts::kBounds.begin(), ControllerCounts::kBounds.end(), took);
  ++counts_.times[static_cast<std::size_t>(bound - ControllerCounts::kBounds.begin())];
  counts_.seconds += took;
  switch (outcome.kind) {
    case Outcome::Kind::kDone:
    case Outcome::Kind::kPeriodic:
      ++counts_.success;
      break;
    case Outcome::Kind::kRequeueAfter:
      ++counts_.requeue_after;
      break;
    case Outcome::Kind::kError:
      ++counts_.error;
      break;
    case Outcome::Kind::kTerminal:
      ++counts_.terminal;
      break;
  }
  if (run.span) {
    end_span(run, outcome);
  }
  run.deadline.cancel();
  (void)queue_.done(*run.item, outcome, loop_.now());
  run.item.reset();
  --running_;
  if (!pumping_) {
    wake();  // in a later turn, when this run's coroutine has come to its end
  }
}

}  // namespace kintsugi::workers
