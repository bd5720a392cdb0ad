#include "server/internal/replica_keeper.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace kintsugi::server {
namespace {

constexpr std::size_t kPart = 20;  ///< one of so many watches is news

std::string key_of(const std::string& id) { return std::string(kReplicaRecords) + id; }

void commit(store::Store& store, store::Op op) {
  std::vector<store::Op> ops;
  ops.push_back(std::move(op));
  // What fails is done again with the next one.
  store.commit(std::move(ops), [](const Expected<store::CommitResult>& /*result*/) {});
}

}  // namespace

ReplicaKeeper::ReplicaKeeper(net::Loop& loop, store::Store& store, Replica own,
                             std::function<void()> settled, Times times)
    : loop_(loop),
      store_(store),
      times_(times),
      own_(std::move(own)),
      settled_(std::move(settled)),
      alone_since_(loop.now()),
      timer_(loop) {
  write();
  look();
}

ReplicaKeeper::~ReplicaKeeper() {
  timer_.cancel();
  commit(store_, {store::EventType::kDelete, key_of(own_.id), {}, std::nullopt});
}

void ReplicaKeeper::tell(bool ready, std::size_t watches) {
  own_.ready = ready;
  own_.watches = watches;
  if (is_news()) {
    write();
  }
}

bool ReplicaKeeper::is_news() const noexcept {
  const std::size_t before = written_.watches, now = own_.watches;
  const std::size_t change = std::max(before, now) - std::min(before, now);
  return own_.ready != written_.ready || (change > before / kPart && change >= kPart);
}

void ReplicaKeeper::write() {
  written_ = own_;
  written_at_ = loop_.now();
  commit(store_, {store::EventType::kPut, key_of(own_.id), own_.to_json().dump(), std::nullopt});
}

void ReplicaKeeper::on_answering(std::function<void(const std::vector<std::string>&)> listener) {
  answering_changed_ = std::move(listener);
  answering_changed_(answering_);
}

void ReplicaKeeper::look_for_other_releases() {
  const TimePoint now = loop_.now();
  if (std::any_of(others_.begin(), others_.end(),
                  [this](const Replica& one) { return one.version != own_.version; })) {
    alone_since_ = now;
  } else if (settled_ && now - alone_since_ >= times_.settled) {
    alone_since_ = now;
    settled_();
  }
}

void ReplicaKeeper::look() {
  const TimePoint now = loop_.now();
  const bool often = !others_.empty() && times_.write_beside > Duration::zero();
  if (now - written_at_ >= (often ? times_.write_beside : times_.write)) {
    write();
  }
  others_.clear();
  std::vector<std::string> answering;
  std::map<std::string, Seen> seen;
  std::vector<store::Op> gone;
  store::RangeQuery query;
  query.prefix = kReplicaRecords;
  (void)store_.range(query, [&](const store::EntryView& row) {
    const std::string id(row.key.substr(kReplicaRecords.size()));
    if (id == own_.id) {
      return true;
    }
    Seen& last = seen[id];
    const auto known = seen_.find(id);
    const bool rests = known != seen_.end() && known->second.modified == row.modified;
    last = {row.modified, rests ? known->second.since : now,
            known == seen_.end() ? looked_ : known->second.wrote || !rests};
    if (now - last.since >= times_.gone) {
      gone.push_back({store::EventType::kDelete, std::string(row.key), {}, row.modified});
    } else if (auto replica = Replica::parse(id, row.value)) {
      if (last.wrote && replica->ready && replica->version == own_.version &&
          now - last.since < times_.fresh) {
        answering.push_back(replica->address);
      }
      others_.push_back(std::move(*replica));
    }
    return true;
  });
  look_for_other_releases();
  seen_ = std::move(seen);
  looked_ = true;
  std::sort(answering.begin(), answering.end());
  if (answering != answering_) {
    answering_ = std::move(answering);
    if (answering_changed_) {
      answering_changed_(answering_);
    }
  }
  for (store::Op& op : gone) {
    commit(store_, std::move(op));
  }
  timer_.start(times_.look, [this] { look(); });
}

}  // namespace kintsugi::server
