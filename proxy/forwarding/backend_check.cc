#include "proxy/forwarding/backend_check.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/log.h"
#include "base/strings.h"
#include "krm/go_text.h"
#include "krm/json.h"
#include "krm/path_prefixes.h"

namespace kintsugi::proxy {
namespace {

constexpr Duration kFirstPause = milliseconds(500);
constexpr Duration kTimeout = seconds(3);
/// Longer than from one place to the next; between rounds no connection is kept.
constexpr Duration kIdle = milliseconds(250);
constexpr int kBriefAttempts = 4;
constexpr std::size_t kAtOnce = 32;
constexpr std::string_view kReviews = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
/// Where reviews may be served: kcp's shards do it below a logical cluster.
constexpr std::array<std::string_view, 2> kPlaces = {krm::kRootClusterPath, ""};
/// And what to get where none are, as at a server of virtual workspaces: an ordinary user may not,
/// and is told so by name.
constexpr std::string_view kForNobody = "/metrics";

Error takes_for_a_user(const std::string& what, const std::string& user) {
  return Error(Errc::kConfig, what +
                                  ": the client certificate does not assert identities there: "
                                  "every caller would be user " +
                                  krm::go_quote(user) + ". Name a request-header pair");
}

/// `forbidden: User "<name>" cannot get path "/…"`: of who may not get it.
std::string refused_user(std::string_view text) {
  constexpr std::string_view kBegin = "forbidden: User \"", kEnd = "\" cannot ";
  const std::size_t end = text.find(kEnd, kBegin.size());
  return text.starts_with(kBegin) && end != std::string_view::npos
             ? std::string(text.substr(kBegin.size(), end - kBegin.size()))
             : std::string();
}

}  // namespace

std::string reviewed_user(int status, std::string_view body) {
  const Expected<krm::Json> answer = krm::Json::parse(body);
  if (!answer || !answer->is_object()) {
    return {};
  }
  if (status == 200 || status == 201) {
    return std::string(answer->text({"status", "userInfo", "username"}));
  }
  if (status != 403 || answer->text({"kind"}) != "Status") {
    return {};
  }
  // `selfsubjectreviews.authentication.k8s.io is forbidden: User "<name>" cannot create …`
  constexpr std::string_view kBegin =
      "selfsubjectreviews.authentication.k8s.io is forbidden: User \"";
  constexpr std::string_view kEnd = "\" cannot create resource \"selfsubjectreviews\"";
  const std::string_view text = answer->text({"message"});
  const std::size_t end = text.rfind(kEnd);
  if (!text.starts_with(kBegin) || end == std::string_view::npos || end < kBegin.size()) {
    return refused_user(text);
  }
  return std::string(text.substr(kBegin.size(), end - kBegin.size()));
}

/// One target under way.
struct BackendCheck::Asked {
  Asked(net::Loop& loop, BackendTarget asked_target) : target(std::move(asked_target)) {
    prefix = std::exchange(target.server.url.path, {});
    target.server.idle_close = kIdle;
    server = net::Upstream::make(loop, target.server);
  }
  BackendTarget target;
  std::string prefix;  ///< path of its URL
  std::unique_ptr<net::Upstream> server;
  bool tried = false;
  net::Job job;  ///< judge(), which uses all the others
};

BackendCheck::BackendCheck(net::Loop& loop, std::vector<BackendTarget> targets, Hooks hooks,
                           Duration longest_pause)
    : loop_(loop),
      longest_pause_(longest_pause),
      nobody_("kintsugi-backend-check-" + hex_encode(random_bytes(8))),
      hooks_(std::move(hooks)),
      waiting_(std::move(targets)) {
  loop_.post([this, alive = alive_.weak()] {
    if (alive) {
      begin();
    }
  });
}

BackendCheck::~BackendCheck() = default;

void BackendCheck::begin() {
  const auto untried = [this] {
    return static_cast<std::size_t>(std::count_if(asked_.begin(), asked_.end(),
                                                  [](const auto& asked) { return !asked->tried; }));
  };
  while (!waiting_.empty() && untried() < kAtOnce) {
    asked_.push_back(std::make_unique<Asked>(loop_, std::move(waiting_.back())));
    waiting_.pop_back();
    Asked& asked = *asked_.back();
    asked.job = net::Job(judge(asked));
  }
  if (waiting_.empty() && untried() == 0 && hooks_.tried) {
    loop_.post(std::exchange(hooks_.tried, nullptr));
  }
  if (waiting_.empty() && asked_.empty()) {
    finish({});
  }
}

net::FetchRequest BackendCheck::question(const Asked& asked, std::size_t place) const {
  net::FetchRequest request;
  if (place == kPlaces.size()) {
    request.target = asked.prefix + std::string(kForNobody);
    request.headers.add("accept", "application/json");
    request.timeout = kTimeout;
    return request;
  }
  request.method = "POST";
  request.target = asked.prefix + std::string(kPlaces[place]) + std::string(kReviews);
  request.headers.add("content-type", "application/json");
  request.headers.add("accept", "application/json");
  request.body = R"({"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"})";
  request.timeout = kTimeout;
  return request;
}

net::Task<> BackendCheck::judge(Asked& asked) {
  const Duration turn{};
  co_await net::sleep(loop_, turn);  // begin() is on the stack, and goes on
  auth::UserInfo nobody;
  nobody.name = nobody_;
  nobody.groups = {std::string(auth::kGroupAuthenticated)};
  Duration pause = kFirstPause;
  std::size_t place = 0;
  int attempts = 0;
  for (;;) {
    net::FetchRequest request = question(asked, place);
    if (!auth::stamp_identity(request.headers, nobody, asked.target.names)) {
      told(asked);
      co_return;
    }
    net::Answer<Expected<net::FetchResponse>> waited;
    const auto call = net::fetch(loop_, *asked.server, std::move(request), waited.callback());
    const Expected<net::FetchResponse> answer = co_await waited;
    const std::string user = answer ? reviewed_user(answer->status, answer->body) : std::string();
    if (user == nobody_) {
      told(asked);
      co_return;
    }
    if (!user.empty()) {
      finish(fail(takes_for_a_user(asked.target.what, user)));
      co_return;
    }
    const bool is_no = answer && answer->status < 500 && answer->status != 429;
    if (is_no && place < kPlaces.size()) {
      ++place;
      continue;
    }
    place = 0;
    const bool enough = !answer || is_no || ++attempts == kBriefAttempts;
    if (enough && !std::exchange(asked.tried, true)) {
      if (answer) {
        log_warn("a server does not tell whom it takes the proxy for",
                 {{"server", asked.target.what}, {"status", answer->status}});
      }
      begin();
    }
    const Duration rest = std::exchange(pause, std::min(2 * pause, longest_pause_));
    co_await net::sleep(loop_, rest);
  }
}

/// It is judge() that says so: what it uses goes in a later turn.
void BackendCheck::told(Asked& asked) {
  const auto one = std::find_if(asked_.begin(), asked_.end(),
                                [&asked](const auto& each) { return each.get() == &asked; });
  if (one != asked_.end()) {
    std::shared_ptr<Asked> over = std::move(*one);
    asked_.erase(one);
    loop_.defer([over] {});
  }
  begin();
}

void BackendCheck::finish(Expected<void> result) {
  waiting_.clear();
  auto over = std::make_shared<std::list<std::unique_ptr<Asked>>>(std::move(asked_));
  asked_.clear();
  loop_.defer([over] { over->clear(); });
  if (auto told = std::exchange(hooks_.told, nullptr)) {
    auto shared = std::make_shared<Expected<void>>(std::move(result));
    loop_.post([told = std::move(told), shared] { told(std::move(*shared)); });
  }
}

}  // namespace kintsugi::proxy
