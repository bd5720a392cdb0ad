#include "proxy/merge/cluster_moves.h"

#include <algorithm>

#include "base/log.h"
#include "proxy/merge/json_scan.h"

namespace kintsugi::proxy {
namespace {

constexpr std::size_t kMostLeft = 4'096;
constexpr std::string_view kEverywhere = "/clusters/*";
constexpr Duration kRetry = seconds(1);

}  // namespace

/// One cluster at its new shard: listed until it is had as a whole.
class ClusterMoves::Listing final : private ShardPages::Listener {
 public:
  using Done = std::function<void(bool complete)>;
  Listing(ClusterMoves& moves, topology::ShardId shard, const std::string& cluster, Done done)
      : moves_(moves),
        shard_(shard),
        route_(moves.route_),
        done_(std::move(done)),
        retry_(moves.shared_.loop) {
    if (const std::size_t at = route_.path.rfind(kEverywhere); at != std::string::npos) {
      route_.path.replace(at, kEverywhere.size(), "/clusters/" + cluster);
    }
  }

  void start() {
    ShardPages::Listener& self = *this;
    objects_.clear();
    if (pages_ != nullptr) {  // it may be on the stack
      moves_.shared_.loop.post([kept = std::shared_ptr<ShardPages>(std::move(pages_))] {});
    }
    pages_ = std::make_unique<ShardPages>(moves_.shared_, self, shard_, moves_.head_, route_,
                                          moves_.shape_, "&limit=500" + moves_.passed_on_);
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
  [[nodiscard]] const std::vector<Object>& objects() const noexcept { return objects_; }
  [[nodiscard]] std::uint64_t revision() const noexcept { return pages_->revision(); }

 private:
  void again() {
    retry_.start(kRetry, [this] { start(); });
  }
  void on_item(std::string_view item, const ListEnvelope& envelope) noexcept override {
    const WatchCoding& coding = *moves_.shape_.coding;
    const auto facts = coding.protobuf ? proto_item_facts(item) : object_facts(item);
    std::string kind = envelope.kind;
    if (kind.ends_with("List")) {
      kind.resize(kind.size() - 4);
    }
    if (facts) {
      objects_.push_back(
          {facts->revision, coding.item("ADDED", {kind, envelope.api_version}, *facts, item)});
    }
  }
  void on_bytes(std::size_t count) noexcept override { pages_->consume(count); }
  void on_pages_end(ShardPages::End end) noexcept override {
    if (end == ShardPages::End::kDone && pages_->revision() != 0) {
      done_(true);
    } else if (end == ShardPages::End::kRefused &&
               (pages_->answer().status == 404 || pages_->answer().status == 403)) {
      done_(false);
    } else {
      again();
    }
  }

  ClusterMoves& moves_;
  topology::ShardId shard_;
  MergeRoute route_;
  Done done_;
  net::Timer retry_;
  std::unique_ptr<ShardPages> pages_;
  std::vector<Object> objects_;
};

ClusterMoves::ClusterMoves(MergeLoop& shared, const http::RequestHead& head,
                           const MergeRoute& route, const std::string& passed_on,
                           StreamShape& shape, Arrived arrived)
    : shared_(shared),
      head_(head),
      route_(route),
      passed_on_(passed_on),
      shape_(shape),
      arrived_(std::move(arrived)) {}

ClusterMoves::~ClusterMoves() = default;

bool ClusterMoves::leaves_out(const Member& member, const ObjectFacts& facts) {
  if (!member.marker.empty() || facts.cluster.empty()) {
    return false;  // a plain server is its own cluster
  }
  const auto found =
      left_.empty() ? left_.end() : left_.find({member.slot, std::string(facts.cluster)});
  const auto fact = shared_.view->current().cluster(facts.cluster);
  const bool is_owner = !fact || fact->owner == member.id;
  if (is_owner && found == left_.end()) {
    return false;
  }
  if (is_owner && found->second.told != 0) {
    return facts.revision <= found->second.told;
  }
  if (found == left_.end() && left_.size() >= kMostLeft) {
    return false;
  }
  Left& left =
      found != left_.end() ? found->second : left_[{member.slot, std::string(facts.cluster)}];
  left.latest = std::max(left.latest, facts.revision);
  left.told = 0;
  return true;
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

void ClusterMoves::forget(std::size_t slot) {
  std::erase_if(left_, [this, slot](auto& one) {
    if (one.first.first != slot) {
      return false;
    }
    if (one.second.listing != nullptr) {
      one.second.listing->stop();
      shared_.loop.post([kept = std::move(one.second.listing)] {});
    }
    return true;
  });
}

void ClusterMoves::list(const Key& key, const Member& member, Left& left) {
  log_info("a logical cluster has moved, its objects are listed at its new shard",
           {{"cluster", key.second}, {"shard", member.name}, {"path", route_.path}});
  left.listing = std::make_shared<Listing>(
      *this, member.id, key.second,
      [this, key, member](bool complete) { on_listed(key, member, complete); });
  left.listing->start();
}

void ClusterMoves::on_listed(const Key& key, const Member& member, bool complete) {
  const auto found = left_.find(key);
  if (found == left_.end()) {
    return;
  }
  Left& left = found->second;
  const std::shared_ptr<Listing> listing = std::move(left.listing);
  shared_.loop.post([listing] {});  // it is on the stack
  if (!complete) {
    left_.erase(found);
    return;
  }
  const auto fact = shared_.view->current().cluster(key.second);
  if (!fact || fact->owner != member.id) {
    return;  // it went back
  }
  if (left.latest > listing->revision()) {
    list(key, member, left);  // more has happened since
    return;
  }
  left.told = listing->revision();
  arrived_(key.first, listing->objects());
}

}  // namespace kintsugi::proxy
