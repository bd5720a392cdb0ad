#include "store/etcd/internal/introduction.h"

#include <array>
#include <utility>

#include "store/etcd/internal/answer_class.h"
#include "store/etcd/internal/version.h"
#include "store/etcd/wire/messages.h"

namespace kintsugi::store::etcd {
namespace {

constexpr Duration kPause = milliseconds(200);

}  // namespace

net::Task<Expected<void>> Introduction::run() {
  const TimePoint until = loop_.now() + params_.start_timeout;
  while (true) {
    net::Task<Expected<void>> attempting = attempt();
    Expected<void> done = co_await attempting;
    if (done || done.error().code() != Errc::kUnavailable || loop_.now() >= until) {
      co_return done;
    }
    net::Sleep pause(loop_, kPause);
    co_await pause;
  }
}

net::Task<Expected<void>> Introduction::attempt() {
  using Step = net::Task<Expected<void>> (Introduction::*)();
  const std::array<Step, 3> steps = {&Introduction::authenticate, &Introduction::look_at_members,
                                     &Introduction::probe};
  for (const Step step : steps) {
    net::Task<Expected<void>> running = (this->*step)();
    Expected<void> done = co_await running;
    if (!done) {
      co_return done;
    }
  }
  co_return Expected<void>();
}

net::Task<Expected<void>> Introduction::authenticate() {
  if (params_.user.empty()) {
    co_return Expected<void>();
  }
  const std::size_t member = choice_.pick(loop_.now());
  Secret password = params_.password;
  if (params_.password_now) {
    auto now = params_.password_now();
    if (!now) {
      co_return fail(std::move(now).error());
    }
    password = std::move(*now);
  }
  CallRequest request =
      request_of("Auth/Authenticate", encode_authenticate(params_.user, password.view()));
  net::Task<Reply> asking = ask(member, std::move(request));
  const Reply reply = co_await asking;
  std::string token;
  if (!reply.ok()) {
    co_return fail(reply.status && reply.status->code == GrpcCode::kInvalidArgument
                       ? Errc::kConfig
                       : Errc::kUnavailable,
                   client_.name(member) + ": " + reply.text());
  }
  if (!decode_authenticate(reply.message, token)) {
    co_return fail(Errc::kUnavailable, client_.name(member) + ": the answer was not understood");
  }
  client_.set_token(std::move(token));
  co_return Expected<void>();
}

net::Task<Expected<void>> Introduction::look_at_members() {
  std::string fault;
  std::size_t answered = 0;
  bool tells = true;
  for (std::size_t member = 0; member < client_.members(); ++member) {
    CallRequest request = request_of("Maintenance/Status", {});
    net::Task<Reply> asking = ask(member, std::move(request));
    const Reply reply = co_await asking;
    StatusResponse status;
    if (!reply.ok() || !decode(reply.message, status)) {
      fault = client_.name(member) + ": " + reply.text();
      tells = false;
      continue;
    }
    const auto version = Version::parse(status.version);
    if (!version || !version->is_supported()) {
      co_return fail(Errc::kConfig, client_.name(member) + " is etcd " +
                                        std::string(status.version) +
                                        "; supported are 3.4.22 and later, 3.5.3 and later, 3.6");
    }
    if (cluster_id_ != 0 && cluster_id_ != status.header.cluster_id) {
      co_return fail(Errc::kConfig, "the endpoints are members of different clusters");
    }
    cluster_id_ = status.header.cluster_id;
    tells = tells && version->tells_progress();
    ++answered;
  }
  if (answered == 0) {
    co_return fail(Errc::kUnavailable, fault);
  }
  tells_progress_ = tells;
  co_return Expected<void>();
}

/// A server that speaks some of the protocol is told by a transaction as ours are.
net::Task<Expected<void>> Introduction::probe() {
  const std::string key = keys_.probe(replica_);
  TxnRequest request;
  request.compares = {{key, 0}, {keys_.absent(), 0}};
  request.success = {{TxnOp::Kind::kPut, key, replica_, 0},
                     {TxnOp::Kind::kDelete, keys_.absent(), {}, 0}};
  request.failure = {{TxnOp::Kind::kRange, key, {}, 0},
                     {TxnOp::Kind::kRange, keys_.absent(), {}, 0}};
  const std::size_t member = choice_.pick(loop_.now());
  for (int round = 0; round < 2; ++round) {
    CallRequest call = request_of("KV/Txn", encode(request));
    net::Task<Reply> asking = ask(member, std::move(call));
    const Reply reply = co_await asking;
    if (!reply.ok()) {
      const AnswerClass what = reply.status ? classify(*reply.status) : AnswerClass();
      const bool stays = (what.error != Errc::kOk && what.error != Errc::kFull) ||
                         (what.renew_token && params_.user.empty());
      co_return fail(stays ? Errc::kConfig : Errc::kUnavailable,
                     client_.name(member) + " refuses transactions: " + reply.text());
    }
    TxnResponse response;
    // First it is written; then the compare fails, and the other branch tells what is there.
    const bool understood = decode(reply.message, response) && response.header.revision != 0;
    const bool as_etcd = round == 0 || (!response.succeeded && response.ranges.size() == 2 &&
                                        response.ranges[0].kvs.size() == 1);
    if (!understood || !as_etcd) {
      co_return fail(Errc::kConfig,
                     client_.name(member) + " does not do transactions as etcd does");
    }
  }
  TxnRequest clean;
  clean.compares = {{keys_.absent(), 0}};
  clean.success = {{TxnOp::Kind::kDelete, key, {}, 0}};
  CallRequest call = request_of("KV/Txn", encode(clean));
  net::Task<Reply> asking = ask(member, std::move(call));
  (void)co_await asking;
  co_return Expected<void>();
}

net::Task<Expected<Introduction::Read>> Introduction::read_meta() {
  RangeRequest range;
  range.key = keys_.meta();
  CallRequest call = request_of("KV/Range", encode(range));
  const std::size_t member = choice_.pick(loop_.now());
  net::Task<Reply> asking = ask(member, std::move(call));
  const Reply reply = co_await asking;
  RangeResponse response;
  if (!reply.ok() || !decode(reply.message, response) || response.header.revision == 0) {
    co_return fail(Errc::kUnavailable, client_.name(member) + ": " + reply.text());
  }
  Read read;
  read.head = response.header.revision;
  if (!response.kvs.empty()) {
    Expected<Meta> meta = parse_meta(response.kvs.front().value, params_.prefix);
    if (!meta) {
      co_return fail(std::move(meta).error());
    }
    read.known = Known{std::move(*meta), response.kvs.front().mod_revision};
  }
  co_return read;
}

net::Task<Reply> Introduction::ask(std::size_t member, CallRequest request) {
  net::Answer<Reply> answer;
  const auto call = client_.call(member, std::move(request), answer.callback());
  Reply reply = co_await answer;
  note(member, reply);
  co_return reply;
}

void Introduction::note(std::size_t member, const Reply& reply) {
  if (reply.status && reply.status->code != GrpcCode::kUnavailable &&
      reply.status->code != GrpcCode::kDeadlineExceeded) {
    choice_.on_answered(member);
  } else {
    choice_.on_failed(member, loop_.now());
  }
}

CallRequest Introduction::request_of(std::string_view method, std::string message) const {
  CallRequest request;
  request.method = "/etcdserverpb." + std::string(method);
  request.message = std::move(message);
  request.timeout = params_.attempt_timeout;
  return request;
}

}  // namespace kintsugi::store::etcd
