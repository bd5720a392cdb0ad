#include "store/etcd/internal/core.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "base/random.h"
#include "store/etcd/internal/answer_class.h"

namespace kintsugi::store::etcd {
namespace {

constexpr Duration kHeadTimeout = milliseconds(1'500);
constexpr std::size_t kReplicaCharacters = 10;

}  // namespace

Core::Core(net::Loop& loop, const EtcdParams& params, std::vector<net::Url> endpoints,
           std::shared_ptr<net::TlsContext> tls, Shared& shared)
    : loop_(loop),
      params_(params),
      shared_(shared),
      keys_(params.prefix + "/"),
      replica_(random_suffix(kReplicaCharacters)),
      client_(loop, {std::move(endpoints), std::move(tls)}),
      choice_(client_.members()),
      introduction_(loop, client_, choice_, params, keys_, replica_),
      ids_(random_number()),
      timer_(loop),
      guard_timer_(loop),
      compact_timer_(loop) {
  seat_.key = keys_.seat(replica_);
}

Core::~Core() {
  alive_.end();
  job_.end();
  seat_job_.end();
  token_job_.end();
  look_job_.end();
  renew_job_.end();
  WriteActions actions;
  writes_book_.stop(actions);
  for (WriteAction& action : actions) {
    answer(action.number, std::move(action.result));
  }
  for (const std::uint64_t number : sync_.take_all()) {
    if (const auto found = syncs_.find(number); found != syncs_.end()) {
      const SynchronizeCallback done = std::move(found->second);
      syncs_.erase(found);
      done(fail(Errc::kClosed));
    }
  }
}

CallRequest Core::head_request(std::uint64_t revision) const {
  RangeRequest range;
  range.key = keys_.absent();
  range.count_only = true;
  range.revision = revision;
  CallRequest request = request_of("KV/Range", encode(range));
  request.timeout = kHeadTimeout;
  return request;
}

void Core::arm() {
  std::optional<TimePoint> next = sync_.next_time();
  if (const auto at = writes_book_.next_time(); at && (!next || *at < *next)) {
    next = at;
  }
  if (!next) {
    timer_.cancel();
    return;
  }
  timer_.start(std::max<Duration>(*next - now(), Duration(0)), [this] { on_timer(); });
}

void Core::on_timer() {
  SyncActions syncs;
  sync_.on_time(now(), syncs);
  perform(std::move(syncs));
  WriteActions writes;
  writes_book_.on_time(now(), writes);
  perform(std::move(writes));
  arm();
}

void Core::perform(SyncActions actions) {
  for (const SyncAction& action : actions) {
    switch (action.kind) {
      case SyncAction::Kind::kReadHead:
        read_head();
        break;
      case SyncAction::Kind::kNudge:
        nudge();
        break;
      case SyncAction::Kind::kDone:
      case SyncAction::Kind::kExpired: {
        const bool done = action.kind == SyncAction::Kind::kDone;
        if (action.number == guard_number_) {
          guard_number_ = 0;
          if (done) {
            confirm();
          } else {
            end_watch("it tells nothing new");
          }
        } else if (const auto found = syncs_.find(action.number); found != syncs_.end()) {
          const SynchronizeCallback callback = std::move(found->second);
          syncs_.erase(found);
          if (done) {
            callback(action.revision);
          } else {
            callback(fail(Errc::kDeadline, "etcd did not tell its newest revision in time"));
          }
        }
        break;
      }
    }
  }
}

void Core::read_head() {
  ++shared_.head_reads;
  head_member_ = choice_.other_than(watch_member_, now());
  head_floor_ = fed();
  head_call_ = client_.call(head_member_, head_request(0), [this](const Reply& reply) {
    note(head_member_, reply);
    Header header;
    SyncActions actions;
    if (reply.ok() && decode(reply.message, header) && header.revision != 0) {
      note_revision(header, head_floor_);
      sync_.on_head(header.revision + offset_, now(), actions);
    } else {
      sync_.on_head_failed(now());
    }
    perform(std::move(actions));
    arm();
  });
}

/// Makes the watch tell something: an answer about its progress where that can be believed, else an
/// event (GR-113). Where there is no space for that, nothing is told, but it can be seen.
void Core::nudge() {
  if (introduction_.tells_progress() && watch_ != nullptr) {
    ++shared_.progress_requests;
    watch_->send(encode_progress_request());
    return;
  }
  ++shared_.barriers;
  CallRequest request = request_of("KV/Put", encode_put(keys_.barrier(replica_), replica_));
  const std::size_t member = choice_.pick(now());
  nudge_call_ = client_.call(member, std::move(request), [this, member](const Reply& reply) {
    note(member, reply);
    if (reply.status && classify(*reply.status).error == Errc::kFull && !look_job_.active()) {
      look_job_ = net::Job(look_for_difference(member));
    }
  });
}

void Core::confirm() { shared_.confirmed_at = now().time_since_epoch().count(); }

/// Everything up to `position` is in the mirror, and subscribers have it.
void Core::raise_position(Revision position) {
  if (position > shared_.position.load()) {
    shared_.position = position;
  }
  confirm();
  SyncActions syncs;
  sync_.on_position(shared_.position, syncs);
  perform(std::move(syncs));
  WriteActions writes;
  writes_book_.on_published(shared_.position, now(), writes);
  perform(std::move(writes));
  arm();
}

void Core::synchronize(SynchronizeCallback done) {
  const std::uint64_t number = ++next_number_;
  syncs_.emplace(number, std::move(done));
  SyncActions actions;
  sync_.add(number, std::nullopt, now(), now() + params_.synchronize_timeout, actions);
  perform(std::move(actions));
  arm();
}

}  // namespace kintsugi::store::etcd
