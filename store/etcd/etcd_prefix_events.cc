#include <utility>

#include "store/etcd/etcd_prefix.h"
#include "store/etcd/internal/prefix_parts.h"

// One row, and what happened to all (GR-106).
namespace kintsugi::store {
namespace {

using etcd::TxnOp;

constexpr std::size_t kMostWatched = std::size_t{16} << 20U;  // bytes of one revision
constexpr Duration kSilence = seconds(30);
constexpr std::size_t kMarkCharacters = 10;

}  // namespace

void EtcdPrefix::Parts::visit_group(const etcd::RevisionGroup& group,
                                    const EventVisit& visit) const {
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

Expected<etcd::Joined> EtcdPrefix::Parts::events(std::uint64_t from, std::uint64_t until,
                                                 const EventVisit& visit) {
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
  const std::string mark = parts_->keys.barrier("tool-" + random_suffix(kMarkCharacters));
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

}  // namespace kintsugi::store
