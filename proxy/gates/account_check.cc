#include "proxy/gates/account_check.h"

#include <utility>
#include <vector>

#include "auth/access_review.h"
#include "base/digest.h"
#include "krm/json.h"
#include "krm/status.h"
#include "shards/own_requests.h"

namespace kintsugi::proxy {
namespace {

constexpr int kRetryAfter = 1;  // [s]

Error cannot_be_had() {
  return krm::unavailable("the service account cannot be checked now", kRetryAfter);
}

constexpr std::string_view kReviews = "/apis/authentication.k8s.io/v1/tokenreviews";

std::string review_of(std::string_view token, const std::vector<std::string>& audiences) {
  krm::Json spec = krm::Json::object({{"token", token}});
  for (const std::string& audience : audiences) {
    spec["audiences"].push_back(audience);
  }
  return krm::Json::object({{"apiVersion", "authentication.k8s.io/v1"},
                            {"kind", "TokenReview"},
                            {"spec", std::move(spec)}})
      .dump();
}

/// Whether the owner knows the account as the token's. @error the answer tells nothing
Expected<bool> is_known(Expected<net::FetchResponse> answer, const std::string& user,
                        const std::string& uid) {
  const Expected<krm::Json> review = auth::read_review(std::move(answer));
  const krm::Json* status = review ? review->find("status") : nullptr;
  if (status == nullptr || !status->is_object()) {
    return fail(cannot_be_had());
  }
  const krm::Json* good = status->find("authenticated");
  return good != nullptr && good->as_bool() && status->text({"user", "username"}) == user &&
         status->text({"user", "uid"}) == uid;
}

}  // namespace

struct AccountCheck::Entry {
  std::unique_ptr<net::Call> call;
  std::vector<std::function<void(Expected<void>)>> waiting;
  bool good = false;
  TimePoint good_until{};
};

AccountCheck::AccountCheck(net::Loop& loop, FindReviewTarget find,
                           std::function<bool(std::string_view)> is_gone)
    : AccountCheck(loop, std::move(find), std::move(is_gone), Limits()) {}
AccountCheck::AccountCheck(net::Loop& loop, FindReviewTarget find,
                           std::function<bool(std::string_view)> is_gone, Limits limits)
    : loop_(loop), find_(std::move(find)), is_gone_(std::move(is_gone)), limits_(limits) {}
AccountCheck::~AccountCheck() = default;

void AccountCheck::check(std::string_view token, const Result& account,
                         std::function<void(Expected<void>)> done) {
  const std::vector<std::string>* home = account.user.extra_values(auth::kExtraClusterName);
  const std::string cluster = home != nullptr && home->size() == 1 ? home->front() : "";
  if (cluster.empty() || is_gone_(cluster)) {
    done(fail(Errc::kUnauthorized, "Unauthorized"));
    return;
  }
  const auto digest = sha256(cluster + '|' + std::string(token));
  const std::string key(reinterpret_cast<const char*>(digest.data()), digest.size());
  if (entries_.size() >= limits_.max_entries) {
    std::erase_if(entries_, [](const auto& each) { return each.second->call == nullptr; });
  }
  auto& entry = entries_[key];
  if (entry == nullptr) {
    entry = std::make_unique<Entry>();
  }
  if (entry->good && loop_.now() < entry->good_until) {
    done({});
    return;
  }
  entry->waiting.push_back(std::move(done));
  if (entry->call != nullptr) {
    return;
  }
  auto target = find_(cluster);
  if (!target) {
    finish(key, fail(cannot_be_had()));
    return;
  }
  net::FetchRequest request =
      auth::review_request(target->base_target + std::string(kReviews),
                           review_of(token, account.audiences), limits_.timeout);
  entry->call = shards::own_fetch(
      loop_, *target->upstream, std::move(request),
      [this, key, user = account.user.name,
       uid = account.user.uid](Expected<net::FetchResponse> answer) {
        const Expected<bool> known = is_known(std::move(answer), user, uid);
        finish(key, !known   ? Expected<void>(fail(known.error().clone()))
                    : *known ? Expected<void>()
                             : Expected<void>(fail(Errc::kUnauthorized, "Unauthorized")));
      });
}

void AccountCheck::finish(const std::string& key, Expected<void> result) {
  const auto found = entries_.find(key);
  Entry& entry = *found->second;
  auto over = std::make_shared<std::unique_ptr<net::Call>>(std::move(entry.call));
  loop_.defer([over] { over->reset(); });  // this may be its callback
  auto waiting = std::exchange(entry.waiting, {});
  entry.good = result.has_value();
  entry.good_until = loop_.now() + limits_.fresh;
  if (!entry.good) {
    entries_.erase(found);
  }
  for (const auto& done : waiting) {
    done(result ? Expected<void>() : Expected<void>(fail(result.error().clone())));
  }
}

void CheckedAccounts::authenticate_token(const auth::BearerPtr& token,
                                         const std::vector<std::string>& audiences,
                                         std::string_view cluster, Done done) {
  tokens_->authenticate_token(
      token, audiences, cluster,
      [this, token, done = std::move(done)](Expected<std::optional<Result>> result) {
        if (!result || !*result) {
          done(std::move(result));
          return;
        }
        auto known = std::make_shared<Result>(std::move(**result));
        check_.check(token->text(), *known, [known, done](Expected<void> exists) {
          if (exists) {
            done(std::optional<Result>(std::move(*known)));
          } else {
            done(fail(std::move(exists.error())));
          }
        });
      });
}

}  // namespace kintsugi::proxy
