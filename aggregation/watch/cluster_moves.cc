#include "aggregation/watch/cluster_moves.h"

#include <algorithm>

#include "aggregation/list/listed_item.h"
#include "base/log.h"
#include "krm/path_prefixes.h"

namespace kintsugi::aggregation {
namespace {

constexpr std::size_t kMostLeft = 4'096;
constexpr std::size_t kMostEvents = 4'096;  ///< of one cluster
constexpr Duration kRetry = seconds(1);
constexpr int kMostTries = 60;
constexpr Duration kCatchUp = milliseconds(100);  ///< of a server that lags behind its own events

}  // namespace

std::string ClusterArrival::key(const ObjectFacts& facts) {
  std::string out(facts.ns);
  out += '\n';
  out += facts.name;
  return out;
}

/// One cluster at its new shard: listed until it is had as a whole.
class ClusterMoves::Listing final : private ShardPages::Listener {
 public:
  using Done = std::function<void(bool complete)>;
  Listing(ClusterMoves& moves, Member member, const std::string& cluster, Done done)
      : moves_(moves),
        path_(moves.question_.route.path),
        done_(std::move(done)),
        retry_(moves.shared_.loop) {
    arrival_.member = std::move(member);
    arrival_.cluster = cluster;
    if (const std::size_t at = path_.rfind(krm::kEverywhere); at != std::string::npos) {
      path_.replace(at, krm::kEverywhere.size(), krm::cluster_root(cluster));
    }
  }

  void start_in(Duration delay) {
    retry_.start(delay, [this] { start(); });
  }
  void start() {
    ShardPages::Listener& self = *this;
    arrival_.objects.clear();
    arrival_.keys.clear();
    strange_ = false;
    size_ = 0;
    if (pages_ != nullptr) {  // it may be on the stack
      moves_.shared_.loop.post([kept = std::shared_ptr<ShardPages>(std::move(pages_))] {});
    }
    ListQuery query;
    query.query = "&limit=500";
    query.path = path_;
    pages_ = std::make_unique<ShardPages>(moves_.shared_, self, arrival_.member.id,
                                          moves_.question_, std::move(query));
    if (!pages_->start()) {
      again();
    }
  }
  void stop() {
    retry_.cancel();
    if (pages_ != nullptr) {
      pages_->close();
    }
  }
  [[nodiscard]] ClusterArrival& arrival() noexcept { return arrival_; }
  [[nodiscard]] std::uint64_t revision() const noexcept { return pages_->revision(); }

 private:
  void again() {
    if (++tries_ >= kMostTries) {
      retry_.start(Duration{}, [this] { done_(false); });
    } else {
      start_in(kRetry);
    }
  }
  void on_item(std::string_view item, const ListEnvelope& envelope) override {
    StreamShape& shape = moves_.question_.shape;
    if (!shape.kind.known()) {
      shape.kind = {envelope.kind, envelope.api_version};
      if (envelope.kind.ends_with("List")) {
        shape.kind.kind.resize(envelope.kind.size() - 4);
      }
    }
    std::string room;
    const auto listed =
        (envelope.kind == "Table") == shape.kind.is_table()
            ? read_listed(moves_.shared_.options, arrival_.member, shape, item, room)
            : std::nullopt;
    if (!listed || strange_) {
      strange_ = true;
      return;
    }
    std::string event = shape.coding->item("ADDED", shape.kind, listed->facts, listed->item);
    size_ += event.size();
    if (size_ > moves_.shared_.params.queue_high) {  // readers would end in the middle of it
      strange_ = true;
      arrival_.objects.clear();
      arrival_.keys.clear();
      return;
    }
    arrival_.keys.insert(ClusterArrival::key(listed->facts));
    arrival_.objects.push_back({listed->facts.revision, std::move(event)});
  }
  void on_bytes(std::size_t count) override { pages_->consume(count); }
  void on_pages_end(ShardPages::End end) override {
    if (end == ShardPages::End::kDone && pages_->revision() != 0) {
      done_(!strange_);
    } else if (end == ShardPages::End::kRefused &&
               (pages_->answer().status == 404 || pages_->answer().status == 403)) {
      done_(false);
    } else {
      again();
    }
  }

  ClusterMoves& moves_;
  std::string path_;
  Done done_;
  net::Timer retry_;
  std::unique_ptr<ShardPages> pages_;
  ClusterArrival arrival_;
  std::size_t size_ = 0;
  int tries_ = 0;
  bool strange_ = false;  // what came is not what the group's streams tell, or too much
};

ClusterMoves::ClusterMoves(Asking& shared, const MoveNotes& notes, ShardQuestion& question,
                           Arrived arrived)
    : shared_(shared), notes_(notes), question_(question), arrived_(std::move(arrived)) {}

ClusterMoves::~ClusterMoves() = default;

std::optional<topology::ShardId> ClusterMoves::other_owner(const Member& member,
                                                           const ObjectFacts& facts) const {
  if (!member.marker.empty() || facts.cluster.empty()) {
    return std::nullopt;  // a plain server is its own cluster
  }
  const auto fact = shared_.view->current().cluster(facts.cluster);
  return fact && fact->owner != member.id ? std::optional(fact->owner) : std::nullopt;
}

ClusterMoves::Left* ClusterMoves::left_of(const Member& member, const ObjectFacts& facts) {
  const bool is_owner = !other_owner(member, facts);
  if (is_owner && left_.empty()) {
    return nullptr;
  }
  const auto found = left_.find({member.slot, std::string(facts.cluster)});
  if (found == left_.end()) {
    return is_owner || left_.size() >= kMostLeft
               ? nullptr
               : &left_[{member.slot, std::string(facts.cluster)}];
  }
  if (is_owner && found->second.told != 0 && facts.revision > found->second.told) {
    return nullptr;
  }
  return &found->second;
}

bool ClusterMoves::leaves_out(const Member& member, const ObjectFacts& facts) {
  Left* left = left_of(member, facts);
  const bool is_owner = !other_owner(member, facts);
  if (left != nullptr && (!is_owner || left->told == 0)) {
    left->told = 0;
    left->latest = std::max(left->latest, facts.revision);
    if (!is_owner) {
      notes_.leave_out(member.id, question_.route.scope, std::string(facts.cluster),
                       facts.revision);
    }
  }
  return left != nullptr && !is_owner;
}

bool ClusterMoves::leaves_out(const Member& member, const ObjectFacts& facts,
                              std::string_view event) {
  Left* left = left_of(member, facts);
  if (left == nullptr) {
    return false;
  }
  if (left->told != 0 && !other_owner(member, facts)) {
    return true;  // it was listed
  }
  left->told = 0;
  notes_.leave_out(member.id, question_.route.scope, std::string(facts.cluster), facts.revision);
  if (!left->owed && !other_owner(member, facts)) {
    left->owed = true;
    count_open();
  }
  if (left->listing != nullptr && left->later.size() < kMostEvents) {
    left->later.push_back({facts.revision, std::string(event)});
  } else {
    left->latest = std::max(left->latest, facts.revision);
  }
  return true;
}

void ClusterMoves::vanished(const Member& owner, std::uint64_t position, const ObjectFacts& facts,
                            std::string_view event) {
  Key key{owner.slot, std::string(facts.cluster)};
  if (left_.size() >= kMostLeft || vanished_.size() >= kMostLeft) {
    return;
  }
  const bool is_new = !left_.contains(key);
  Left& left = left_[key];
  if (is_new || left.told != 0) {  // clients have what came so far
    left.told = 0;
    left.latest = std::max(left.latest, position);
  }
  Vanished& vanished = vanished_[key.second];
  vanished.overflown = vanished.overflown || vanished.events.size() >= kMostEvents;
  if (!vanished.overflown) {
    vanished.events[ClusterArrival::key(facts)] = {facts.revision, std::string(event)};
  }
  if (left.listing == nullptr) {
    list(key, owner, left);
  }
}

bool ClusterMoves::awaits(std::size_t slot, std::string_view cluster) const {
  const auto found = left_.find({slot, std::string(cluster)});
  return found != left_.end() && found->second.told == 0;
}

bool ClusterMoves::is_told(std::size_t slot, std::string_view cluster,
                           std::uint64_t position) const {
  const auto found = left_.find({slot, std::string(cluster)});
  return found == left_.end() || (found->second.listing == nullptr && found->second.told != 0 &&
                                  found->second.told <= position);
}

bool ClusterMoves::may_lack(std::size_t slot, const ObjectFacts& facts) const {
  const auto found = left_.find({slot, std::string(facts.cluster)});
  return found == left_.end() || found->second.told == 0 ||
         !found->second.keys.contains(ClusterArrival::key(facts));
}

void ClusterMoves::left_from(std::size_t slot, const std::string& cluster) {
  if (left_.size() < kMostLeft) {
    Left& left = left_[{slot, cluster}];
    left.told = 0;
    left.departed = true;
  }
}

bool ClusterMoves::has_left(std::size_t slot, std::string_view cluster) const {
  const auto found = left_.find({slot, std::string(cluster)});
  return found != left_.end() && found->second.departed;
}

void ClusterMoves::follow(const std::vector<Member>& members) {
  for (auto& [key, left] : left_) {
    const auto fact = shared_.view->current().cluster(key.second);
    const auto member =
        std::find_if(members.begin(), members.end(),
                     [slot = key.first](const Member& one) { return one.slot == slot; });
    const bool arrives = fact && member != members.end() && fact->owner == member->id;
    if (arrives && left.listing == nullptr && left.told == 0) {
      list(key, *member, left);
    }
  }
}

void ClusterMoves::remember(const Member& member) {
  for (const auto& [cluster, revision] : notes_.left_out(member.id, question_.route.scope)) {
    if (left_.size() < kMostLeft) {
      Left& left = left_[{member.slot, cluster}];
      left.latest = std::max(left.latest, revision);
    }
  }
}

void ClusterMoves::forget(const Member& member) {
  for (auto& [key, left] : left_) {
    if (key.first != member.slot) {
      continue;
    }
    if (left.listing != nullptr) {
      left.listing->stop();
      shared_.loop.post([kept = std::move(left.listing)] {});
    }
    for (const ClusterArrival::Event& event : left.later) {
      left.latest = std::max(left.latest, event.revision);
    }
    if (left.told == 0) {  // who was not told may come back
      notes_.leave_out(member.id, question_.route.scope, key.second, left.latest);
    }
  }
  std::erase_if(left_, [&member](const auto& one) { return one.first.first == member.slot; });
  count_open();
}

void ClusterMoves::count_open() noexcept {
  open_ = static_cast<std::size_t>(std::count_if(left_.begin(), left_.end(), [](const auto& one) {
    return one.second.owed || one.second.listing != nullptr;
  }));
}

void ClusterMoves::list(const Key& key, const Member& member, Left& left, Duration delay) {
  log_info("a logical cluster has moved, its objects are listed at its new shard",
           {{"cluster", key.second}, {"shard", member.name}, {"path", question_.route.path}});
  for (const ClusterArrival::Event& event : left.later) {
    left.latest = std::max(left.latest, event.revision);
  }
  left.later.clear();
  left.listing = std::make_shared<Listing>(
      *this, member, key.second,
      [this, key, member](bool complete) { on_listed(key, member, complete); });
  left.listing->start_in(delay);
  count_open();
}

void ClusterMoves::on_listed(const Key& key, const Member& member, bool complete) {
  const auto found = left_.find(key);
  if (found == left_.end()) {
    return;
  }
  Left& left = found->second;
  const std::shared_ptr<Listing> listing = std::move(left.listing);
  listing->stop();
  shared_.loop.post([listing] {});  // it is on the stack
  const auto fact = shared_.view->current().cluster(key.second);
  if (!fact || fact->owner != member.id) {
    left.owed = false;  // it went back
    count_open();
    return;
  }
  ClusterArrival& arrival = listing->arrival();
  const auto lost = vanished_.find(key.second);
  if (!complete || (lost != vanished_.end() && lost->second.overflown)) {
    left_.erase(found);
    count_open();
    if (lost != vanished_.end()) {
      vanished_.erase(lost);
    }
    arrived_(arrival);
    return;
  }
  arrival.revision = listing->revision();
  if (left.latest > arrival.revision) {
    list(key, member, left, kCatchUp);  // more has happened since
    return;
  }
  left.departed = left.owed = false;
  left.told = arrival.revision;
  count_open();
  left.keys = arrival.keys;
  for (ClusterArrival::Event& event : left.later) {
    if (event.revision > arrival.revision) {
      left.told = std::max(left.told, event.revision);
      arrival.later.push_back(std::move(event));
    }
  }
  left.later.clear();
  if (lost != vanished_.end()) {
    for (auto& [name, event] : lost->second.events) {
      if (!arrival.keys.contains(name)) {
        arrival.vanished.push_back(std::move(event));
      }
    }
    vanished_.erase(lost);
  }
  arrived_(arrival);
}

}  // namespace kintsugi::aggregation
