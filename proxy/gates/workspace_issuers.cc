#include "proxy/gates/workspace_issuers.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "krm/status.h"
#include "topology/resolver.h"

namespace kintsugi::proxy {
namespace {

constexpr Duration kPublishAfter = milliseconds(5);
constexpr int kRetryAfter = 1;             // [s]
constexpr std::size_t kMostWaiting = 256;  // tokens; the next gets its answer at once

bool equal(const auth::JwtIssuers& a, const auth::JwtIssuers& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& one, const auto& other) {
    return one->config() == other->config();
  });
}

Error not_available() {
  return krm::unavailable("the token issuer is not available yet", kRetryAfter);
}

/// The logical cluster of a WorkspaceIssuers::Key.
std::string cluster_of_key(const std::string& key) {
  const std::size_t begin = key.find(' ') + 1;
  return key.substr(begin, key.find(' ', begin) - begin);
}

/// Drops the entries of a shard.
template <class Map>
void drop_shard(Map& map, topology::ShardId shard) {
  const std::string prefix = std::to_string(shard) + " ";
  std::erase_if(map, [&](const auto& entry) { return entry.first.starts_with(prefix); });
}

}  // namespace

WorkspaceIssuers::Key WorkspaceIssuers::key(topology::ShardId shard, std::string_view cluster,
                                            std::string_view name) {
  return std::to_string(shard).append(" ").append(cluster).append(" ").append(name);
}

WorkspaceIssuerBook::WorkspaceIssuerBook(net::Loop& loop, topology::Feed& feed,
                                         std::function<void(WorkspaceIssuersPtr)> publish)
    : feed_(feed), publish_(std::move(publish)), timer_(loop) {
  feed_.add_listener(*this);
}
WorkspaceIssuerBook::~WorkspaceIssuerBook() { feed_.remove_listener(*this); }

void WorkspaceIssuerBook::on_change(const topology::ShardChanged& change) {
  if (change.removed) {
    drop_shard(now_.types, change.shard.id);
    drop_shard(now_.configurations, change.shard.id);
    now_.synced.erase(change.shard.id);
    touched();
  }
}

void WorkspaceIssuerBook::on_change(const topology::WorkspaceTypeChanged& change) {
  std::vector<std::string> names;
  if (change.object != nullptr) {
    names = auth::configuration_names(*change.object, change.cluster, change.name);
  }
  const std::string key = WorkspaceIssuers::key(change.shard, change.cluster, change.name);
  const auto known = now_.types.find(key);
  if (names.empty()) {
    if (known != now_.types.end()) {
      now_.types.erase(known);
      touched();
    }
  } else if (known == now_.types.end() || known->second != names) {
    now_.types[key] = std::move(names);
    touched();
  }
}

void WorkspaceIssuerBook::on_change(const topology::WorkspaceAuthenticationChanged& change) {
  auth::JwtIssuers issuers;
  if (change.object != nullptr) {
    issuers = auth::configured_issuers(*change.object, change.cluster, change.name);
  }
  const std::string key = WorkspaceIssuers::key(change.shard, change.cluster, change.name);
  const auto known = now_.configurations.find(key);
  if (issuers.empty()) {
    if (known != now_.configurations.end()) {
      now_.configurations.erase(known);
      touched();
    }
  } else if (known == now_.configurations.end() || !equal(*known->second, issuers)) {
    now_.configurations[key] = std::make_shared<const auth::JwtIssuers>(std::move(issuers));
    touched();
  }
}

void WorkspaceIssuerBook::on_change(const topology::AuthenticationSynced& change) {
  if (now_.synced.insert(change.shard).second) {
    touched();
  }
}

void WorkspaceIssuerBook::touched() {
  if (!std::exchange(pending_, true)) {
    timer_.start(kPublishAfter, [this] {
      pending_ = false;
      publish_(std::make_shared<const WorkspaceIssuers>(now_));
    });
  }
}

/// A token whose workspace's issuers are not known yet.
struct WorkspaceTokens::Waiting {
  auth::BearerPtr token;
  std::vector<std::string> audiences;
  std::string cluster;
  Done done;
  net::Timer timer;
};

WorkspaceTokens::WorkspaceTokens(net::Loop& loop, std::shared_ptr<topology::SnapshotView> view,
                                 Duration patience,
                                 const std::shared_ptr<const net::OutgoingPolicy>& policy)
    : loop_(loop),
      view_(std::move(view)),
      patience_(patience),
      tokens_(loop, std::make_shared<net::Outgoing>(
                        loop, policy == nullptr ? net::OutgoingPolicy() : *policy)) {
  view_->on_change([this, alive = alive_.weak()](const topology::Snapshot& /*before*/,
                                                 const topology::Snapshot& /*now*/) {
    if (alive) {
      go_on();
    }
  });
}

WorkspaceTokens::~WorkspaceTokens() {
  alive_.end();
  for (auto& [ticket, waiting] : std::exchange(waiting_, {})) {
    waiting->timer.cancel();
    waiting->done(fail(not_available()));
  }
}

void WorkspaceTokens::set_issuers(WorkspaceIssuersPtr issuers) {
  issuers_ = std::move(issuers);
  tokens_.keep([this](const std::string& key) {
    const auto now = issuers_->configurations.find(key);
    return now == issuers_->configurations.end() ? nullptr : now->second.get();
  });
  go_on();
}

WorkspaceTokens::Found WorkspaceTokens::find(std::string_view cluster) const {
  const topology::Snapshot& facts = view_->current();
  const auto fact = facts.cluster(cluster);
  const std::size_t colon =
      fact ? fact->type.rfind(':') : std::string_view::npos;  // of "<path>:<name>"
  if (colon == std::string_view::npos) {
    return {};
  }
  // The path decides whose type it is: annotations of types are not believed.
  const topology::Resolution home = topology::resolve(facts, fact->type.substr(0, colon));
  if (home.kind == topology::Resolution::Kind::kNotKnown) {
    return {false, {}};
  }
  if (home.shard == nullptr || home.cluster.empty()) {
    return {};
  }
  if (!issuers_->synced.contains(home.shard->id)) {
    return {false, {}};
  }
  const auto type = issuers_->types.find(
      WorkspaceIssuers::key(home.shard->id, home.cluster, fact->type.substr(colon + 1)));
  if (type == issuers_->types.end()) {
    return {};
  }
  Found found;
  for (const std::string& name : type->second) {
    std::string key = WorkspaceIssuers::key(home.shard->id, home.cluster, name);
    if (issuers_->configurations.contains(key)) {
      found.keys.push_back(std::move(key));
    }
  }
  return found;
}

bool WorkspaceTokens::concern(std::string_view cluster, bool has_token) const {
  const Found found = find(cluster);
  return found.known ? !found.keys.empty() : has_token;
}

void WorkspaceTokens::authenticate_token(const auth::BearerPtr& token,
                                         const std::vector<std::string>& audiences,
                                         std::string_view cluster, Done done) {
  const Found found = find(cluster);
  if (found.known) {
    ask(found, token, audiences, cluster, std::move(done));
  } else if (waiting_.size() < kMostWaiting &&
             token->text().size() <= auth::IssuerTokens::Limits().max_token) {
    wait(token, audiences, cluster, std::move(done));
  } else {
    done(fail(not_available()));
  }
}

void WorkspaceTokens::wait(const auth::BearerPtr& token, const std::vector<std::string>& audiences,
                           std::string_view cluster, Done done) {
  const std::uint64_t ticket = ++last_ticket_;
  auto& waiting = waiting_[ticket];
  waiting = std::make_unique<Waiting>(
      Waiting{token, audiences, std::string(cluster), std::move(done), net::Timer(loop_)});
  waiting->timer.start(patience_, [this, ticket] {
    const auto node = waiting_.extract(ticket);
    node.mapped()->done(fail(not_available()));
  });
}

void WorkspaceTokens::go_on() {
  std::vector<std::unique_ptr<Waiting>> ready;
  for (auto at = waiting_.begin(); at != waiting_.end();) {
    const bool known = find(at->second->cluster).known;
    if (known) {
      ready.push_back(std::move(at->second));
    }
    at = known ? waiting_.erase(at) : std::next(at);
  }
  for (auto& one : ready) {
    one->timer.cancel();
    // In a turn of its own: who is told may change what is being changed just now.
    loop_.post([this, alive = alive_.weak(), one = std::shared_ptr<Waiting>(std::move(one))] {
      if (alive) {
        authenticate_token(one->token, one->audiences, one->cluster, std::move(one->done));
      } else {
        one->done(fail(not_available()));
      }
    });
  }
}

void WorkspaceTokens::ask(const Found& found, const auth::BearerPtr& token,
                          const std::vector<std::string>& audiences, std::string_view cluster,
                          Done done) {
  std::vector<auth::ConfiguredIssuers::Configuration> known;
  for (const std::string& key : found.keys) {
    known.push_back({key, cluster_of_key(key), issuers_->configurations.find(key)->second});
  }
  tokens_.authenticate(known, token, audiences, cluster, std::move(done));
}

}  // namespace kintsugi::proxy
