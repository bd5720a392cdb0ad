// Timers, and when what is looked at (11.3).
#include <algorithm>
#include <utility>

#include "workers/messaging/pipeline/internal/pipeline_core.h"

namespace kintsugi::workers {

namespace {

constexpr std::int64_t kPageRows = 500, kQueuePage = 1000;
constexpr std::array<std::string_view, 3> kLinkColumns = {"name", "operStatus", "lastError"};
constexpr std::array<std::string_view, 3> kConnectorColumns = {"name", "connectionStatus",
                                                               "connectionMsg"};
constexpr Duration kScanRetry = seconds(1);
constexpr Duration kLookAfterBulk = seconds(1);  ///< and one more for each most_queried
constexpr std::uint8_t kNewFor = 3;  ///< looks at a link that come before those at older ones
constexpr int kTwentieth = 19;  ///< so many times as long it rests: 5 % of the component's time

bool is_walk(Question question) noexcept {
  return question == Question::kTable || question == Question::kStates ||
         question == Question::kQueueNames || question == Question::kAddressNames ||
         question == Question::kQueues;
}

}  // namespace

void PipelineCore::ask(Question question, EntityKind kind) {
  std::deque<Scan>& queue = is_walk(question) ? scans_ : questions_;
  const bool is_there = std::any_of(queue.begin(), queue.end(), [&](const Scan& one) {
    return one.question == question && one.kind == kind && one.round == 0 && !one.flying;
  });
  if (!is_there) {
    Scan scan;
    scan.question = question;
    scan.kind = kind;
    queue.push_back(scan);
  }
}

std::uint8_t PipelineCore::begin_round(EntityKind kind) noexcept {
  std::uint8_t& round = rounds_[static_cast<std::size_t>(kind)];
  round = static_cast<std::uint8_t>(round == 255 ? 1 : round + 1);
  return round;
}

bool PipelineCore::small_enough(EntityKind kind) const noexcept {
  std::int64_t rows = static_cast<std::int64_t>(present(kind));
  if (kind == EntityKind::kAutoLink) {
    rows = std::max(rows, router.auto_links);
  } else if (kind == EntityKind::kLinkRoute) {
    rows = std::max(rows, router.link_routes);
  }
  return rows <= static_cast<std::int64_t>(params_.most_queried);
}

ManagementRequest PipelineCore::question_request(const Scan& scan) const {
  switch (scan.question) {
    case Question::kNode:
      return broker_attribute("broker", "NodeID");
    case Question::kVersion:
      return broker_attribute("broker", "Version");
    case Question::kMemory:
      return broker_attribute("broker", "GlobalMaxSize");
    case Question::kTable:
      return query_request(router_type(scan.kind), {}, scan.offset, kPageRows);
    case Question::kStates:
      return query_request(router_type(scan.kind),
                           scan.kind == EntityKind::kConnector ? kConnectorColumns : kLinkColumns,
                           scan.offset, most_rows(kLinkColumns.size()));
    case Question::kQueueNames:
      return broker_call("broker", "getQueueNames", krm::Json::array());
    case Question::kAddressNames:
      return broker_call("broker", "getAddressNames", krm::Json::array());
    case Question::kQueues:
      return list_queues_request(scan.offset + 1, kQueuePage);
    case Question::kQueueCount:
      return list_queues_request(1, 1);
    case Question::kCounters:
    case Question::kNone:
      break;
  }
  return router_counters_request();
}

/// @param may_scan  walks too, not only what is asked at once.
std::optional<PipelineCore::Send> PipelineCore::next_question(TimePoint now, bool may_scan) {
  Scan scan;
  if (!may_scan) {
    if (questions_.empty()) {
      return std::nullopt;
    }
    scan = questions_.front();
    questions_.pop_front();
  } else {
    if (scans_.empty() || scans_.front().flying || now < scan_free_) {
      return std::nullopt;
    }
    Scan& front = scans_.front();
    if (is_agent_kind(front.kind) && params_.kind == ComponentKind::kRouter &&
        flights_.agents() >= params_.agent_window) {
      return std::nullopt;
    }
    if (front.round == 0) {
      const EntityKind kind =
          front.question == Question::kAddressNames ? EntityKind::kBrokerAddress : front.kind;
      front.round = begin_round(kind);
    }
    front.flying = true;
    scan = front;
  }
  Flight flight;
  flight.question = scan.question;
  flight.sent = now;
  flight.agent =
      is_walk(scan.question) && params_.kind == ComponentKind::kRouter && is_agent_kind(scan.kind);
  flight.link_changes = flights_.size() == 0 ? link_changes_ : ~std::uint64_t{0};
  Send out;
  out.request = question_request(scan);
  flight.operation = exchanges.operation(out.request);
  exchanges.sent();
  out.tag = flights_.add(std::move(flight));
  return out;
}

void PipelineCore::end_scan(TimePoint now) {
  if (!scans_.empty()) {
    scans_.pop_front();
  }
  if (scans_.empty() && !first_checks_done) {
    first_checks_done = true;
    facts_ = true;
  }
  if (scans_.empty() && pending == 0) {
    last_sync = now;
  }
}

void PipelineCore::scan_time(TimePoint sent, TimePoint now) {
  const bool is_wanted_soon =
      params_.kind == ComponentKind::kBroker || waiting_ >= params_.most_read || !first_checks_done;
  scan_free_ = now + (now - sent) * (is_wanted_soon ? 1 : kTwentieth);
}

TimePoint PipelineCore::next_checks(TimePoint wished, TimePoint now) {
  return params_.check_times == nullptr ? wished : params_.check_times->take(wished, now);
}

void PipelineCore::begin_sweep(TimePoint now) {
  sweeping_ = true;
  sweep_at_ = 0;
  sweep_filled_ = now;
  sweep_tokens_ = 1;
}

void PipelineCore::begin_checks(TimePoint now, bool with_sweep) {
  if (params_.kind == ComponentKind::kRouter) {
    for (const EntityKind kind : {EntityKind::kVhost, EntityKind::kConnector, EntityKind::kListener,
                                  EntityKind::kSslProfile}) {
      ask(Question::kTable, kind);
    }
    if (with_sweep) {
      tables_after_sweep_ = true;
      begin_sweep(now);
    }
    return;
  }
  ask(Question::kQueueNames, EntityKind::kQueue);
  ask(Question::kAddressNames, EntityKind::kBrokerAddress);
  ask(Question::kQueues, EntityKind::kQueue);
  read_settings();
}

void PipelineCore::everything_absent(Presence presence) {
  std::vector<std::uint32_t> order;
  order.reserve(table.size());
  for (ObjectId object = 0; object < table.objects(); ++object) {
    for (std::uint32_t at = table.find_object(object)->holds; at != kNoIndex;
         at = table.hold(at).next_of_object) {
      const std::uint32_t index = table.hold(at).entity;
      Entity& entity = table[index];
      if (entity.presence == Presence::kAbsent && !entity.settled) {
        continue;
      }
      set_presence(entity, presence);
      entity.applied = 0;
      entity.verify = entity.read = entity.checked = false;
      if (entity.activity == Activity::kResting) {
        entity.activity = Activity::kIdle;
      }
      if (entity.activity == Activity::kQueued) {
        rings_.remove(index);
      }
      disarm(entity);
      order.push_back(index);
    }
  }
  for (const std::uint32_t index : order) {
    touch(table[index]);
  }
  for (const std::uint32_t index : order) {
    if (table[index].is_used()) {
      reconsider(index);
    }
  }
}

bool PipelineCore::count_differs(std::optional<std::int64_t>& foreign, std::int64_t there,
                                 EntityKind kind) const noexcept {
  const std::int64_t others = there - static_cast<std::int64_t>(present(kind));
  const auto doubt = static_cast<std::int64_t>(unsure(kind));
  const bool out = foreign ? others < *foreign || others > *foreign + doubt : others < 0;
  if (doubt == 0 || out) {
    foreign = doubt == 0 ? std::optional(std::max<std::int64_t>(others, 0)) : std::nullopt;
  }
  return out;
}

/// Whether it is another process than that of which counters were known; it begins with nothing.
/// Uptimes are whole seconds, so two that ended young say the same: by the first counters of a
/// connection it may be another one when it may have begun after the last answer of the one before.
PipelineCore::Router PipelineCore::which_router(const RouterCounters& seen, TimePoint sent,
                                                TimePoint now) const noexcept {
  if (!knew_counters_) {
    return Router::kSame;
  }
  if (seen.uptime_seconds < router.uptime_seconds) {
    return Router::kAnother;
  }
  const Duration uptime = seconds(seen.uptime_seconds);
  const bool maybe = greeted ? sent - uptime - seconds(1) > booted_ : now - uptime > heard_before_;
  if (!maybe) {
    return Router::kSame;
  }
  const auto known =
      static_cast<std::int64_t>(present(EntityKind::kAutoLink) + present(EntityKind::kLinkRoute)) +
      foreign_links_.value_or(0) + foreign_routes_.value_or(0);
  if (seen.auto_links + seen.link_routes < known) {
    return Router::kAnother;
  }
  return known == 0 && !greeted ? Router::kMaybeAnother : Router::kSame;
}

void PipelineCore::on_counters(const RouterCounters& seen, const Flight& flight, TimePoint now) {
  const TimePoint boot = now - seconds(seen.uptime_seconds);
  const std::size_t own_links = present(EntityKind::kAutoLink);
  const std::size_t own_routes = present(EntityKind::kLinkRoute);
  const auto links_there = static_cast<std::size_t>(seen.auto_links + seen.link_routes);
  const Router which = which_router(seen, flight.sent, now);
  const bool restarted = which == Router::kAnother;
  const bool first = !greeted, first_ever = !knew_counters_;
  const bool resync = std::exchange(resync_, false);
  router = seen;
  booted_ = which != Router::kSame || first_ever ? boot : std::min(booted_, boot);
  knew_counters_ = greeted = true;
  facts_ = true;
  if (restarted || (first_ever && links_there == 0 && own_links + own_routes > 0)) {
    foreign_links_.reset();
    foreign_routes_.reset();
    sweeping_ = false;
    // One that has no links may be another process's half-done work.
    everything_absent(restarted ? Presence::kAbsent : Presence::kUnsure);
    first_checks_done = true;
    return;
  }
  if (which == Router::kMaybeAnother) {
    everything_absent(Presence::kUnsure);
  }
  if (first) {
    const bool has_any = table.size() > 0 && present_ != decltype(present_){};
    if (first_ever && links_there == 0) {
      if (has_any) {
        begin_sweep(now);
      }
      first_checks_done = true;
    } else {
      begin_checks(now, (first_ever && has_any) || resync);
    }
  }
  if (sweeping_ || flights_.size() > 0 || flight.link_changes != link_changes_) {
    return;
  }
  const bool links = count_differs(foreign_links_, seen.auto_links, EntityKind::kAutoLink);
  const bool routes = count_differs(foreign_routes_, seen.link_routes, EntityKind::kLinkRoute);
  if (links || routes) {
    begin_checks(now, true);
  }
}

void PipelineCore::question_answer(Flight& flight, const ManagementReply* reply, TimePoint now) {
  const bool walk = is_walk(flight.question);
  if (walk && (scans_.empty() || scans_.front().question != flight.question)) {
    return;
  }
  if (walk) {
    scans_.front().flying = false;
    scan_time(flight.sent, now);
  }
  const auto refused = [&](const Error& error) {
    exchanges.failed(now, "check", error.message(), 0);
    if (error.code() == Errc::kForbidden) {
      forbidden(error.message(), now);
    }
    if (walk) {
      end_scan(now);
    } else if (!greeted &&
               (flight.question == Question::kCounters || flight.question == Question::kVersion)) {
      counters_at_ = now + params_.retry_least;
    }
  };
  if (reply == nullptr) {
    if (walk) {
      scan_free_ = now + kScanRetry;
    } else if (!greeted) {
      ask(flight.question);
    }
    return;
  }
  if (trouble && trouble->reason == "BrokerFull" && now >= forbidden_until_ &&
      broker_value(*reply)) {
    clear_trouble();
  }
  switch (flight.question) {
    case Question::kCounters: {
      const Expected<RouterCounters> seen = router_counters(*reply);
      if (!seen) {
        refused(seen.error());
        return;
      }
      on_counters(*seen, flight, now);
      return;
    }
    case Question::kNode:
      on_node(*reply, now);
      return;
    case Question::kVersion:
    case Question::kMemory: {
      const Expected<krm::Json> value = broker_value(*reply);
      if (!value) {
        refused(value.error());
        return;
      }
      facts_ = true;
      if (flight.question == Question::kMemory) {
        if (!value->is_integer()) {
          refused(Error(Errc::kInvalid, "GlobalMaxSize is not a number"));
          return;
        }
        broker.global_max_size = value->as_integer();
        return;
      }
      broker.version = value->as_string();
      if (!is_supported_broker(broker.version)) {
        set_trouble("UnsupportedVersion", broker.version);
        return;
      }
      told_version_ = true;
      greet(now);
      return;
    }
    case Question::kTable:
    case Question::kStates: {
      const Expected<QueryPage> page = query_page(*reply);
      if (!page) {
        refused(page.error());
        return;
      }
      Scan& scan = scans_.front();
      router_page(scan, *page, now);
      const auto rows = static_cast<std::int64_t>(page->rows.size());
      const std::int64_t asked =
          scan.question == Question::kTable ? kPageRows : most_rows(kLinkColumns.size());
      scan.offset += rows;
      if (rows < asked) {
        if (scan.question == Question::kTable) {
          find_missing(scan.kind, scan.round);
        }
        end_scan(now);
      } else if (scan.offset >= static_cast<std::int64_t>(params_.most_queried)) {
        end_scan(now);
      }
      return;
    }
    case Question::kQueueNames:
    case Question::kAddressNames: {
      const Expected<krm::Json> value = broker_value(*reply);
      if (!value) {
        refused(value.error());
        return;
      }
      names_page(scans_.front(), *value);
      end_scan(now);
      return;
    }
    case Question::kQueues: {
      const Expected<QueuePage> page = list_queues_page(*reply);
      if (!page) {
        refused(page.error());
        return;
      }
      queues_page(scans_.front(), *page, now);
      return;
    }
    case Question::kQueueCount: {
      const Expected<QueuePage> page = list_queues_page(*reply);
      if (!page) {
        refused(page.error());
        return;
      }
      if (flights_.size() > 0 || flight.link_changes != link_changes_) {
        return;
      }
      if (count_differs(foreign_queues_, page->count, EntityKind::kQueue)) {
        ask(Question::kQueueNames, EntityKind::kQueue);
        ask(Question::kAddressNames, EntityKind::kBrokerAddress);
      }
      return;
    }
    case Question::kNone:
      return;
  }
}

std::optional<TimePoint> PipelineCore::next_timer() const noexcept {
  std::optional<TimePoint> out;
  const auto at = [&out](std::optional<TimePoint> due) {
    if (due && (!out || *due < *out)) {
      out = due;
    }
  };
  if (!timers_.empty()) {
    at(timers_.top().due);
  }
  if (!connected) {
    return out;
  }
  at(counters_at_);
  at(checks_at_);
  at(states_at_);
  // What next() held back, to be asked again.
  const auto later = [&](TimePoint due) {
    if (due > now_) {
      at(due);
    }
  };
  if (!scans_.empty() && !scans_.front().flying) {
    later(scan_free_);
  }
  if (!rings_.empty(Ring::kSettings) && flights_.settings() == 0) {
    later(settings_free_);
  }
  if ((!rings_.empty(Ring::kNewLooks) || !rings_.empty(Ring::kLooks) || relooking_) &&
      lookers_ == 0) {
    later(looks_free_);
  }
  if (forbidden_until_ > now_) {
    at(forbidden_until_);
  }
  if (sweeping_) {
    at(std::max(now_, sweep_filled_) +
       std::chrono::duration_cast<Duration>(
           std::chrono::duration<double>(1.0 / std::max(1.0, params_.sweep_per_second))) +
       std::chrono::microseconds(500));
  }
  return out;
}

void PipelineCore::on_timer(TimePoint now) {
  now_ = now;
  while (!timers_.empty() && timers_.top().due <= now) {
    const Timer timer = timers_.top();
    timers_.pop();
    Entity& entity = table[timer.entity];
    if (!entity.is_used() || entity.serial != timer.serial) {
      continue;
    }
    if (entity.activity == Activity::kResting) {
      entity.activity = Activity::kIdle;
      reconsider(timer.entity);
    } else if (entity.activity == Activity::kIdle && entity.settled && connected) {
      if (entity.waiting && waiting_ >= params_.most_read && has_bulk()) {
        const auto times = static_cast<std::int64_t>(1 + waiting_ / params_.most_queried);
        arm(timer.entity, now + kLookAfterBulk * times);  // what is being made comes first
      } else if (entity.waiting && waiting_ >= params_.most_read && small_enough(entity.kind)) {
        ask(Question::kStates, entity.kind);
        look_again(timer.entity, now);
      } else {
        rings_.push(entity.is_new ? Ring::kNewLooks : Ring::kLooks, timer.entity);
        entity.is_new = entity.is_new && entity.looks < kNewFor;
      }
    } else if (entity.activity == Activity::kIdle && entity.settled) {
      look_again(timer.entity, now);
    }
  }
  if (!connected || (trouble && (trouble->reason == "UnsupportedRouter" ||
                                 trouble->reason == "UnsupportedVersion"))) {
    counters_at_.reset();
    checks_at_.reset();
    states_at_.reset();
    return;
  }
  const bool is_router = params_.kind == ComponentKind::kRouter;
  if (counters_at_ && *counters_at_ <= now) {
    counters_at_ = now + params_.counters;
    if (is_router) {
      ask(Question::kCounters);
      if (greeted && present(EntityKind::kConnector) > 0) {
        ask(Question::kStates, EntityKind::kConnector);
      }
    } else {
      ask(greeted ? Question::kQueueCount : told_version_ ? Question::kNode : Question::kVersion);
      if (!greeted && !told_node_) {
        ask(Question::kNode);
      }
      if (broker.global_max_size == 0) {
        ask(Question::kMemory);
      }
    }
  }
  if (checks_at_ && *checks_at_ <= now) {
    checks_at_ = next_checks(now + params_.sweep, now);
    if (greeted && params_.resync_by_reconnect) {
      reconnect = true;
    } else if (greeted) {
      begin_checks(now, true);
    }
  }
  if (states_at_ && *states_at_ <= now) {
    states_at_ = now + params_.links;
    if (greeted && is_router) {
      const bool small =
          small_enough(EntityKind::kAutoLink) && small_enough(EntityKind::kLinkRoute);
      for (const EntityKind kind : {EntityKind::kAutoLink, EntityKind::kLinkRoute}) {
        if (small && present(kind) > 0) {
          ask(Question::kStates, kind);
        }
      }
      if (!small) {
        relooking_ = true;
        relook_at_ = 0;
      }
    }
  }
}

}  // namespace kintsugi::workers
