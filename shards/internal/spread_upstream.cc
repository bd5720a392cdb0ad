#include "shards/internal/spread_upstream.h"

#include <algorithm>
#include <utility>

namespace kintsugi::shards {
namespace {

constexpr Duration kAskAgain = seconds(1);

bool answers(const SpreadUpstream::Place& place) {
  return !place.away && place.upstream->failures_in_a_row() == 0;
}

}  // namespace

SpreadUpstream::SpreadUpstream(net::Loop& loop, Place first, http::HeaderList headers)
    : loop_(loop), headers_(std::move(headers)), timer_(loop) {
  places_.push_back(std::move(first));
}

http::RequestStream& SpreadUpstream::open(net::UpstreamClass kind, const http::RequestHead& head,
                                          http::ResponseHandler& handler) {
  return choose(kind).open(kind, head, handler);
}

void SpreadUpstream::add(Place place) {
  place.away = true;
  places_.push_back(std::move(place));
  look_after();
}

net::Upstream& SpreadUpstream::choose(net::UpstreamClass kind) {
  if (places_.size() == 1) {
    return *places_.front().upstream;
  }
  for (Place& place : places_) {
    if (!place.away && !answers(place)) {
      place.away = true;
      look_after();
    }
  }
  if (kind == net::UpstreamClass::kWrite && answers(places_.front())) {
    return *places_.front().upstream;
  }
  for (std::size_t tried = 0; tried < places_.size(); ++tried) {
    const Place& place = places_[++turn_ % places_.size()];
    if (answers(place)) {
      return *place.upstream;
    }
  }
  return *places_[++turn_ % places_.size()].upstream;
}

/// Nothing is sent to a place that is away, so nobody would hear that it is back.
void SpreadUpstream::look_after() {
  if (!looks_) {
    looks_ = true;
    timer_.start(kAskAgain, [this] { ask(); });
  }
}

void SpreadUpstream::ask() {
  calls_.clear();
  looks_ = false;
  for (const Place& place : places_) {
    if (!place.away) {
      continue;
    }
    net::FetchRequest request;
    request.target = "/readyz";
    request.headers = headers_;
    request.timeout = kAskAgain;
    calls_.push_back(net::fetch(loop_, *place.upstream, std::move(request),
                                [this, url = place.url](const Expected<net::FetchResponse>& said) {
                                  if (said && said->status == 200) {
                                    is_ready(url);
                                  }
                                }));
    look_after();
  }
}

void SpreadUpstream::is_ready(const std::string& url) {
  for (Place& place : places_) {
    place.away = place.away && place.url != url;
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
    fewest = place.away ? fewest : std::min(fewest, place.upstream->failures_in_a_row());
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
    std::rotate(places_.begin(), place, place + 1);
  }
}

std::vector<std::unique_ptr<net::Upstream>> SpreadUpstream::keep(
    const std::vector<std::string>& urls) {
  const auto goes = [&](const Place& place) {
    return std::find(urls.begin(), urls.end(), place.url) == urls.end();
  };
  const auto rest = std::stable_partition(places_.begin() + 1, places_.end(),
                                          [&](const Place& place) { return !goes(place); });
  std::vector<std::unique_ptr<net::Upstream>> out;
  for (auto place = rest; place != places_.end(); ++place) {
    out.push_back(std::move(place->upstream));
  }
  if (!out.empty()) {
    calls_.clear();  // what is asked of them goes with them
  }
  places_.erase(rest, places_.end());
  return out;
}

}  // namespace kintsugi::shards
