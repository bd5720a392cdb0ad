#include "store/etcd/internal/prefix_parts.h"

#include <thread>
#include <utility>

#include "store/etcd/internal/answer_class.h"

namespace kintsugi::store {
namespace {

using etcd::Meta;
using etcd::TxnOp;

constexpr std::uint64_t kPage = 500;
constexpr int kTries = 10;
constexpr Duration kPause = milliseconds(300);
constexpr Duration kCallTimeout = seconds(30);

}  // namespace

Expected<std::string> EtcdPrefix::Parts::call(std::string_view method, const std::string& message) {
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

Expected<etcd::RangeResponse> EtcdPrefix::Parts::range(const etcd::RangeRequest& request,
                                                       std::string& bytes) {
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

Expected<std::uint64_t> EtcdPrefix::Parts::write(std::vector<TxnOp> ops,
                                                 std::vector<etcd::Compare> compares) {
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

Expected<void> EtcdPrefix::Parts::write_meta(Meta meta, std::vector<TxnOp> more,
                                             std::vector<etcd::Compare> compares) {
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

TxnOp EtcdPrefix::Parts::removal_of(const std::string& begin) const {
  return {TxnOp::Kind::kDelete, begin, {}, 0, etcd::prefix_end(begin)};
}

Expected<void> EtcdPrefix::Parts::visit_page(const etcd::RangeResponse& page, const RowVisit& visit,
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
    auto seen = visit({*key, opened->value, kv.create_revision + offset, kv.mod_revision + offset});
    if (!seen) {
      return seen;
    }
  }
  return {};
}

Expected<void> EtcdPrefix::Parts::each(const std::string& prefix, const RowVisit& visit,
                                       std::vector<std::string>* damaged, std::uint64_t after) {
  etcd::RangeRequest request;
  request.min_mod_revision = after == 0 ? 0 : after + 1;
  return each_page(prefix, std::move(request), [&](const etcd::RangeResponse& page) {
    return visit_page(page, visit, damaged);
  });
}

Expected<void> EtcdPrefix::Parts::each_page(const std::string& prefix, etcd::RangeRequest request,
                                            const PageVisit& visit) {
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
    if (auto visited = visit(*page); !visited || !page->more || page->kvs.empty()) {
      return visited;
    }
    request.key = std::string(page->kvs.back().key) + '\0';
  }
}

Expected<EtcdPrefix::Content> EtcdPrefix::Parts::content() {
  Content content;
  if (known) {
    const Meta& meta = known->meta;
    if (auto allowed = etcd::check_program(meta, params.prefix, params.program); !allowed) {
      return fail(std::move(allowed).error());
    }
    content.lowest = meta.lowest;
    content.uid = meta.uid;
    content.kind = meta.state == Meta::State::kWhole     ? Kind::kStore
                   : meta.state == Meta::State::kCopying ? Kind::kCopying
                   : meta.state == Meta::State::kMoving  ? Kind::kMoving
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

}  // namespace kintsugi::store
