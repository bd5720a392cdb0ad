#include "workers/runtime/ring/internal/ring_node.h"

#include <algorithm>
#include <utility>

#include "workers/runtime/ring/let_go.h"

namespace kintsugi::workers {
namespace {

constexpr std::size_t kMaxRole = 32;

LeaseParams lease_params(const RingNodeParams& params, std::string name, std::int64_t floor) {
  LeaseParams out;
  out.name = std::move(name);
  out.identity = params.identity;
  out.duration = params.duration;
  out.renew = params.renew;
  out.give_up = params.give_up;
  out.retry = params.retry;
  out.request_timeout = params.request_timeout;
  out.epoch_floor = floor;
  out.seed = params.seed;
  return out;
}

LeaseParams member_params(const RingNodeParams& params) {
  return lease_params(params, member_lease_name(params.role, params.identity), 0);
}

LeaseParams coordinator_params(const RingNodeParams& params) {
  return lease_params(params, coordinator_lease_name(params.role), params.coordinator_epoch);
}

RingCoordinatorParams office_params(const RingNodeParams& params) {
  RingCoordinatorParams out;
  out.role = params.role;
  out.lease_duration = params.duration;
  out.retry = params.retry;
  out.request_timeout = params.request_timeout;
  out.over_limit = params.over_limit;
  out.known_epoch = params.partition_epoch;
  return out;
}

RingOp lease_op(RingOp::Channel channel, const std::string& name, LeaseAction&& action) {
  RingOp out;
  out.channel = channel;
  out.name = name;
  out.timeout = action.timeout;
  out.lease = std::move(action.write);
  switch (action.request) {
    case LeaseAction::Request::kCreate:
      out.kind = RingOp::Kind::kCreateLease;
      break;
    case LeaseAction::Request::kUpdate:
      out.kind = RingOp::Kind::kUpdateLease;
      break;
    case LeaseAction::Request::kNone:
    case LeaseAction::Request::kGet:
      out.kind = RingOp::Kind::kGetLease;
      break;
  }
  return out;
}

RingOp ring_op(RingRequest&& request, const RingNodeParams& params) {
  RingOp out;
  out.channel = RingOp::Channel::kRing;
  out.name = ring_name(params.role);
  out.timeout = params.request_timeout;
  switch (request.kind) {
    case RingRequest::Kind::kNone:
    case RingRequest::Kind::kReadRing:
      out.kind = RingOp::Kind::kGetRing;
      break;
    case RingRequest::Kind::kListLeases:
      out.kind = RingOp::Kind::kListLeases;
      out.name.clear();
      break;
    case RingRequest::Kind::kCreateRing:
    case RingRequest::Kind::kUpdateRing:
      out.kind = request.kind == RingRequest::Kind::kCreateRing ? RingOp::Kind::kCreateRing
                                                                : RingOp::Kind::kUpdateRing;
      out.body = ring_config_map(out.name, request.rv, request.table);
      break;
    case RingRequest::Kind::kDeleteLease:
      out.kind = RingOp::Kind::kDeleteLease;
      out.name = request.name;
      out.uid = request.uid;
      out.rv = request.rv;
      out.body = krm::Json::object({{"apiVersion", "v1"}, {"kind", "DeleteOptions"}});
      out.body.make({"preconditions", "uid"}) = request.uid;
      out.body.make({"preconditions", "resourceVersion"}) = request.rv;
      break;
  }
  return out;
}

// One action after another of the same step: a request or change of either is kept.
void join(LeaseAction& earlier, LeaseAction&& later) {
  if (later.request != LeaseAction::Request::kNone) {
    earlier.request = later.request;
    earlier.write = std::move(later.write);
    earlier.timeout = later.timeout;
  }
  if (later.change != LeaseAction::Change::kNone) {
    earlier.change = later.change;
  }
  earlier.wake = later.wake;
}

LeaseAction answer_lease(LeaseFsm& lease, RingAnswer&& answer, TimePoint now) {
  switch (answer.kind) {
    case RingAnswer::Kind::kOk:
      break;
    case RingAnswer::Kind::kMissing:
      return lease.on_missing(now);
    case RingAnswer::Kind::kConflict:
      return lease.on_conflict(now);
    case RingAnswer::Kind::kFailed:
      return lease.on_failed(answer.retry_after, now);
  }
  if (answer.leases.size() != 1) {
    return lease.on_failed(Duration::zero(), now);
  }
  return lease.looking() ? lease.on_found(std::move(answer.leases.front()), now)
                         : lease.on_written(std::move(answer.leases.front()), now);
}

}  // namespace

RingAnswer ring_answer(RingOp::Kind kind, int status, int retry_after, std::string_view body) {
  RingAnswer out;
  out.retry_after = seconds(std::clamp(retry_after, 0, 3'600));
  if (status == 404) {
    out.kind = RingAnswer::Kind::kMissing;
  } else if (status == 409 || status == 412) {
    out.kind = RingAnswer::Kind::kConflict;
  }
  if (status < 200 || status > 299) {
    return out;
  }
  if (kind == RingOp::Kind::kDeleteLease) {
    out.kind = RingAnswer::Kind::kOk;
    return out;
  }
  krm::Json::ParseOptions options;
  options.max_depth = 256;
  const Expected<krm::Json> object = krm::Json::parse(body, options);
  if (!object) {
    return out;
  }
  switch (kind) {
    case RingOp::Kind::kListLeases: {
      const krm::Json* items = object->find("items");
      if (items == nullptr || object->text({"metadata", "resourceVersion"}).empty()) {
        return out;  // RT-27: no valid list
      }
      for (krm::Json item : items->items()) {
        item["kind"] = "Lease";  // items of a list need not name it
        if (Expected<LeaseRecord> lease = parse_lease(item)) {
          out.leases.push_back(std::move(*lease));
        }
      }
      break;
    }
    case RingOp::Kind::kGetRing:
    case RingOp::Kind::kCreateRing:
    case RingOp::Kind::kUpdateRing:
      out.rv = object->text({"metadata", "resourceVersion"});
      out.text = ring_text(*object);
      if (out.rv.empty()) {
        return out;
      }
      break;
    default: {
      Expected<LeaseRecord> lease = parse_lease(*object);
      if (!lease) {
        return out;
      }
      out.leases.push_back(std::move(*lease));
      break;
    }
  }
  out.kind = RingAnswer::Kind::kOk;
  return out;
}

RingNode::RingNode(const RingNodeParams& params)
    : params_(params),
      member_lease_(member_params(params)),
      coordinator_lease_(coordinator_params(params)),
      member_(params.identity, params.partition_epoch),
      coordinator_(office_params(params)) {}

Expected<void> RingNode::validate(const RingNodeParams& params) {
  const bool plain = std::all_of(params.role.begin(), params.role.end(), [](char letter) {
    return (letter >= 'a' && letter <= 'z') || (letter >= '0' && letter <= '9') || letter == '-';
  });
  if (params.role.empty() || params.role.size() > kMaxRole || !plain) {
    return fail(Errc::kConfig, "ring: the role must be 1 to 32 of a-z, 0-9 and -");
  }
  if (params.over_limit <= Duration::zero()) {
    return fail(Errc::kConfig, "ring: over_limit must be above 0");
  }
  return workers::validate(member_params(params));
}

bool RingNode::may_send(const RingOp& op, TimePoint now) const noexcept {
  const bool reads = op.kind == RingOp::Kind::kGetLease || op.kind == RingOp::Kind::kListLeases ||
                     op.kind == RingOp::Kind::kGetRing;
  return op.channel != RingOp::Channel::kRing || reads || coordinator_lease_.may_write(now);
}

void RingNode::on_member_action(LeaseAction&& action, RingOutput& out, TimePoint now) {
  switch (action.change) {
    case LeaseAction::Change::kAcquired:
      member_.on_lease_held(member_lease_.uid(), now, out.events);
      break;
    case LeaseAction::Change::kLost:
    case LeaseAction::Change::kReleased:
      member_.on_lease_lost(out.events);
      break;
    case LeaseAction::Change::kNone:
    case LeaseAction::Change::kRaised:
      break;
  }
  member_wake_ = action.wake;
  if (action.request != LeaseAction::Request::kNone) {
    out.ops.push_back(
        lease_op(RingOp::Channel::kMember, member_lease_.params().name, std::move(action)));
  }
}

void RingNode::on_coordinator_action(LeaseAction&& action, RingOutput& out) {
  switch (action.change) {
    case LeaseAction::Change::kAcquired:
    case LeaseAction::Change::kRaised:
      coordinator_.elected(coordinator_lease_.epoch());
      break;
    case LeaseAction::Change::kLost:
    case LeaseAction::Change::kReleased:
      coordinator_.deposed();
      break;
    case LeaseAction::Change::kNone:
      break;
  }
  coordinator_wake_ = action.wake;
  if (action.request != LeaseAction::Request::kNone) {
    out.ops.push_back(lease_op(RingOp::Channel::kCoordinator, coordinator_lease_.params().name,
                               std::move(action)));
  }
}

// Nothing is started on the word of a Lease whose guard has passed while nobody looked.
RingOutput RingNode::begin(TimePoint now) {
  RingOutput out;
  on_member_action(member_lease_.on_timer(now), out, now);
  return out;
}

// Lets all machines see what the input changed.
RingOutput RingNode::finish(RingOutput&& out, TimePoint now) {
  on_member_action(member_lease_.on_timer(now), out, now);
  member_.on_timer(now, out.events);
  // Who is no member has no use for the office.
  LeaseAction office = coordinator_lease_.on_timer(now);
  if (leaving_) {
    if (!coordinator_lease_.done()) {
      join(office, coordinator_lease_.release(now));
    }
  } else if (member_lease_.holder()) {
    join(office, coordinator_lease_.start(now));
  }
  on_coordinator_action(std::move(office), out);
  const RingReport report = member_.report();
  if (report != reported_) {
    reported_ = report;
    const bool urgent = member_.report_urgent();
    LeaseAction action = member_lease_.annotate(kRingReportAnnotation, report.encode(), false, now);
    join(action,
         member_lease_.annotate(kRingAckAnnotation, std::to_string(report.ack), false, now));
    if (urgent) {
      join(action, member_lease_.hurry(now));
    }
    on_member_action(std::move(action), out, now);
  }
  if (member_.left() && !member_lease_.done()) {
    on_member_action(member_lease_.release(now), out, now);
  }
  RingRequest request = coordinator_.step(now);
  if (request.kind != RingRequest::Kind::kNone) {
    RingOp op = ring_op(std::move(request), params_);
    ring_op_ = op.kind;
    out.ops.push_back(std::move(op));
  }
  out.wake = std::min({member_wake_, coordinator_wake_, member_.wake(), coordinator_.wake()});
  out.left = leaving_ && member_lease_.done() && coordinator_lease_.done();
  return std::move(out);
}

RingOutput RingNode::start(TimePoint now) {
  RingOutput out;
  on_member_action(member_lease_.start(now), out, now);
  return finish(std::move(out), now);
}

RingOutput RingNode::on_timer(TimePoint now) { return finish({}, now); }

void RingNode::on_table_text(std::string_view text, TimePoint now, RingOutput& out) {
  if (const Expected<RingTable> table = RingTable::parse(text)) {
    // What cannot follow is in the report.
    (void)member_.on_table(*table, now, out.events);
  }
}

void RingNode::on_ring_answer(RingAnswer&& answer, TimePoint now) {
  using Refusal = RingCoordinatorFsm::Refusal;
  if (answer.kind == RingAnswer::Kind::kMissing && ring_op_ == RingOp::Kind::kGetRing) {
    coordinator_.on_ring_missing(now);
    return;
  }
  if (answer.kind != RingAnswer::Kind::kOk) {
    coordinator_.on_refused(answer.kind == RingAnswer::Kind::kConflict  ? Refusal::kConflict
                            : answer.kind == RingAnswer::Kind::kMissing ? Refusal::kMissing
                                                                        : Refusal::kFailed,
                            answer.retry_after, now);
    return;
  }
  switch (ring_op_) {
    case RingOp::Kind::kListLeases:
      coordinator_.on_list(answer.leases, now);
      break;
    case RingOp::Kind::kGetRing:
      coordinator_.on_ring_read(answer.rv, answer.text, now);
      break;
    case RingOp::Kind::kDeleteLease:
      coordinator_.on_lease_deleted(now);
      break;
    default:
      coordinator_.on_ring_written(answer.rv, now);
      break;
  }
}

RingOutput RingNode::on_answer(RingOp::Channel channel, RingAnswer answer, TimePoint now) {
  RingOutput out = channel == RingOp::Channel::kMember ? RingOutput() : begin(now);
  switch (channel) {
    case RingOp::Channel::kMember:
      on_member_action(answer_lease(member_lease_, std::move(answer), now), out, now);
      note_asked(member_lease_.annotation(kLetGoAnnotation), out);
      break;
    case RingOp::Channel::kCoordinator:
      on_coordinator_action(answer_lease(coordinator_lease_, std::move(answer), now), out);
      break;
    case RingOp::Channel::kRing: {
      const bool table = answer.kind == RingAnswer::Kind::kOk && !answer.text.empty();
      const std::string text = answer.text;
      on_ring_answer(std::move(answer), now);
      if (table) {
        on_table_text(text, now, out);
      }
      break;
    }
  }
  return finish(std::move(out), now);
}

RingOutput RingNode::on_lease_event(const LeaseRecord& lease, TimePoint now) {
  RingOutput out = begin(now);
  if (lease.name == coordinator_lease_.params().name) {
    on_coordinator_action(coordinator_lease_.on_observed(lease, now), out);
  } else {
    if (lease.name == member_lease_.params().name) {
      note_asked(lease.annotation(kLetGoAnnotation), out);  // renewing would find it later
    }
    coordinator_.on_lease_seen(lease, now);
  }
  return finish(std::move(out), now);
}

RingOutput RingNode::on_lease_deleted(std::string_view name, std::string_view uid, TimePoint now) {
  RingOutput out = begin(now);
  if (name == coordinator_lease_.params().name) {
    on_coordinator_action(coordinator_lease_.on_observed_deleted(now), out);
  } else {
    if (name == member_lease_.params().name && uid == member_lease_.uid()) {
      on_member_action(member_lease_.on_observed_deleted(now), out, now);
    }
    coordinator_.on_lease_gone_seen(name, uid, now);
  }
  return finish(std::move(out), now);
}

RingOutput RingNode::on_ring_event(std::string_view rv, std::string_view text, TimePoint now) {
  RingOutput out = begin(now);
  coordinator_.on_ring_seen(rv, text, now);
  on_table_text(text, now, out);
  return finish(std::move(out), now);
}

RingOutput RingNode::on_ring_deleted(TimePoint now) {
  coordinator_.on_ring_gone_seen();
  return finish({}, now);
}

RingOutput RingNode::on_drained(PartitionId partition, TimePoint now) {
  RingOutput out = begin(now);
  member_.on_drained(partition, now, out.events);
  return finish(std::move(out), now);
}

RingOutput RingNode::on_peer_epoch(PartitionId partition, std::uint32_t epoch, TimePoint now) {
  member_.on_peer_epoch(partition, epoch);
  return finish({}, now);
}

RingOutput RingNode::set_weights(const std::array<std::uint32_t, kRingPartitions>& weights,
                                 TimePoint now) {
  coordinator_.set_weights(weights);
  return finish({}, now);
}

void RingNode::note_asked(std::string_view text, RingOutput& out) {
  if (text != asked_ && member_lease_.holder()) {
    asked_ = text;
    out.asked = asked_;
  }
}

RingOutput RingNode::let_gone(std::string_view text, TimePoint now) {
  RingOutput out = begin(now);
  on_member_action(member_lease_.annotate(kLetGoneAnnotation, text, true, now), out, now);
  return finish(std::move(out), now);
}

RingOutput RingNode::leave(TimePoint now) {
  RingOutput out = begin(now);
  leaving_ = true;
  member_.leave(now, out.events);
  return finish(std::move(out), now);
}

}  // namespace kintsugi::workers
