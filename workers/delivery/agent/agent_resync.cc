#include "workers/delivery/agent/agent_resync.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <utility>

#include "base/strings.h"

namespace kintsugi::workers {
namespace {

constexpr Duration kQuiet = seconds(1), kMostQuiet = seconds(30), kAgain = std::chrono::hours(1),
                   kTellEvery = milliseconds(100);
constexpr std::size_t kTellAtOnce = 100, kIdLength = 8;  // 1,000 a second

}  // namespace

AgentResync::AgentResync(net::Loop& loop, Hooks hooks)
    : loop_(loop), hooks_(std::move(hooks)), send_(loop), tell_(loop) {}

void AgentResync::begin() {
  latest_ = loop_.now() + kMostQuiet;
  waiting_ = true;
  arm(kQuiet);
}

void AgentResync::heard() {
  if (waiting_) {
    arm(std::clamp<Duration>(latest_ - loop_.now(), Duration::zero(), kQuiet));
  }
}

void AgentResync::stop() {
  tell_.cancel();
  again_.clear();
  if (std::exchange(waiting_, false)) {
    arm(kAgain);
  }
}

void AgentResync::arm(Duration wait) {
  send_.start(wait, [this] { send_orders(); });
}

void AgentResync::send_orders() {
  waiting_ = false;
  for (const std::string& batch :
       encode_resync(ResyncKind::kVersions, random_suffix(kIdLength), hooks_.orders())) {
    hooks_.send(batch);
  }
  arm(kAgain);
}

Expected<void> AgentResync::take(std::string_view payload, std::string_view prefix) {
  auto batch = parse_resync(payload);
  if (!batch) {
    return fail(std::move(batch.error()));
  }
  if (batch->kind != ResyncKind::kStatusHashes) {
    return fail(Errc::kBadRequest, "an agent takes a StatusHashList");
  }
  if (const auto has = list_.take(std::move(*batch))) {
    compare(*has, prefix);
  }
  return {};
}

void AgentResync::compare(const std::vector<ResyncItem>& has, std::string_view prefix) {
  std::map<std::string_view, std::string_view> hashes;
  for (const ResyncItem& item : has) {
    hashes[item.uid] = item.status_hash;
  }
  for (ResyncItem& told : hooks_.statuses(prefix)) {
    const auto found = hashes.find(told.uid);
    const bool same = found != hashes.end() && found->second.size() >= kLeastStatusHash &&
                      told.status_hash.starts_with(found->second);
    if (!same) {
      again_.push_back(std::move(told.uid));
    }
  }
  tell_some();
}

void AgentResync::tell_some() {
  for (std::size_t i = 0; i < kTellAtOnce && !again_.empty(); ++i) {
    const std::string uid = std::move(again_.front());
    again_.pop_front();
    hooks_.tell_again(uid);
  }
  if (!again_.empty()) {
    tell_.start(kTellEvery, [this] { tell_some(); });
  }
}

}  // namespace kintsugi::workers
