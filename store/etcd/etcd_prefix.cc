#include "store/etcd/etcd_prefix.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "base/random.h"
#include "net/tls.h"
#include "store/etcd/internal/connection.h"
#include "store/etcd/internal/prefix_parts.h"

namespace kintsugi::store {
namespace {

using etcd::Meta;
using etcd::TxnOp;

constexpr Revision kMostRevision = Revision{1} << 44U;  // AGG-517
constexpr Revision kRenewalJump = 1'000'000'000;
constexpr std::size_t kMostOps = 100;
constexpr std::size_t kMostBytes = 1'000'000;
constexpr std::size_t kReplicaCharacters = 10;
constexpr seconds kHeldFor = std::chrono::hours(1);
constexpr Duration kReleaseTimeout = seconds(2);
constexpr const char* kRowParts[] = {"o/", "x/"};

}  // namespace

EtcdPrefix::EtcdPrefix(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
EtcdPrefix::~EtcdPrefix() { release(); }

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
  for (const char* part :
       {"o/", "x/", "d", "seat/", "lease/", "epoch/", "barrier/", "probe/", "pin/"}) {
    removals.push_back(parts_->removal_of(parts_->keys.prefix() + part));
  }
  return parts_->write_meta(std::move(meta), std::move(removals));
}

Expected<void> EtcdPrefix::make_room(std::size_t bytes) {
  const bool is_full = parts_->gathered.size() >= kMostOps ||
                       (!parts_->gathered.empty() && parts_->gathered_bytes + bytes > kMostBytes);
  return is_full ? flush().map([](Revision) {}) : Expected<void>();
}

Expected<void> EtcdPrefix::remove(std::string_view key) {
  if (auto room = make_room(key.size()); !room) {
    return room;
  }
  parts_->gathered.push_back({TxnOp::Kind::kDelete, parts_->keys.row(key), {}, 0});
  return {};
}

Expected<void> EtcdPrefix::put(const EntryView& row) {
  if (auto room = make_room(row.value.size()); !room) {
    return room;
  }
  if (parts_->id.empty()) {
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
    parts_->id.clear();
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
  for (const char* part : kRowParts) {
    if (auto visited = parts_->each(parts_->keys.prefix() + part, visit, damaged); !visited) {
      return visited;
    }
  }
  return {};
}

Expected<void> EtcdPrefix::each_since(std::uint64_t after, const RowVisit& visit) {
  for (const char* part : kRowParts) {
    if (auto visited = parts_->each(parts_->keys.prefix() + part, visit, nullptr, after);
        !visited) {
      return visited;
    }
  }
  return {};
}

Expected<void> EtcdPrefix::each_key(const std::function<void(std::string key)>& visit) {
  for (const char* part : kRowParts) {
    etcd::RangeRequest request;
    request.keys_only = true;
    auto read = parts_->each_page(parts_->keys.prefix() + part, std::move(request),
                                  [&](const etcd::RangeResponse& page) -> Expected<void> {
                                    for (const etcd::KeyValue& kv : page.kvs) {
                                      if (auto key = parts_->keys.store_key(kv.key)) {
                                        visit(std::move(*key));
                                      }
                                    }
                                    return {};
                                  });
    if (!read) {
      return read;
    }
  }
  return {};
}

Expected<std::uint64_t> EtcdPrefix::count() {
  std::uint64_t rows = 0;
  for (const char* part : kRowParts) {
    etcd::RangeRequest request;
    request.key = parts_->keys.prefix() + part;
    request.range_end = etcd::prefix_end(request.key);
    request.revision = parts_->head;
    request.count_only = true;
    std::string bytes;
    const auto found = parts_->range(request, bytes);
    if (!found) {
      return fail(found.error().clone());
    }
    rows += found->count;
  }
  return rows;
}

std::uint64_t EtcdPrefix::position() const noexcept { return parts_->head; }
Revision EtcdPrefix::offset() const noexcept { return parts_->known->meta.offset; }

Expected<void> EtcdPrefix::stop_writes(const std::string& place) {
  Meta meta = parts_->known->meta;
  meta.state = Meta::State::kMoving;
  meta.place = place;
  return parts_->write_meta(std::move(meta), {parts_->removal_of(parts_->keys.seat({}))});
}

Expected<void> EtcdPrefix::take_back() {
  Meta meta = parts_->known->meta;
  meta.state = Meta::State::kWhole;
  meta.place.clear();
  return parts_->write_meta(std::move(meta), {});
}

Expected<void> EtcdPrefix::each_record(std::string_view key, const RowVisit& visit) {
  const std::uint64_t head = std::exchange(parts_->head, 0);  // as it is now
  auto visited = parts_->each(parts_->keys.row(key), visit, nullptr);
  parts_->head = head;
  return visited;
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

Expected<void> EtcdPrefix::hold() {
  auto answer = parts_->call("Lease/LeaseGrant", etcd::encode_lease_grant(kHeldFor.count()));
  if (!answer) {
    return fail(std::move(answer).error());
  }
  std::uint64_t lease = 0;
  if (!etcd::decode_lease_grant(*answer, lease) || lease == 0) {
    return fail(Errc::kUnavailable, "an answer of etcd was not understood");
  }
  parts_->lease = lease;
  const std::string key = parts_->keys.pin(random_suffix(kReplicaCharacters));
  auto put = parts_->call("KV/Put", etcd::encode_put(key, {}, lease));
  if (!put) {
    release();
    return fail(std::move(put).error());
  }
  return {};
}

void EtcdPrefix::release() {
  if (const std::uint64_t lease = std::exchange(parts_->lease, 0); lease != 0) {
    etcd::CallRequest request =
        parts_->introduction->request_of("Lease/LeaseRevoke", etcd::encode_lease_revoke(lease));
    request.timeout = kReleaseTimeout;
    (void)parts_->wait_for(
        parts_->introduction->ask(parts_->choice->pick(parts_->loop.now()), std::move(request)));
  }
}

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
  for (const char* part : kRowParts) {
    const std::string begin = parts_->keys.prefix() + part;
    unchanged.push_back({begin, parts_->head + 1, etcd::prefix_end(begin)});
  }
  return parts_->write_meta(std::move(meta), {parts_->removal_of(parts_->keys.seat({}))},
                            std::move(unchanged));
}

}  // namespace kintsugi::store
