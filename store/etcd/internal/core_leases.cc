#include <utility>

#include "base/random.h"
#include "krm/json.h"
#include "store/etcd/internal/answer_class.h"
#include "store/etcd/internal/core.h"

// Duties: calls and events for the books of leases, and who is told.
namespace kintsugi::store::etcd {
namespace {

using krm::Json;

/// So that a renewal can be sent to another member before it is too late.
constexpr Duration kLeaseTimeout = milliseconds(500);
constexpr std::string_view kHolder = "holder";

std::string record_of(std::string_view holder) {
  return Json::object({{kHolder, Json(holder)}}).dump();
}

/// "": nobody, or what nobody of ours has written.
std::string holder_of(std::string_view record) {
  const auto json = Json::parse(record);
  return json ? std::string(json->text({kHolder})) : std::string();
}

}  // namespace

std::uint64_t Core::compete(std::string duty, DutyListener told) {
  const std::uint64_t number = ++next_number_;
  auto lease = std::make_unique<Lease>(loop_, replica_ + "-" + std::to_string(number));
  lease->duty = std::move(duty);
  lease->told = std::move(told);
  leases_.emplace(number, std::move(lease));
  on_lease_time(number);
  return number;
}

void Core::leave(std::uint64_t number, std::function<void()> done) {
  const auto found = leases_.find(number);
  if (found == leases_.end()) {
    done();
    return;
  }
  const std::unique_ptr<Lease> lease = std::move(found->second);
  leases_.erase(found);
  LeaseActions actions;
  lease->book.release(actions);
  if (actions.empty()) {
    done();
    return;
  }
  CallRequest request =
      request_of("KV/Txn", encode(lease_request(*lease, actions.front(), std::string_view())));
  request.timeout = kLeaseTimeout;
  leaving_[number] =
      client_.call(choice_.pick(now()), std::move(request),
                   [this, number, done = std::move(done)](const Reply&) {
                     done();
                     // Not in its own callback.
                     loop_.post(alive_.guard([this, number] { leaving_.erase(number); }));
                   });
}

TxnRequest Core::lease_request(const Lease& lease, const LeaseAction& action,
                               std::string_view holder) const {
  const std::string record = keys_.lease(lease.duty);
  const std::string epoch = keys_.epoch(lease.duty);
  const std::vector<TxnOp> both = {{TxnOp::Kind::kRead, record, {}, 0},
                                   {TxnOp::Kind::kRange, epoch, {}, 0}};
  TxnRequest request;
  if (action.kind == LeaseAction::Kind::kLook) {
    request.success = both;
    return request;
  }
  request.compares = {{epoch, action.at.epoch}};
  if (action.kind != LeaseAction::Kind::kRelease) {  // of which a renewal may be on its way
    request.compares.push_back({record, action.at.record});
  }
  request.success = {{TxnOp::Kind::kPut, record, record_of(holder), 0}};
  if (action.kind == LeaseAction::Kind::kTake) {
    request.success.push_back({TxnOp::Kind::kPut, epoch, lease.book.self(), 0});
  }
  request.failure = both;
  return request;
}

void Core::perform(std::uint64_t number, LeaseActions actions) {
  for (LeaseAction& action : actions) {
    const auto found = leases_.find(number);
    if (found == leases_.end()) {
      return;
    }
    switch (action.kind) {
      case LeaseAction::Kind::kHeld:
        tell_held(number, action.at.epoch);
        break;
      case LeaseAction::Kind::kLost:
        if (std::exchange(found->second->is_told, false)) {
          found->second->told(std::nullopt);
        }
        break;
      default:
        ask_lease(number, *found->second, action);
        break;
    }
  }
  if (const auto found = leases_.find(number); found != leases_.end()) {
    Lease& lease = *found->second;
    if (const auto next = lease.book.next_time()) {
      lease.timer.start(std::max<Duration>(*next - now(), Duration(0)),
                        [this, number] { on_lease_time(number); });
    } else {
      lease.timer.cancel();
    }
  }
}

void Core::ask_lease(std::uint64_t number, Lease& lease, const LeaseAction& action) {
  CallRequest request =
      request_of("KV/Txn", encode(lease_request(lease, action, lease.book.self())));
  request.timeout = kLeaseTimeout;
  const std::size_t member = choice_.pick(now());
  const bool looks = action.kind == LeaseAction::Kind::kLook;
  lease.call =
      client_.call(member, std::move(request), [this, number, member, looks](const Reply& reply) {
        note(member, reply);
        on_lease_reply(number, looks, reply);
      });
}

void Core::on_lease_reply(std::uint64_t number, bool looks, const Reply& reply) {
  const auto found = leases_.find(number);
  if (found == leases_.end()) {
    return;
  }
  Lease& lease = *found->second;
  const std::unique_ptr<net::Call> call = std::move(lease.call);
  LeaseActions actions;
  TxnResponse response;
  if (reply.status && classify(*reply.status).renew_token) {
    renew_token();
  }
  if (!reply.ok() || !decode(reply.message, response) || response.header.revision == 0) {
    lease.book.on_failed(now(), actions);
  } else if (!looks && response.succeeded) {
    lease.book.on_written(response.header.revision, now(), actions);
  } else if (response.ranges.size() != 2) {
    lease.book.on_failed(now(), actions);
  } else {
    LeaseRecord record;
    if (const auto& kvs = response.ranges[0].kvs; !kvs.empty()) {
      record.record = kvs.front().mod_revision;
      record.holder = holder_of(kvs.front().value);
    }
    if (const auto& kvs = response.ranges[1].kvs; !kvs.empty()) {
      record.epoch = kvs.front().mod_revision;
    }
    lease.book.on_found(std::move(record), now(), actions);
  }
  perform(number, std::move(actions));
}

/// Not before reads show what the one before has written.
void Core::tell_held(std::uint64_t number, std::uint64_t epoch) {
  const std::uint64_t waiting = ++next_number_;
  syncs_.emplace(waiting, [this, number, epoch](const Expected<Revision>& done) {
    const auto found = leases_.find(number);
    if (found == leases_.end() || !found->second->book.is_held() ||
        found->second->book.fence() != epoch) {
      return;  // somebody else has it by now, or this process by another fence
    }
    if (!done) {
      tell_held(number, epoch);
      return;
    }
    found->second->is_told = true;
    found->second->told(Fence{found->second->duty, epoch + offset_});
  });
  SyncActions actions;
  sync_.add(waiting, epoch + offset_, now(), now() + params_.synchronize_timeout, actions);
  perform(std::move(actions));
  arm();
}

void Core::on_lease_time(std::uint64_t number) {
  LeaseActions actions;
  leases_.find(number)->second->book.on_time(now(), actions);
  perform(number, std::move(actions));
}

void Core::on_lease_event(const JoinedEvent& event, std::uint64_t revision) {
  std::vector<std::uint64_t> numbers;
  for (const auto& [number, lease] : leases_) {
    numbers.push_back(number);
  }
  for (const std::uint64_t number : numbers) {
    const auto found = leases_.find(number);
    if (found == leases_.end()) {
      continue;
    }
    Lease& lease = *found->second;
    LeaseActions actions;
    if (event.key == keys_.lease(lease.duty) && !event.is_delete) {
      lease.book.on_record(revision, holder_of(event.value), now(), actions);
    } else if (event.key == keys_.epoch(lease.duty)) {
      lease.book.on_epoch(revision, now(), actions);
    }
    perform(number, std::move(actions));
  }
}

}  // namespace kintsugi::store::etcd
