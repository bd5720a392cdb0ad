#include "proxy/reviews/shard_reviews.h"

#include "auth/access_review.h"
#include "auth/request_header.h"
#include "base/digest.h"
#include "krm/json.h"
#include "krm/path_prefixes.h"
#include "krm/status.h"
#include "shards/own_requests.h"

namespace kintsugi::proxy {
namespace {

using krm::Json;

constexpr std::string_view kTokenPath = "/apis/authentication.k8s.io/v1/tokenreviews";

net::FetchRequest post(const ReviewTarget& target, std::string_view path, const Json& body,
                       Duration timeout) {
  return auth::review_request(target.base_target + std::string(path), body.dump(), timeout);
}

Error cannot_be_had() { return krm::unavailable("the permission cannot be checked now", 1); }

/// Wildcard requests are judged by a non-resource path in root (T-14).
auth::Attributes for_shard(const auth::Attributes& attributes) {
  if (attributes.cluster != "*") {
    return attributes;
  }
  auth::Attributes root;
  root.user = attributes.user;
  root.cluster = "root";
  root.is_resource = false;
  root.verb = attributes.verb;
  root.path = std::string(krm::kEverywhere) + "/apis/" + attributes.group + "/" +
              attributes.version + "/" + attributes.resource;
  return root;
}

}  // namespace

struct ShardReviews::Entry {
  std::unique_ptr<net::Call> call;
  std::vector<Done> waiting;
  auth::Decision decision;
  TimePoint valid_until{};
  bool decided = false;
};

ShardReviews::ShardReviews(net::Loop& loop, FindReviewTarget find, ReviewLimits limits)
    : loop_(loop), find_(std::move(find)), limits_(limits) {}

ShardReviews::~ShardReviews() = default;

void ShardReviews::authorize(const auth::Attributes& attributes, Done done) {
  ask(for_shard(attributes), false, std::move(done));
}

void ShardReviews::authorize_deep(const auth::Attributes& attributes, Done done) {
  ask(attributes, true, std::move(done));
}

void ShardReviews::ask(const auth::Attributes& attributes, bool deep, Done done) {
  graveyard_.clear();
  const Json review = auth::access_review(attributes);
  std::string key = attributes.cluster + (deep ? "|deep|" : "|") + review.dump();
  if (key.size() > 256) {
    const auto digest = sha256(key);
    key.assign(reinterpret_cast<const char*>(digest.data()), digest.size());
  }
  const auto found = entries_.find(key);
  if (found != entries_.end()) {
    Entry& entry = *found->second;
    if (!entry.decided) {
      entry.waiting.push_back(std::move(done));
      return;
    }
    if (loop_.now() < entry.valid_until) {
      ++stats_.cached;
      done(entry.decision);
      return;
    }
  }
  auto target = find_(attributes.cluster);
  if (!target) {
    ++stats_.failed;
    done(fail(std::move(target.error())));
    return;
  }
  std::unique_ptr<Entry>& slot = entries_[key];
  if (!slot) {
    order_.push_back(key);
  }
  slot = std::make_unique<Entry>();
  slot->waiting.push_back(std::move(done));
  net::FetchRequest request = post(*target, auth::kAccessReviewPath, review, limits_.timeout);
  if (deep) {
    request.headers.add("x-kcp-internal-deep-subjectaccessreview", "true");
  }
  slot->call = shards::own_fetch(loop_, *target->upstream, std::move(request),
                                 [this, key, deep](Expected<net::FetchResponse> response) {
                                   auto decision = auth::read_decision(std::move(response));
                                   if (!decision && !deep) {
                                     decision = fail(cannot_be_had());
                                   }
                                   finish(key, std::move(decision));
                                 });
  evict();
}

void ShardReviews::finish(const std::string& key, Expected<auth::Decision> decision) {
  const auto found = entries_.find(key);
  if (found == entries_.end()) {
    return;
  }
  Entry& entry = *found->second;
  std::vector<Done> waiting = std::move(entry.waiting);
  graveyard_.push_back(std::move(entry.call));  // it is running: destroyed at the next question
  if (decision) {
    ++(decision->allowed ? stats_.allowed : stats_.denied);
    if (!decision->allowed && decision->reason.empty()) {
      decision->reason = "access denied";
    }
    entry.decision = *decision;
    entry.decided = true;
    entry.valid_until = loop_.now() + (decision->allowed ? limits_.allow_ttl : limits_.deny_ttl);
  } else {
    ++stats_.failed;
    order_.remove(key);
    entries_.erase(found);
  }
  for (Done& done : waiting) {
    if (decision) {
      done(*decision);
    } else {
      done(fail(decision.error().clone()));
    }
  }
}

void ShardReviews::evict() {
  while (order_.size() > limits_.max_entries) {
    const auto found = entries_.find(order_.front());
    if (found != entries_.end() && !found->second->decided) {
      return;  // the oldest one is still being asked
    }
    if (found != entries_.end()) {
      entries_.erase(found);
    }
    order_.pop_front();
  }
}

/// Token reviews that run, and those answered lately (10 s for good tokens, 2 s for bad ones).
struct StampedAuthenticator::Impl {
  struct Token {
    std::unique_ptr<net::Call> call;
    std::vector<Done> waiting;
    std::optional<auth::UserInfo> user;
    TimePoint valid_until{};
    bool decided = false;
  };
  net::Loop& loop;
  FindReviewTarget find;
  StringMap<std::unique_ptr<Token>> tokens;
  std::vector<std::unique_ptr<net::Call>> graveyard;

  static constexpr std::size_t kMaxTokens = 65'536;

  static auth::UserInfo read_user(const Json& user) {
    auth::UserInfo info;
    info.name = user.text({"username"});
    info.uid = user.text({"uid"});
    if (const Json* groups = user.find("groups")) {
      for (const Json& group : groups->items()) {
        info.groups.emplace_back(group.as_string());
      }
    }
    if (const Json* extra = user.find("extra")) {
      for (const krm::JsonMember& member : extra->members()) {
        std::vector<std::string> values;
        for (const Json& value : member.value.items()) {
          values.emplace_back(value.as_string());
        }
        info.extra.emplace_back(to_lower(member.key), std::move(values));
      }
    }
    return info;
  }

  static void tell(Done& done, const Token& token) {
    if (token.user) {
      done(token.user);
    } else {
      done(fail(krm::unauthorized()));
    }
  }

  void finish(const std::string& key, Expected<net::FetchResponse> response) {
    const auto found = tokens.find(key);
    if (found == tokens.end()) {
      return;
    }
    Token& token = *found->second;
    std::vector<Done> waiting = std::move(token.waiting);
    graveyard.push_back(std::move(token.call));
    auto body = auth::read_review(std::move(response));
    if (!body) {
      tokens.erase(found);
      for (Done& done : waiting) {
        done(fail(cannot_be_had()));
      }
      return;
    }
    const Json* authenticated = body->at({"status", "authenticated"});
    const Json* user = body->at({"status", "user"});
    if (authenticated != nullptr && authenticated->as_bool() && user != nullptr) {
      token.user = read_user(*user);
    }
    token.decided = true;
    token.valid_until = loop.now() + (token.user ? seconds(10) : seconds(2));
    for (Done& done : waiting) {
      tell(done, token);
    }
  }
};

StampedAuthenticator::StampedAuthenticator(net::Loop& loop, FindReviewTarget find)
    : impl_(std::make_unique<Impl>(Impl{loop, std::move(find), {}, {}})) {}
StampedAuthenticator::~StampedAuthenticator() = default;

void StampedAuthenticator::authenticate(const http::RequestHead& head, const auth::BearerPtr& token,
                                        const http::PeerInfo& /*peer*/, std::string_view cluster,
                                        Done done) {
  static const auth::RequestHeaderConfig kDefaultNames;
  impl_->graveyard.clear();
  if (auto stamped = auth::read_identity_headers(head.headers, kDefaultNames)) {
    done(std::move(stamped));
    return;
  }
  if (token == nullptr || token->text().empty()) {
    done(std::optional<auth::UserInfo>());
    return;
  }
  const std::string& token_text = token->text();
  const auto digest = sha256(std::string(cluster) + "|" + std::string(token_text));
  const std::string key(reinterpret_cast<const char*>(digest.data()), digest.size());
  const auto found = impl_->tokens.find(key);
  if (found != impl_->tokens.end()) {
    if (!found->second->decided) {
      found->second->waiting.push_back(std::move(done));
      return;
    }
    if (impl_->loop.now() < found->second->valid_until) {
      Impl::tell(done, *found->second);
      return;
    }
  }
  auto target = impl_->find(cluster == "*" || cluster.empty() ? std::string_view("root") : cluster);
  if (!target) {
    done(fail(std::move(target.error())));
    return;
  }
  if (impl_->tokens.size() >= Impl::kMaxTokens) {
    std::erase_if(impl_->tokens, [](const auto& entry) { return entry.second->decided; });
  }
  auto& slot = impl_->tokens[key];
  slot = std::make_unique<Impl::Token>();
  slot->waiting.push_back(std::move(done));
  const Json review = Json::object({{"apiVersion", "authentication.k8s.io/v1"},
                                    {"kind", "TokenReview"},
                                    {"spec", Json::object({{"token", token_text}})}});
  slot->call = shards::own_fetch(impl_->loop, *target->upstream,
                                 post(*target, kTokenPath, review, seconds(5)),
                                 [impl = impl_.get(), key](Expected<net::FetchResponse> response) {
                                   impl->finish(key, std::move(response));
                                 });
}

}  // namespace kintsugi::proxy
