#include "proxy/account_check.h"

#include <optional>
#include <utility>
#include <vector>

#include "krm/json.h"
#include "krm/status.h"

namespace kintsugi::proxy {
namespace {

constexpr int kRetryAfter = 1;  // [s]

Error cannot_be_had() {
  return krm::unavailable("the service account cannot be checked now", kRetryAfter);
}

/// An object that has to exist with this uid.
struct Wanted {
  std::string path, uid;
};

std::vector<Wanted> wanted_by(const auth::ServiceAccountClaims& claims) {
  const std::string ns = "/api/v1/namespaces/" + percent_encode(claims.ns);
  std::vector<Wanted> all = {{ns + "/serviceaccounts/" + percent_encode(claims.name), claims.uid}};
  if (claims.bound_kind == "Secret") {
    all.push_back({ns + "/secrets/" + percent_encode(claims.bound_name), claims.bound_uid});
  } else if (claims.bound_kind == "Pod") {
    all.push_back({ns + "/pods/" + percent_encode(claims.bound_name), claims.bound_uid});
  }
  return all;
}

/// nullopt: the answer tells nothing.
std::optional<bool> exists(const Expected<net::FetchResponse>& answer, const std::string& uid) {
  if (answer && answer->status == 404) {
    return false;
  }
  if (!answer || answer->status != 200) {
    return std::nullopt;
  }
  const auto object = krm::Json::parse(answer->body);
  if (!object) {
    return std::nullopt;
  }
  return uid.empty() || object->text({"metadata", "uid"}) == uid;
}

}  // namespace

struct AccountCheck::Entry {
  std::vector<std::unique_ptr<net::Call>> calls;
  std::vector<std::function<void(Expected<void>)>> waiting;
  std::size_t left = 0;
  bool gone = false, unclear = false;
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

void AccountCheck::check(const auth::ServiceAccountClaims& claims,
                         std::function<void(Expected<void>)> done) {
  if (claims.cluster.empty() || is_gone_(claims.cluster)) {
    done(fail(Errc::kUnauthorized, "Unauthorized"));
    return;
  }
  const std::vector<Wanted> all = wanted_by(claims);
  std::string key = claims.cluster;
  for (const Wanted& one : all) {
    key.append("|").append(one.path).append("|").append(one.uid);
  }
  if (entries_.size() >= limits_.max_entries) {
    std::erase_if(entries_, [](const auto& each) { return each.second->left == 0; });
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
  if (entry->left != 0) {
    return;
  }
  auto target = find_(claims.cluster);
  if (!target) {
    finish(key, fail(cannot_be_had()));
    return;
  }
  entry->left = all.size();
  entry->gone = entry->unclear = false;
  for (const Wanted& one : all) {
    net::FetchRequest request;
    request.target = target->base_target + one.path;
    request.headers.add("accept", "application/json");
    request.timeout = limits_.timeout;
    entry->calls.push_back(net::fetch(
        loop_, *target->upstream, std::move(request),
        [this, key, uid = one.uid](const Expected<net::FetchResponse>& answer) {
          Entry& asked = *entries_.find(key)->second;
          const auto there = exists(answer, uid);
          asked.unclear = asked.unclear || !there;
          asked.gone = asked.gone || (there && !*there);
          if (--asked.left == 0) {
            finish(key, asked.gone      ? Expected<void>(fail(Errc::kUnauthorized, "Unauthorized"))
                        : asked.unclear ? Expected<void>(fail(cannot_be_had()))
                                        : Expected<void>());
          }
        }));
  }
}

void AccountCheck::finish(const std::string& key, Expected<void> result) {
  const auto found = entries_.find(key);
  Entry& entry = *found->second;
  auto over = std::make_shared<std::vector<std::unique_ptr<net::Call>>>(std::move(entry.calls));
  entry.calls.clear();
  loop_.defer([over] { over->clear(); });  // this may be one of their callbacks
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

}  // namespace kintsugi::proxy
