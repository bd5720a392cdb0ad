#include "store/etcd/etcd_prefix.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "base/random.h"
#include "net/loop.h"
#include "net/tls.h"
#include "store/etcd/internal/answer_class.h"
#include "store/etcd/internal/blocking.h"
#include "store/etcd/internal/connection.h"
#include "store/etcd/internal/introduction.h"
#include "store/etcd/internal/stored_value.h"
#include "store/etcd/internal/watch_joiner.h"
#include "store/etcd/wire/messages.h"

namespace kintsugi::store {
namespace {

using etcd::Meta;
using etcd::TxnOp;

constexpr Revision kMostRevision = Revision{1} << 44U;  // AGG-517
constexpr Revision kRenewalJump = 1'000'000'000;
constexpr std::size_t kMostOps = 100;
constexpr std::size_t kMostBytes = 1'000'000;
constexpr std::uint64_t kPage = 500;
constexpr int kTries = 10;
constexpr Duration kPause = milliseconds(300);
constexpr Duration kCallTimeout = seconds(30);
constexpr std::size_t kReplicaCharacters = 10;
constexpr std::size_t kMostWatched = std::size_t{16} << 20U;  // bytes of one revision
constexpr Duration kSilence = seconds(30);

}  // namespace

struct EtcdPrefix::Parts {
  explicit Parts(EtcdParams given)
      : params(std::move(given)),
        loop("etcd-tool"),
        keys(params.prefix + "/"),
        ids(random_number()) {}

  EtcdParams params;
  net::Loop loop;
  const etcd::Keys keys;
  etcd::TransactionIds ids;
  std::unique_ptr<etcd::Client> client;
  std::unique_ptr<etcd::MemberChoice> choice;
  std::unique_ptr<etcd::Introduction> introduction;

  std::optional<etcd::Introduction::Known> known;
  std::uint64_t head = 0;  // etcd's, as of which is read
  std::vector<TxnOp> gathered;
  std::size_t gathered_bytes = 0;
  std::string id;  // of what is gathered

  template <typename T>
  T wait_for(net::Task<T> task) {
    return etcd::run_until_done(loop, std::move(task));
  }

  /// What `known` and `head` say.
  Expected<Content> content();

  /// Again where nothing can have gone wrong by that.
  Expected<std::string> call(std::string_view method, const std::string& message) {
    Error last(Errc::kUnavailable);
    for (int i = 0; i < kTries; ++i) {
      etcd::CallRequest request = introduction->request_of(method, message);
      request.timeout = kCallTimeout;
      etcd::Reply reply = wait_for(introduction->ask(choice->pick(loop.now()), std::move(request)));
      if (reply.ok()) {
        return std::move(reply.message);
      }
      const auto what =
          reply.status ? etcd::classify(*reply.status) : etcd::classify(reply.transport);
      const Errc transport = reply.status ? Errc::kOk : reply.transport;
      if (reply.status && etcd::is_compacted(*reply.status)) {
        return fail(Errc::kCompacted, reply.text());
      }
      if (what.error != Errc::kOk || transport == Errc::kRequestEntityTooLarge) {
        return fail(what.error != Errc::kOk ? what.error : transport, reply.text());
      }
      last = Error(Errc::kUnavailable, reply.text());
      if (what.renew_token) {
        (void)wait_for(introduction->authenticate());
      }
      std::this_thread::sleep_for(kPause);
    }
    return fail(std::move(last));
  }

  Expected<etcd::RangeResponse> range(const etcd::RangeRequest& request, std::string& bytes) {
    auto answer = call("KV/Range", etcd::encode(request));
    if (!answer) {
      return fail(std::move(answer).error());
    }
    bytes = std::move(*answer);
    etcd::RangeResponse response;
    if (!etcd::decode(bytes, response) || response.header.revision == 0) {
      return fail(Errc::kUnavailable, "a list of etcd was not understood");
    }
    return response;
  }

  /// Where the record is as it was found. @returns the revision of it.
  Expected<std::uint64_t> write(std::vector<TxnOp> ops, std::vector<etcd::Compare> compares = {}) {
    etcd::TxnRequest request;
    request.compares = std::move(compares);
    request.compares.push_back({keys.meta(), known ? known->revision : 0});
    request.success = std::move(ops);
    auto answer = call("KV/Txn", etcd::encode(request));
    if (!answer) {
      return fail(std::move(answer).error());
    }
    etcd::TxnResponse response;
    if (!etcd::decode(*answer, response) || response.header.revision == 0) {
      return fail(Errc::kUnavailable, "an answer of etcd was not understood");
    }
    if (!response.succeeded) {
      return fail(Errc::kConflict, params.prefix + " in etcd: somebody else writes there");
    }
    return response.header.revision;
  }

  /// The record becomes this one, and `more` happens.
  Expected<void> write_meta(Meta meta, std::vector<TxnOp> more,
                            std::vector<etcd::Compare> compares = {}) {
    more.push_back({TxnOp::Kind::kPut, keys.meta(), etcd::encode(meta), 0});
    const auto at = write(std::move(more), std::move(compares));
    if (at) {
      known = etcd::Introduction::Known{std::move(meta), *at};
      head = *at;
      return {};
    }
    // It may have been done by an attempt of which nothing was heard.
    const auto now = wait_for(introduction->read_meta());
    if (now && now->known && etcd::encode(now->known->meta) == etcd::encode(meta)) {
      known = now->known;
      head = now->head;
      return {};
    }
    return fail(at.error().clone());
  }

  [[nodiscard]] TxnOp removal_of(const std::string& begin) const {
    return {TxnOp::Kind::kDelete, begin, {}, 0, etcd::prefix_end(begin)};
  }

  Expected<void> visit_page(const etcd::RangeResponse& page, const RowVisit& visit,
                            std::vector<std::string>* damaged) {
    for (const etcd::KeyValue& kv : page.kvs) {
      const auto key = keys.store_key(kv.key);
      if (!key) {
        continue;
      }
      const auto opened = etcd::open_value(kv.key, kv.value);
      if (!opened && damaged != nullptr) {
        damaged->push_back(*key);
        continue;
      }
      if (!opened) {
        return fail(Errc::kCorrupt, "the record " + std::string(kv.key) + " in etcd is damaged");
      }
      const Revision offset = known ? known->meta.offset : 0;
      auto seen =
          visit({*key, opened->value, kv.create_revision + offset, kv.mod_revision + offset});
      if (!seen) {
        return seen;
      }
    }
    return {};
  }

  void visit_group(const etcd::RevisionGroup& group, const EventVisit& visit) const {
    for (const etcd::JoinedEvent& event : group.events) {
      const auto key = keys.store_key(event.key);
      if (!key) {
        continue;
      }
      Event told;
      told.revision = group.revision + known->meta.offset;
      told.is_delete = event.is_delete;
      told.key = *key;
      const auto opened = etcd::open_value(event.key, event.value);
      told.is_damaged = !told.is_delete && !opened;
      told.value = !told.is_delete && opened ? opened->value : std::string_view();
      visit(told);
    }
  }

  /// Events of etcd's revisions after `from` up to `until`, where one is of the prefix.
  /// @returns how the watch ended: kNothing all has been visited.
  Expected<etcd::Joined> events(std::uint64_t from, std::uint64_t until, const EventVisit& visit) {
    etcd::WatchJoiner joiner(from, kMostWatched);
    etcd::Joined last;
    std::string fault;
    net::Timer silence(loop);
    const auto listen = [&] {
      silence.start(kSilence, [&] {
        fault = "nothing was heard of etcd";
        loop.stop();
      });
    };
    etcd::WatchCreate create;
    create.key = keys.prefix();
    create.range_end = etcd::prefix_end(create.key);
    create.start_revision = from + 1;
    listen();
    const auto watch = client->watch(
        choice->pick(loop.now()), etcd::encode(create),
        [&](std::string_view message) {
          listen();
          etcd::WatchResponse response;
          if (!etcd::decode(message, response)) {
            fault = "what etcd says is no answer to a watch";
            return loop.stop();
          }
          last = joiner.on_response(response);
          for (const etcd::RevisionGroup& group : last.groups) {
            visit_group(group, visit);
          }
          const bool goes_on = last.kind <= etcd::Joined::Kind::kCreated;
          if (!goes_on || joiner.position() >= until) {
            fault = goes_on ? "" : last.reason;
            loop.stop();
          }
        },
        [&](const etcd::Reply& reply) {
          fault = reply.text();
          loop.stop();
        });
    loop.run();
    if (joiner.position() >= until) {
      return etcd::Joined();
    }
    return last.kind == etcd::Joined::Kind::kCompacted
               ? Expected<etcd::Joined>(std::move(last))
               : fail(Errc::kUnavailable, fault.empty() ? "the watch ended" : fault);
  }

  Expected<void> each(const std::string& prefix, const RowVisit& visit,
                      std::vector<std::string>* damaged) {
    etcd::RangeRequest request;
    request.key = prefix;
    request.range_end = etcd::prefix_end(prefix);
    request.revision = head;
    request.limit = kPage;
    while (true) {
      std::string bytes;
      const auto page = range(request, bytes);
      if (!page && page.error().code() == Errc::kRequestEntityTooLarge && request.limit > 1) {
        request.limit /= 4;
        request.limit += request.limit == 0 ? 1 : 0;
        continue;
      }
      if (!page) {
        return fail(page.error().clone());
      }
      if (auto visited = visit_page(*page, visit, damaged);
          !visited || !page->more || page->kvs.empty()) {
        return visited;
      }
      request.key = std::string(page->kvs.back().key) + '\0';
    }
  }
};

EtcdPrefix::EtcdPrefix(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
EtcdPrefix::~EtcdPrefix() = default;

Expected<std::unique_ptr<EtcdPrefix>> EtcdPrefix::open(EtcdParams params) {
  auto connection = etcd::understood_connection(params);
  if (!connection) {
    return fail(std::move(connection).error());
  }
  auto parts = std::make_unique<Parts>(std::move(params));
  parts->client = std::make_unique<etcd::Client>(
      parts->loop, etcd::ClientParams{std::move(connection->urls), std::move(connection->tls)});
  parts->choice = std::make_unique<etcd::MemberChoice>(parts->client->members());
  parts->introduction = std::make_unique<etcd::Introduction>(
      parts->loop, *parts->client, *parts->choice, parts->params, parts->keys,
      random_suffix(kReplicaCharacters));
  if (auto met = parts->wait_for(parts->introduction->run()); !met) {
    return fail(std::move(met).error());
  }
  return std::unique_ptr<EtcdPrefix>(new EtcdPrefix(std::move(parts)));
}

Expected<EtcdPrefix::Content> EtcdPrefix::look() {
  const auto read = parts_->wait_for(parts_->introduction->read_meta());
  if (!read) {
    return fail(read.error().clone());
  }
  parts_->known = read->known;
  parts_->head = read->head;
  return parts_->content();
}

Expected<EtcdPrefix::Content> EtcdPrefix::Parts::content() {
  Content content;
  if (known) {
    const Meta& meta = known->meta;
    if (auto allowed = etcd::check_program(meta, params.prefix, params.program); !allowed) {
      return fail(std::move(allowed).error());
    }
    content.lowest = meta.lowest;
    content.kind = meta.state == Meta::State::kWhole     ? Kind::kStore
                   : meta.state == Meta::State::kCopying ? Kind::kCopying
                                                         : Kind::kMoved;
    content.place = meta.place;
    content.revision = head + meta.offset;
    return content;
  }
  etcd::RangeRequest request;
  request.key = keys.prefix();
  request.range_end = etcd::prefix_end(request.key);
  request.revision = head;
  request.count_only = true;
  std::string bytes;
  const auto found = range(request, bytes);
  if (!found) {
    return fail(found.error().clone());
  }
  content.kind = found->count == 0 ? Kind::kEmpty : Kind::kForeign;
  return content;
}

Expected<void> EtcdPrefix::begin(const std::string& from, Revision after) {
  Meta meta;
  meta.uid = random_uuid();
  meta.state = Meta::State::kCopying;
  meta.place = from;
  meta.offset = after > parts_->head ? after - parts_->head : 0;
  if (parts_->head + meta.offset >= kMostRevision) {
    return fail(Errc::kConfig, "revisions have become too large");
  }
  std::vector<TxnOp> removals;
  for (const char* part : {"o/", "x/", "d", "seat/", "lease/", "epoch/", "barrier/", "probe/"}) {
    removals.push_back(parts_->removal_of(parts_->keys.prefix() + part));
  }
  return parts_->write_meta(std::move(meta), std::move(removals));
}

Expected<void> EtcdPrefix::put(const EntryView& row) {
  if (parts_->gathered.size() >= kMostOps ||
      (!parts_->gathered.empty() && parts_->gathered_bytes + row.value.size() > kMostBytes)) {
    if (auto flushed = flush(); !flushed) {
      return fail(std::move(flushed).error());
    }
  }
  if (parts_->gathered.empty()) {
    parts_->id = parts_->ids.next();
  }
  std::string key = parts_->keys.row(row.key);
  std::string value = etcd::seal_value(key, row.value, parts_->id);
  parts_->gathered_bytes += key.size() + value.size();
  parts_->gathered.push_back({TxnOp::Kind::kPut, std::move(key), std::move(value), 0});
  return {};
}

Expected<Revision> EtcdPrefix::flush() {
  if (!parts_->gathered.empty()) {
    auto at = parts_->write(std::exchange(parts_->gathered, {}));
    if (!at) {
      return fail(std::move(at).error());
    }
    parts_->gathered_bytes = 0;
    parts_->head = *at;
  }
  return parts_->head + parts_->known->meta.offset;
}

Expected<void> EtcdPrefix::finish_all(const std::vector<EtcdPrefix*>& prefixes) {
  const auto whole = [](const EtcdPrefix& prefix) {
    Meta meta = prefix.parts_->known->meta;
    meta.state = Meta::State::kWhole;
    meta.place.clear();
    return meta;
  };
  std::vector<TxnOp> others;
  std::vector<etcd::Compare> as_found;
  for (std::size_t i = 1; i < prefixes.size(); ++i) {
    const std::string key = prefixes[i]->parts_->keys.meta();
    others.push_back({TxnOp::Kind::kPut, key, etcd::encode(whole(*prefixes[i])), 0});
    as_found.push_back({key, prefixes[i]->parts_->known->revision});
  }
  return prefixes.empty() ? Expected<void>()
                          : prefixes.front()->parts_->write_meta(
                                whole(*prefixes.front()), std::move(others), std::move(as_found));
}

/// Whoever serves a store has a duty, which he writes again and again.
Expected<void> EtcdPrefix::expect_quiet(Duration time) {
  etcd::RangeRequest request;
  request.key = parts_->keys.lease({});
  request.range_end = etcd::prefix_end(request.key);
  request.keys_only = true;
  std::uint64_t newest[2] = {};
  for (std::uint64_t& at : newest) {
    std::string bytes;
    const auto found = parts_->range(request, bytes);
    if (!found) {
      return fail(found.error().clone());
    }
    for (const etcd::KeyValue& kv : found->kvs) {
      at = std::max(at, kv.mod_revision);
    }
    if (&at == newest) {
      std::this_thread::sleep_for(time);
    }
  }
  return newest[0] == newest[1] ? Expected<void>()
                                : fail(Errc::kConfig, parts_->params.prefix +
                                                          " in etcd is in use: stop who serves it");
}

Expected<void> EtcdPrefix::each(const RowVisit& visit, std::vector<std::string>* damaged) {
  for (const char* part : {"o/", "x/"}) {
    if (auto visited = parts_->each(parts_->keys.prefix() + part, visit, damaged); !visited) {
      return visited;
    }
  }
  return {};
}

Expected<void> EtcdPrefix::each_record(std::string_view key, const RowVisit& visit) {
  const std::uint64_t head = std::exchange(parts_->head, 0);  // as it is now
  auto visited = parts_->each(parts_->keys.row(key), visit, nullptr);
  parts_->head = head;
  return visited;
}

Expected<std::string> EtcdPrefix::get(std::string_view key) {
  etcd::RangeRequest request;
  request.key = parts_->keys.row(key);
  request.revision = parts_->head;
  std::string bytes;
  const auto found = parts_->range(request, bytes);
  if (!found) {
    return fail(found.error().clone());
  }
  if (found->kvs.empty()) {
    return fail(Errc::kNotFound, "there is no such row");
  }
  const auto opened = etcd::open_value(request.key, found->kvs.front().value);
  return opened ? Expected<std::string>(std::string(opened->value))
                : fail(Errc::kCorrupt, "the record " + request.key + " in etcd is damaged");
}

/// An event of our own tells that nothing more is to come.
Expected<Revision> EtcdPrefix::each_event(Revision after, const EventVisit& visit) {
  if (!parts_->known) {
    return fail(Errc::kConfig, parts_->params.prefix + " in etcd: no store is there");
  }
  const Revision offset = parts_->known->meta.offset;
  std::uint64_t from = after > offset ? after - offset : 0;
  const std::string mark = parts_->keys.barrier("tool-" + random_suffix(kReplicaCharacters));
  const auto until = parts_->write({{TxnOp::Kind::kPut, mark, "", 0}});
  if (!until) {
    return fail(until.error().clone());
  }
  auto ended = from < *until ? parts_->events(from, *until, visit) : etcd::Joined();
  while (ended && ended->kind == etcd::Joined::Kind::kCompacted && after == 0) {
    from = ended->revision;
    ended = parts_->events(from, *until, visit);
  }
  (void)parts_->write({{TxnOp::Kind::kDelete, mark, {}, 0}});
  if (!ended) {
    return fail(std::move(ended).error());
  }
  if (ended->kind == etcd::Joined::Kind::kCompacted) {
    return fail(Errc::kCompacted,
                "etcd has history after revision " + std::to_string(ended->revision + offset));
  }
  return from + offset + 1;
}

Expected<void> EtcdPrefix::raise_lowest(const std::string& program) {
  if (!parts_->known || parts_->known->meta.state != Meta::State::kWhole) {
    return fail(Errc::kConfig, parts_->params.prefix + " in etcd: no store is there");
  }
  Meta meta = parts_->known->meta;
  meta.lowest = program;
  return parts_->write_meta(std::move(meta), {});
}

std::uint64_t EtcdPrefix::cluster() const noexcept { return parts_->introduction->cluster_id(); }

Expected<std::uint64_t> EtcdPrefix::newest() {
  etcd::RangeRequest request;
  request.key = parts_->keys.absent();
  request.count_only = true;
  std::string bytes;
  return parts_->range(request, bytes).map([](const etcd::RangeResponse& response) {
    return response.header.revision;
  });
}

Expected<EtcdPrefix::Content> EtcdPrefix::look_at(std::uint64_t at) {
  etcd::RangeRequest request;
  request.key = parts_->keys.meta();
  request.revision = at;
  std::string bytes;
  const auto found = parts_->range(request, bytes);
  if (!found) {
    return fail(found.error().clone());
  }
  parts_->known.reset();
  parts_->head = at;
  if (!found->kvs.empty()) {
    auto meta = etcd::parse_meta(found->kvs.front().value, parts_->params.prefix);
    if (!meta) {
      return fail(std::move(meta).error());
    }
    parts_->known = etcd::Introduction::Known{std::move(*meta), found->kvs.front().mod_revision};
  }
  return parts_->content();
}

Expected<bool> EtcdPrefix::is_unchanged_since(std::uint64_t at) {
  etcd::TxnRequest request;
  // What deletes rows writes `d`, but for when etcd has no space.
  for (const char* part : {"o/", "x/", "d", "meta"}) {
    const std::string begin = parts_->keys.prefix() + part;
    request.compares.push_back({begin, at + 1, etcd::prefix_end(begin)});
  }
  // A transaction without a read would be answered by a member that may be behind.
  request.success = {{TxnOp::Kind::kRange, parts_->keys.absent(), {}, 0}};
  request.failure = request.success;
  auto answer = parts_->call("KV/Txn", etcd::encode(request));
  if (!answer) {
    return fail(std::move(answer).error());
  }
  etcd::TxnResponse response;
  if (!etcd::decode(*answer, response) || response.header.revision == 0) {
    return fail(Errc::kUnavailable, "an answer of etcd was not understood");
  }
  return response.succeeded;
}

std::string EtcdPrefix::incarnation() const {
  if (!parts_->known) {
    return {};
  }
  const Meta& meta = parts_->known->meta;
  return meta.uid + '.' + std::to_string(meta.epoch) + '.' + std::to_string(cluster());
}

Expected<Revision> EtcdPrefix::renew() {
  if (!parts_->known || parts_->known->meta.state != Meta::State::kWhole) {
    return fail(Errc::kConfig, parts_->params.prefix + " in etcd: no store is there");
  }
  Meta meta = parts_->known->meta;
  ++meta.epoch;
  meta.offset += kRenewalJump;
  if (parts_->head + meta.offset >= kMostRevision) {
    return fail(Errc::kConfig, "revisions have become too large");
  }
  auto written = parts_->write_meta(std::move(meta), {parts_->removal_of(parts_->keys.seat({}))});
  return std::move(written).map([this] { return parts_->head + parts_->known->meta.offset; });
}

Expected<void> EtcdPrefix::mark_moved(const std::string& place) {
  Meta meta = parts_->known->meta;
  meta.state = Meta::State::kMoved;
  meta.place = place;
  std::vector<etcd::Compare> unchanged;
  for (const char* part : {"o/", "x/"}) {
    const std::string begin = parts_->keys.prefix() + part;
    unchanged.push_back({begin, parts_->head + 1, etcd::prefix_end(begin)});
  }
  return parts_->write_meta(std::move(meta), {parts_->removal_of(parts_->keys.seat({}))},
                            std::move(unchanged));
}

}  // namespace kintsugi::store
