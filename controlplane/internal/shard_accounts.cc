#include "controlplane/internal/shard_accounts.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "auth/access_review.h"
#include "base/digest.h"
#include "base/time.h"
#include "krm/json.h"
#include "krm/path_prefixes.h"
#include "krm/request_info.h"
#include "krm/status.h"

namespace kintsugi::controlplane {
namespace {

constexpr int kRetryAfter = 1;                // [s]
constexpr std::int64_t kQuestionLife = 60;    // [s]
constexpr std::int64_t kLeadOfTheClock = 60;  // [s]
constexpr std::string_view kReviews = "/apis/authentication.k8s.io/v1/tokenreviews";
/// Of tokens that ask: nobody lets in who brings one.
constexpr const char* kAudience = "https://kintsugi.dev/account-exists";

Error cannot_be_had() {
  return krm::unavailable("the service account cannot be checked now", kRetryAfter);
}

Error is_gone() { return Error(Errc::kUnauthorized, "no shard knows the account"); }

std::string review_of(const std::string& token) {
  krm::Json spec = krm::Json::object({{"token", token}});
  spec["audiences"].push_back(kAudience);
  return krm::Json::object({{"apiVersion", "authentication.k8s.io/v1"},
                            {"kind", "TokenReview"},
                            {"spec", std::move(spec)}})
      .dump();
}

std::string key_of(const auth::ServiceAccountClaims& claims) {
  std::string text;
  for (const std::string* part : {&claims.cluster, &claims.ns, &claims.name, &claims.uid,
                                  &claims.bound_kind, &claims.bound_name, &claims.bound_uid}) {
    text += *part + '\n';
  }
  const auto digest = sha256(text);
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

enum class Word : std::uint8_t { kKnown, kUnknown, kNone };

/// What a shard says of the account. That it does not know it is no last word: another may have the
/// logical cluster.
Word word_of(const Expected<net::FetchResponse>& answer, const std::string& user,
             const std::string& uid) {
  if (!answer) {
    return Word::kNone;
  }
  if (answer->status == 403 || answer->status == 404) {
    return Word::kUnknown;  // it has no such logical cluster
  }
  const Expected<krm::Json> review =
      answer->status == 201 ? krm::Json::parse(answer->body) : fail(Errc::kUnavailable);
  const krm::Json* status = review ? review->find("status") : nullptr;
  if (status == nullptr || !status->is_object()) {
    return Word::kNone;
  }
  const krm::Json* good = status->find("authenticated");
  const bool known = good != nullptr && good->as_bool() &&
                     status->text({"user", "username"}) == user &&
                     status->text({"user", "uid"}) == uid;
  return known ? Word::kKnown : Word::kUnknown;
}

}  // namespace

struct ShardAccounts::Entry {
  std::vector<Done> waiting;
  std::optional<bool> exists;  ///< nullopt: it is being asked
  TimePoint until{};
};

struct ShardAccounts::Question {
  std::string key, cluster, user, uid, body;
  std::size_t unanswered = 0;  ///< 0 also when one knew
  bool only_home = false;      ///< just who had the logical cluster the last time is asked
  bool is_unsure = false;      ///< somebody who may know did not answer
  bool was_unsure = false;     ///< the same of who was asked first
};

ShardAccounts::ShardAccounts(net::Loop& loop, Params params)
    : loop_(loop), params_(std::move(params)) {}
ShardAccounts::~ShardAccounts() = default;

void ShardAccounts::stop() noexcept {
  alive_.end();
  entries_.clear();
}

void ShardAccounts::check(const auth::ServiceAccountClaims& claims, Done done) {
  if (params_.is_here(claims.cluster)) {
    params_.here(claims, std::move(done));
    return;
  }
  if (!krm::is_cluster_name(claims.cluster)) {
    done(fail(Errc::kUnauthorized, "the token is of no logical cluster"));
    return;
  }
  std::string key = key_of(claims);
  if (entries_.size() >= params_.most_entries) {
    std::erase_if(entries_, [](const auto& each) { return each.second->exists.has_value(); });
  }
  auto& entry = entries_[key];
  if (entry != nullptr && entry->exists && loop_.now() < entry->until) {
    done(*entry->exists ? Expected<void>() : Expected<void>(fail(is_gone())));
    return;
  }
  const bool is_asked = entry != nullptr && !entry->exists;
  if (!is_asked) {
    entry = std::make_unique<Entry>();
  }
  entry->waiting.push_back(std::move(done));
  if (is_asked) {
    return;
  }
  auto question = std::make_shared<Question>();
  question->key = std::move(key);
  question->cluster = claims.cluster;
  question->user = auth::service_account_identity(claims).name;
  question->uid = claims.uid;
  auth::ServiceAccountClaims asks = claims;
  asks.audiences = {kAudience};
  asks.issued_at = unix_seconds() - kLeadOfTheClock;
  asks.expires_at = unix_seconds() + kQuestionLife;
  const Expected<std::string> token = params_.issue(asks);
  if (!token) {
    finish(question, fail(cannot_be_had()));
    return;
  }
  question->body = review_of(*token);
  const std::vector<std::string> others = params_.others();
  const auto known = homes_.find(claims.cluster);
  question->only_home = known != homes_.end() &&
                        std::find(others.begin(), others.end(), known->second) != others.end();
  ask(question, question->only_home ? std::vector<std::string>{known->second} : others);
}

void ShardAccounts::ask(const QuestionPtr& question, const std::vector<std::string>& shards) {
  question->unanswered = shards.size();
  question->is_unsure = !params_.knows_all();
  if (shards.empty()) {
    give_up(question);
    return;
  }
  for (const std::string& shard : shards) {
    params_.send(
        shard,
        auth::review_request(krm::cluster_root(question->cluster) + std::string(kReviews),
                             question->body, params_.timeout),
        [this, alive = alive_.weak(), question, shard](const Expected<net::FetchResponse>& answer) {
          if (alive) {
            heard(question, shard, answer);
          }
        });
  }
}

void ShardAccounts::heard(const QuestionPtr& question, const std::string& shard,
                          const Expected<net::FetchResponse>& answer) {
  if (question->unanswered == 0) {
    return;  // another one knew
  }
  --question->unanswered;
  const Word word = word_of(answer, question->user, question->uid);
  if (word == Word::kKnown) {
    question->unanswered = 0;
    if (homes_.size() >= params_.most_entries) {
      homes_.clear();
    }
    homes_.insert_or_assign(question->cluster, shard);
    finish(question, {});
    return;
  }
  question->is_unsure = question->is_unsure || word == Word::kNone;
  if (question->unanswered > 0) {
    return;
  }
  if (std::exchange(question->only_home, false)) {
    homes_.erase(question->cluster);  // it may have moved
    std::vector<std::string> others = params_.others();
    std::erase(others, shard);
    question->was_unsure = question->is_unsure;
    ask(question, others);
    return;
  }
  give_up(question);
}

void ShardAccounts::give_up(const QuestionPtr& question) {
  const bool is_unsure = question->is_unsure || question->was_unsure;
  finish(question, fail(is_unsure ? cannot_be_had() : is_gone()));
}

void ShardAccounts::finish(const QuestionPtr& question, const Expected<void>& verdict) {
  const auto found = entries_.find(question->key);
  if (found == entries_.end()) {
    return;
  }
  Entry& entry = *found->second;
  const std::vector<Done> waiting = std::exchange(entry.waiting, {});
  if (!verdict && verdict.error().code() != Errc::kUnauthorized) {
    entries_.erase(found);
  } else {
    entry.exists = verdict.has_value();
    entry.until = loop_.now() + (verdict ? params_.fresh : params_.stale);
  }
  for (const Done& done : waiting) {
    done(verdict ? Expected<void>() : Expected<void>(fail(verdict.error().clone())));
  }
}

}  // namespace kintsugi::controlplane
