#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <utility>

#include "base/log.h"
#include "krm/json.h"
#include "store/etcd/internal/answer_class.h"
#include "store/etcd/internal/core.h"
#include "store/etcd/internal/version.h"

// What happens before the first read: who is there, what it can do, whose prefix it is (GR-124).
namespace kintsugi::store::etcd {
namespace {

using krm::Json;

constexpr Duration kPause = milliseconds(200);
constexpr std::size_t kMostTransactions = 1'000'000;  // of a mirror's one: no limit
constexpr std::int64_t kFormat = 1;

std::string boot_id() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string text;
  file >> text;
  return text;
}

std::int64_t number_of(const Json& object, std::string_view member) {
  const Json* const found = object.find(member);
  return found == nullptr ? 0 : found->as_integer();
}

std::string read_text(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

}  // namespace

void Core::start(std::function<void(Expected<void>)> ready) {
  ready_ = std::move(ready);
  job_ = net::Job(run());
}

net::Task<> Core::run() {
  const TimePoint until = now() + params_.start_timeout;
  while (true) {
    net::Task<Expected<void>> connecting = connect();
    Expected<void> connected = co_await connecting;
    if (connected) {
      break;
    }
    if (connected.error().code() != Errc::kUnavailable || now() >= until) {
      std::exchange(ready_, nullptr)(std::move(connected));
      co_return;
    }
    net::Sleep pause(loop_, kPause);
    co_await pause;
  }
  if (Expected<void> opened = open_mirror(); !opened) {
    std::exchange(ready_, nullptr)(std::move(opened));
    co_return;
  }
  guard_timer_.start(seconds(1), [this] { watch_guard(); });
  if (params_.compacts) {
    compact_etcd();
  }
  net::Task<> following = follow();
  co_await following;
}

net::Task<Expected<void>> Core::connect() {
  using Step = net::Task<Expected<void>> (Core::*)();
  const std::array<Step, 4> steps = {&Core::authenticate, &Core::look_at_members, &Core::probe,
                                     &Core::match_meta};
  for (const Step step : steps) {
    net::Task<Expected<void>> running = (this->*step)();
    Expected<void> done = co_await running;
    if (!done) {
      co_return done;
    }
  }
  co_return Expected<void>();
}

net::Task<Expected<void>> Core::authenticate() {
  if (params_.user.empty()) {
    co_return Expected<void>();
  }
  const std::size_t member = choice_.pick(now());
  CallRequest request =
      request_of("Auth/Authenticate", encode_authenticate(params_.user, params_.password.view()));
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

net::Task<Expected<void>> Core::look_at_members() {
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
net::Task<Expected<void>> Core::probe() {
  const std::string key = keys_.probe(replica_);
  TxnRequest request;
  request.compares = {{key, 0}, {keys_.absent(), 0}};
  request.success = {{TxnOp::Kind::kPut, key, replica_, 0},
                     {TxnOp::Kind::kDelete, keys_.absent(), {}, 0}};
  request.failure = {{TxnOp::Kind::kRange, key, {}, 0},
                     {TxnOp::Kind::kRange, keys_.absent(), {}, 0}};
  const std::size_t member = choice_.pick(now());
  for (int round = 0; round < 2; ++round) {
    CallRequest call = request_of("KV/Txn", encode(request));
    net::Task<Reply> asking = ask(member, std::move(call));
    const Reply reply = co_await asking;
    if (!reply.ok()) {
      const AnswerClass what = reply.status ? classify(*reply.status) : AnswerClass();
      const bool stays = what.error != Errc::kOk && what.error != Errc::kFull;
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

net::Task<Expected<void>> Core::match_meta() {
  const Json made = Json::object({{"format", kFormat},
                                  {"uid", random_uuid()},
                                  {"offset", 0},
                                  {"epoch", 1},
                                  {"lowest", "0.1.0"}});
  TxnRequest create;
  create.compares = {{keys_.meta(), 0}};
  create.success = {{TxnOp::Kind::kPut, keys_.meta(), made.dump(), 0}};
  const std::size_t member = choice_.pick(now());
  CallRequest call = request_of("KV/Txn", encode(create));
  net::Task<Reply> creating = ask(member, std::move(call));
  const Reply created = co_await creating;
  RangeRequest range;
  range.key = keys_.meta();
  CallRequest read = request_of("KV/Range", encode(range));
  net::Task<Reply> reading = ask(member, std::move(read));
  const Reply reply = co_await reading;
  RangeResponse response;
  if (!created.ok() || !reply.ok() || !decode(reply.message, response)) {
    co_return fail(Errc::kUnavailable,
                   client_.name(member) + ": " + (created.ok() ? reply.text() : created.text()));
  }
  const auto meta = response.kvs.empty() ? Expected<Json>(fail(Errc::kNotFound))
                                         : Json::parse(response.kvs.front().value);
  const std::int64_t format = meta ? number_of(*meta, "format") : 0;
  if (format != kFormat) {
    co_return fail(Errc::kConfig, "what is under " + params_.prefix +
                                      " in etcd has no format that this program knows");
  }
  uid_ = meta->text({"uid"});
  offset_ = static_cast<Revision>(number_of(*meta, "offset"));
  epoch_ = static_cast<std::uint64_t>(number_of(*meta, "epoch"));
  co_return Expected<void>();
}

/// The one that is there goes on if it is of the same history; else it is made anew (GR-117).
Expected<void> Core::open_mirror() {
  const std::filesystem::path directory = params_.mirror_directory;
  const std::string note = (directory / "mirror.json").string();
  const std::string identity = Json::object({{"prefix", params_.prefix},
                                             {"uid", uid_},
                                             {"cluster", std::to_string(cluster_id_)},
                                             {"offset", static_cast<std::int64_t>(offset_)},
                                             {"epoch", static_cast<std::int64_t>(epoch_)},
                                             {"boot", boot_id()}})
                                   .dump();
  const std::string before = read_text(note);
  if (const auto old = Json::parse(before); old && !old->text({"uid"}).empty() &&
                                            old->text({"prefix"}) == params_.prefix &&
                                            old->text({"uid"}) != uid_) {
    return fail(Errc::kConfig,
                params_.prefix + " in etcd is not what it was: another store is there");
  }
  std::error_code failed;
  if (before != identity) {
    std::filesystem::remove_all(directory / "data", failed);
  }
  std::filesystem::create_directories(directory, failed);
  LmdbParams params;
  params.directory = (directory / "data").string();
  params.no_sync = true;  // etcd has it
  params.books = params_.books;
  params.history_age = params_.history_age;
  params.history_events = params_.history_events;
  params.limits = {kMostTransactions, std::numeric_limits<std::size_t>::max()};
  auto opened = LmdbStore::open(params);
  if (!opened) {
    return fail(std::move(opened.error()).at("mirror of etcd"));
  }
  mirror_ = std::move(*opened);
  std::ofstream(note) << identity;
  fed_ = mirror_->current();
  shared_.mirror_published = fed_;
  shared_.position = fed_;
  resync_ = fed_ == 0;
  return {};
}

}  // namespace kintsugi::store::etcd
