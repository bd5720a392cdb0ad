#include "shards/internal/spread_upstream.h"

#include <algorithm>
#include <utility>

namespace kintsugi::shards {
namespace {

constexpr Duration kAskAgain = seconds(1);
constexpr Duration kNobodyAnswers = milliseconds(100);
/// What stands still is lost after twice this time: another process can serve what runs there.
constexpr Duration kSilence = seconds(5);

}  // namespace

SpreadUpstream::SpreadUpstream(net::Loop& loop, Place first, http::HeaderList headers)
    : loop_(loop), headers_(std::move(headers)), timer_(loop) {
  places_.push_back(std::move(first));
  fsm_.add();
}

SpreadUpstream::~SpreadUpstream() { *self_ = nullptr; }

http::RequestStream& SpreadUpstream::open(net::UpstreamClass kind, const http::RequestHead& head,
                                          http::ResponseHandler& handler) {
  look();
  const std::size_t place = fsm_.choose(kind == net::UpstreamClass::kWrite);
  return places_[place].upstream->open(kind, head, handler);
}

net::Upstream::Handle SpreadUpstream::elsewhere() noexcept {
  look();
  const bool may_answer = fsm_.has(SpreadFsm::State::kThere) || fsm_.has(SpreadFsm::State::kMaybe);
  return places_.size() > 1 && may_answer ? Handle(self_) : nullptr;
}

void SpreadUpstream::add(Place place) {
  places_.push_back(std::move(place));
  fsm_.add();
  for (const Place& one : places_) {
    one.upstream->set_ping(kSilence, kSilence);
  }
  look_after(Duration{});
}

void SpreadUpstream::ask_soon() {
  if (places_.size() > 1) {
    look_after(Duration{});
  }
}

/// Nothing is sent to a place that is away, so nobody would hear that it is back.
void SpreadUpstream::look() {
  if (places_.size() == 1) {
    return;
  }
  for (std::size_t i = 0; i < places_.size(); ++i) {
    fsm_.note(i, places_[i].upstream->failures_in_a_row());
  }
  const bool last_lost = fsm_.settle();
  if (last_lost) {
    retry_now();
  }
  if (last_lost || fsm_.has(SpreadFsm::State::kAway)) {
    look_after(last_lost ? Duration{} : kAskAgain);
  }
}

void SpreadUpstream::look_after(Duration delay) {
  const TimePoint at = loop_.now() + delay;
  if (!asks_at_ || at < *asks_at_) {
    asks_at_ = at;
    timer_.start(delay, [this] { ask(); });
  }
}

void SpreadUpstream::ask() {
  asks_at_.reset();
  look();
  for (std::size_t i = 0; i < places_.size(); ++i) {
    Place& place = places_[i];
    if (fsm_.state(i) == SpreadFsm::State::kThere) {
      continue;
    }
    look_after(fsm_.has(SpreadFsm::State::kThere) ? kAskAgain : kNobodyAnswers);
    if (place.call != nullptr) {
      continue;  // it ends in a second
    }
    net::FetchRequest request;
    request.target = "/readyz";
    request.headers = headers_;
    request.timeout = kAskAgain;
    place.call = net::fetch(
        loop_, *place.upstream, std::move(request),
        [this, url = place.url](const Expected<net::FetchResponse>& said) { hear(url, said); });
  }
}

void SpreadUpstream::hear(const std::string& url, const Expected<net::FetchResponse>& said) {
  for (std::size_t i = 0; i < places_.size(); ++i) {
    if (places_[i].url == url) {
      places_[i].call.reset();
      fsm_.on_said(i, said ? std::optional<bool>(said->status == 200) : std::nullopt);
    }
  }
}

net::UpstreamStats SpreadUpstream::stats(net::UpstreamClass kind) const noexcept {
  net::UpstreamStats sum;
  for (const Place& place : places_) {
    const net::UpstreamStats one = place.upstream->stats(kind);
    sum.connections += one.connections;
    sum.connecting += one.connecting;
    sum.streams += one.streams;
    sum.queued += one.queued;
    sum.opened += one.opened;
    sum.failed += one.failed;
    sum.requests += one.requests;
    sum.tls_unknown_ca += one.tls_unknown_ca;
    sum.tls_expired += one.tls_expired;
    sum.tls_hostname += one.tls_hostname;
    sum.tls_cipher += one.tls_cipher;
    sum.tls_other += one.tls_other;
  }
  return sum;
}

void SpreadUpstream::set_tls(std::shared_ptr<net::TlsContext> tls) noexcept {
  for (const Place& place : places_) {
    place.upstream->set_tls(tls);
  }
}

void SpreadUpstream::retry_now() noexcept {
  for (const Place& place : places_) {
    place.upstream->retry_now();
  }
}

std::uint32_t SpreadUpstream::failures_in_a_row() const noexcept {
  std::uint32_t fewest = first().failures_in_a_row();
  for (const Place& place : places_) {
    fewest = std::min(fewest, place.upstream->failures_in_a_row());
  }
  return fewest;
}

bool SpreadUpstream::has(std::string_view url) const noexcept {
  return std::any_of(places_.begin(), places_.end(),
                     [&](const Place& place) { return place.url == url; });
}

void SpreadUpstream::put_first(std::string_view url) {
  const auto place = std::find_if(places_.begin(), places_.end(),
                                  [&](const Place& one) { return one.url == url; });
  if (place != places_.end()) {
    fsm_.put_first(static_cast<std::size_t>(place - places_.begin()));
    std::rotate(places_.begin(), place, place + 1);
  }
}

std::vector<std::unique_ptr<net::Upstream>> SpreadUpstream::keep(
    const std::vector<std::string>& urls) {
  std::vector<std::unique_ptr<net::Upstream>> out;
  for (std::size_t i = places_.size(); i-- > 1;) {
    if (std::find(urls.begin(), urls.end(), places_[i].url) == urls.end()) {
      places_[i].call.reset();
      out.push_back(std::move(places_[i].upstream));
      places_.erase(places_.begin() + static_cast<std::ptrdiff_t>(i));
      fsm_.erase(i);
    }
  }
  return out;
}

}  // namespace kintsugi::shards
