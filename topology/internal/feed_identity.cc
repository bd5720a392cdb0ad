#include "topology/internal/feed_identity.h"

#include <algorithm>
#include <utility>

#include "krm/json.h"
#include "krm/path_prefixes.h"
#include "shards/own_requests.h"

namespace kintsugi::topology {
namespace {

constexpr Duration kTimeout = seconds(5);
constexpr Duration kPatience = seconds(30);
constexpr Duration kSlowPoll = seconds(10);
constexpr Duration kSuspicion = seconds(60);
constexpr int kNotFound = 404;

}  // namespace

IdentityReader::IdentityReader(
    net::Loop& loop, net::Upstream& root, Params params,
    std::function<void(std::string_view name, const std::string& hash)> changed)
    : loop_(loop),
      root_(root),
      params_(std::move(params)),
      changed_(std::move(changed)),
      timer_(loop) {
  exports_[0].name = kTenancy;
  exports_[1].name = "topology.kcp.io";
  exports_[2].name = "shards.core.kcp.io";
  exports_[3].name = "migration.kcp.io";
  params_.headers.set("accept", "application/json");
}

void IdentityReader::start() {
  patience_ = loop_.now() + kPatience;
  read(true);
}

std::string_view IdentityReader::hash(std::string_view name) const noexcept {
  for (const Export& item : exports_) {
    if (item.name == name) {
      return item.hash;
    }
  }
  return {};
}

void IdentityReader::refresh_soon() {
  suspicious_until_ = loop_.now() + kSuspicion;
  schedule();
}

void IdentityReader::read(bool all) {
  if (all) {
    last_all_ = loop_.now();
  }
  for (Export& item : exports_) {
    if (item.running || (!all && !item.hash.empty())) {
      continue;
    }
    net::FetchRequest request;
    request.target = std::string(krm::kRootClusterPath) + "/apis/apis.kcp.io/v1alpha2/apiexports/" +
                     std::string(item.name);
    const std::string target = request.target;
    request.headers = params_.headers;
    request.timeout = kTimeout;
    item.running = true;
    item.call = shards::own_fetch(loop_, root_, std::move(request),
                                  [this, &item, target](Expected<net::FetchResponse> answer) {
                                    item.running = false;
                                    tell(item, target, answer);
                                    take(item, std::move(answer));
                                  });
  }
  schedule();
}

void IdentityReader::tell(const Export& item, const std::string& target,
                          const Expected<net::FetchResponse>& answer) const {
  // Of what another version of kcp has not, nothing is made (FP-104).
  const bool absent = answer && answer->status == kNotFound && item.name != kTenancy;
  if (answer && !absent && params_.heard) {
    params_.heard(target, answer->status, answer->status < 400 ? "" : answer->body);
  }
}

void IdentityReader::take(Export& item, Expected<net::FetchResponse> answer) {
  if (!answer || answer->status != 200) {
    return;
  }
  const auto object = krm::Json::parse(answer->body);
  if (!object) {
    return;
  }
  const std::string hash(object->text({"status", "identityHash"}));
  if (!hash.empty() && hash != item.hash) {
    item.hash = hash;
    if (item.name == kTenancy) {
      suspicious_until_ = {};
    }
    changed_(item.name, item.hash);
  }
}

void IdentityReader::schedule() {
  const TimePoint now = loop_.now();
  const bool complete = std::none_of(exports_.begin(), exports_.end(),
                                     [](const Export& item) { return item.hash.empty(); });
  Duration wait = last_all_ + params_.refresh - now;
  if (now < suspicious_until_) {
    wait = std::min<Duration>(wait, last_all_ + params_.pause - now);
  }
  if (!complete) {
    const bool eager = exports_[0].hash.empty() || now < patience_;
    wait = std::min<Duration>(wait, eager ? params_.poll : kSlowPoll);
  }
  timer_.start(std::max<Duration>(wait, Duration::zero()), [this] {
    const TimePoint at = loop_.now();
    const bool due = at >= last_all_ + params_.refresh ||
                     (at < suspicious_until_ && at >= last_all_ + params_.pause);
    read(due);
  });
}

}  // namespace kintsugi::topology
