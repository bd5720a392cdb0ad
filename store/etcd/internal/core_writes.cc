#include <algorithm>
#include <utility>

#include "base/log.h"
#include "store/etcd/internal/answer_class.h"
#include "store/etcd/internal/core.h"
#include "store/store_totals.h"

// Transactions: to etcd and back, and the seat under which they are written.
namespace kintsugi::store::etcd {
namespace {

constexpr Duration kSeatPause = milliseconds(50);
constexpr Duration kTokenPause = seconds(1);
/// No row's key: names of accounts with limits, of which one transaction is under way at a time.
constexpr char kAccountMark = '\x02';

bool is_plain_delete(const std::vector<Op>& ops) {
  return std::all_of(ops.begin(), ops.end(), [](const Op& op) {
    return op.only_expected || op.type == EventType::kDelete;
  });
}

}  // namespace

void Core::commit(std::vector<Op> ops, std::size_t bytes, CommitCallback done) {
  if (ended_) {
    --shared_.queued;
    shared_.queued_bytes -= bytes;
    done(fail(Errc::kUnavailable, kEndedHistory));
    return;
  }
  const std::uint64_t number = ++next_number_;
  Pending& pending = writes_[number];
  pending.ops = std::move(ops);
  pending.bytes = bytes;
  pending.since = now();
  pending.done = std::move(done);
  pending.id = ids_.next();
  by_id_.emplace(pending.id, number);
  WriteActions actions;
  writes_book_.add(number, uses_of(pending.ops), now(), now() + params_.write_timeout, actions);
  perform(std::move(actions));
  arm();
}

std::vector<KeyUse> Core::uses_of(const std::vector<Op>& ops) const {
  std::vector<KeyUse> uses;
  for (const Op& op : ops) {
    uses.push_back({op.key, op.only_expected});
    if (params_.books.measure == nullptr || op.keeps.columns == 0) {
      continue;
    }
    BookEntry entry;
    params_.books.measure(op.key, op.value, entry);
    for (std::size_t i = 0; i < entry.used; ++i) {
      std::string account = kAccountMark + std::string(entry.parts[i].account);
      const bool known = std::any_of(uses.begin(), uses.end(),
                                     [&account](const KeyUse& use) { return use.key == account; });
      if (!known && mirror_->books()->limits(entry.parts[i].account) != no_limits()) {
        uses.push_back({std::move(account), false});
      }
    }
  }
  return uses;
}

/// What the books say; the mirror has all that this process has been told of.
std::optional<Excess> Core::excess_of(const std::vector<Op>& ops) const {
  Books* const books = mirror_->books();
  for (const Op& op : ops) {
    if (books == nullptr || op.keeps.columns == 0 || op.only_expected ||
        op.type == EventType::kDelete) {
      continue;
    }
    const auto present = mirror_->get(op.key);
    const std::string_view old = present ? present->value.view() : std::string_view();
    if (auto excess = books->check(op.key, old, present.has_value(), op.value, op.keeps)) {
      return excess;
    }
  }
  return std::nullopt;
}

void Core::perform(WriteActions actions) {
  for (WriteAction& action : actions) {
    switch (action.kind) {
      case WriteAction::Kind::kSend:
        send_write(action.number);
        break;
      case WriteAction::Kind::kAnswer:
        answer(action.number, std::move(action.result));
        break;
      case WriteAction::Kind::kTakeSeat:
        take_seat();
        break;
      case WriteAction::Kind::kAwait: {
        SyncActions syncs;
        sync_.add(++next_number_, action.revision, now(), now() + params_.write_timeout, syncs);
        perform(std::move(syncs));
        break;
      }
    }
  }
  shared_.unknown = writes_book_.stats().unknown;
  shared_.resolved = writes_book_.stats().resolved;
  shared_.durable_unseen = writes_book_.stats().durable_unseen;
}

void Core::answer(std::uint64_t number, Expected<CommitResult> result) {
  const auto found = writes_.find(number);
  if (found == writes_.end()) {
    return;
  }
  Pending pending = std::move(found->second);
  writes_.erase(found);
  by_id_.erase(pending.id);
  --shared_.queued;
  shared_.queued_bytes -= pending.bytes;
  if (result && result->conflict) {
    ++shared_.conflicts;
  } else if (result) {
    ++shared_.commits;
    store_totals().committed(1, now() - pending.since);
  } else {
    store_totals().failed();
  }
  if (pending.done) {
    pending.done(std::move(result));
  }
}

void Core::send_write(std::uint64_t number) {
  const auto found = writes_.find(number);
  if (found == writes_.end()) {
    return;
  }
  Pending& pending = found->second;
  if (auto excess = excess_of(pending.ops)) {
    // In a later turn: the book is in the middle of telling what to do.
    loop_.post(alive_.guard([this, number, excess] {
      if (ended_) {
        return;
      }
      answer(number, CommitResult{0, false, 0, 0, excess});
      WriteActions actions;
      writes_book_.forget(number, now(), actions);
      perform(std::move(actions));
    }));
    return;
  }
  const PlanInput input{
      pending.ops,
      keys_,
      seat_,
      offset_,
      pending.id,
      [this](std::string_view key) {
        const auto present = mirror_->get(key);
        return present ? present->modified : Revision{0};
      },
      pending.corrected,
      pending.without_deletions || (shared_.is_full && is_plain_delete(pending.ops))};
  auto planned = plan(input);
  if (!planned) {
    loop_.post(alive_.guard([this, number, code = planned.error().code()] {
      WriteActions actions;
      writes_book_.on_failure(number, {AnswerClass::Outcome::kNotDone, code}, now(), actions);
      perform(std::move(actions));
    }));
    return;
  }
  pending.plan = std::move(*planned);
  const std::size_t member = choice_.pick(now());
  pending.floor = fed();
  CallRequest request = request_of("KV/Txn", encode(pending.plan.request));
  request.kind = net::UpstreamClass::kWrite;
  pending.call = client_.call(member, std::move(request), [this, number, member](Reply reply) {
    on_write_reply(number, member, reply);
  });
}

void Core::on_write_reply(std::uint64_t number, std::size_t member, const Reply& reply) {
  const auto found = writes_.find(number);
  if (found == writes_.end()) {
    return;
  }
  note(member, reply);
  Pending& pending = found->second;
  const std::unique_ptr<net::Call> call = std::move(pending.call);
  WriteActions actions;
  if (reply.ok()) {
    TxnResponse response;
    const Verdict verdict = decode(reply.message, response)
                                ? judge(pending.plan, pending.ops, offset_, response)
                                : Verdict();
    note_revision(response.header, pending.floor);
    if (ended_) {
      return;  // and answered
    }
    if (verdict.kind == Verdict::Kind::kDeleteAgain) {
      pending.corrected.resize(pending.ops.size());
      pending.corrected[verdict.op] = verdict.actual;
    }
    if (verdict.kind == Verdict::Kind::kDone && !is_plain_delete(pending.ops)) {
      shared_.is_full = false;
    }
    writes_book_.on_verdict(number, verdict, pending.plan.writes, now(), actions);
  } else {
    const AnswerClass what = reply.status ? classify(*reply.status) : classify(reply.transport);
    if (what.error == Errc::kFull) {
      on_full(number);
      return;
    }
    if (what.renew_token) {
      renew_token();
    }
    writes_book_.on_failure(number, what, now(), actions);
  }
  perform(std::move(actions));
  arm();
}

/// Etcd says so, too, of one that it has done, and that took it beyond its quota. Whichever it was
/// has been: once what is newest has been seen, it is known.
void Core::on_full(std::uint64_t number) {
  shared_.is_full = true;
  synchronize([this, number](const Expected<Revision>& done) {
    const auto found = writes_.find(number);
    if (found == writes_.end() || ended_) {
      return;  // it was done
    }
    Pending& pending = found->second;
    AnswerClass what;
    if (done) {
      const bool once_more =  // without what takes space
          is_plain_delete(pending.ops) && !std::exchange(pending.without_deletions, true);
      what = {AnswerClass::Outcome::kNotDone, once_more ? Errc::kOk : Errc::kFull};
    }
    WriteActions actions;
    writes_book_.on_failure(number, what, now(), actions);
    perform(std::move(actions));
    arm();
  });
}

void Core::renew_token() {
  if (!token_job_.active()) {
    token_job_ = net::Job(take_token());
  }
}

/// Until there is one: whoever asks without would only hear that he has none.
net::Task<> Core::take_token() {
  client_.set_token({});
  while (true) {
    net::Task<Expected<void>> asking = introduction_.authenticate();
    const Expected<void> done = co_await asking;
    if (done) {
      co_return;
    }
    log_warn("etcd gives no token to its user", {{"error", done.error().to_string()}});
    net::Sleep pause(loop_, kTokenPause);
    co_await pause;
  }
}

void Core::take_seat() {
  if (!seat_job_.active()) {
    seat_job_ = net::Job(sit_down());
  }
}

/// The record is the one that was met, or a later one of the same history.
bool Core::knows_record(const RangeResponse& found) {
  if (found.kvs.empty()) {
    return false;
  }
  if (found.kvs[0].mod_revision == meta_revision_) {
    return true;
  }
  const auto meta = parse_meta(found.kvs[0].value, params_.prefix);
  return meta && take_again({*meta, found.kvs[0].mod_revision});
}

/// Another seat, guarded by the present one; until it is known that it is taken (GR-109).
net::Task<> Core::sit_down() {
  std::size_t member = choice_.other_than(choice_.pick(now()), now());
  while (true) {
    TxnRequest request;
    // Nobody sits down in another history than the one that he knows (GR-125).
    request.compares = {{keys_.meta(), meta_revision_}, {seat_.key, seat_.revision}};
    request.success = {{TxnOp::Kind::kPut, seat_.key, random_suffix(16), 0}};
    request.failure = {{TxnOp::Kind::kRange, seat_.key, {}, 0},
                       {TxnOp::Kind::kRead, keys_.meta(), {}, 0}};
    const std::uint64_t met = meta_revision_;
    CallRequest call = request_of("KV/Txn", encode(request));
    net::Task<Reply> asking = ask(member, std::move(call));
    const Reply reply = co_await asking;
    TxnResponse response;
    Revision taken = 0;
    if (reply.ok() && decode(reply.message, response)) {
      if (meta_revision_ != met) {
        continue;  // the watch told of another one first
      }
      const bool is_told = response.ranges.size() == 2;
      const bool is_there = is_told && response.ranges[0].kvs.size() == 1;
      if (is_told && !knows_record(response.ranges[1])) {
        end_history("its record was written anew");
        co_return;
      }
      if (meta_revision_ != met) {
        continue;  // nothing has failed but the compare of that
      }
      if (response.succeeded) {
        taken = response.header.revision;
      } else if (is_there) {
        taken = response.ranges[0].kvs[0].mod_revision;  // an attempt of which we heard nothing
      } else {
        seat_.revision = 0;  // somebody has deleted it
      }
    } else if (reply.status && classify(*reply.status).renew_token) {
      renew_token();
    }
    if (taken != 0) {
      seat_.revision = taken;
      break;
    }
    net::Sleep pause(loop_, kSeatPause);
    co_await pause;
    member = choice_.other_than(member, now());
  }
  loop_.post(alive_.guard([this] {
    WriteActions actions;
    writes_book_.on_seat(seat_.revision + offset_, now(), actions);
    perform(std::move(actions));
    arm();
  }));
}

}  // namespace kintsugi::store::etcd
