#include "workers/runtime/endpoints/endpoint_set.h"

#include <algorithm>
#include <utility>

namespace kintsugi::workers {

std::vector<UnitEndpoint> EndpointSet::accept(const std::vector<std::string>& urls,
                                              std::vector<RefusedEndpoint>& refused) const {
  const auto refuse = [&refused](std::string_view url, std::string_view reason) {
    RefusedEndpoint entry{shown_url(url), std::string(reason)};
    if (refused.size() < kMaxUnits &&
        std::find(refused.begin(), refused.end(), entry) == refused.end()) {
      refused.push_back(std::move(entry));
    }
  };
  std::vector<UnitEndpoint> wanted;
  for (const std::string& url : urls) {
    auto endpoint = parse_endpoint(url, rules_);
    if (endpoint) {
      wanted.push_back(std::move(*endpoint));
    } else {
      refuse(url, endpoint.error().message());
    }
  }
  std::sort(wanted.begin(), wanted.end(),
            [](const UnitEndpoint& a, const UnitEndpoint& b) { return a.url < b.url; });
  wanted.erase(std::unique(wanted.begin(), wanted.end()), wanted.end());
  return wanted;
}

EndpointChange EndpointSet::update(const std::vector<std::string>& urls, TimePoint now) {
  EndpointChange change;
  std::vector<RefusedEndpoint> refused;
  std::vector<UnitEndpoint> wanted = accept(urls, refused);
  std::size_t live = 0;
  const auto position = [this](std::string_view url) {
    return std::lower_bound(
        units_.begin(), units_.end(), url,
        [](const Unit& u, std::string_view text) { return u.endpoint.url < text; });
  };
  for (Unit& unit : units_) {
    const bool is_wanted = std::binary_search(
        wanted.begin(), wanted.end(), unit.endpoint,
        [](const UnitEndpoint& a, const UnitEndpoint& b) { return a.url < b.url; });
    if (unit.state == State::kRunning && !is_wanted) {
      unit.state = State::kDraining;
      unit.since = now;
      unit.told = false;
      change.drain.push_back(unit.endpoint);
    }
    unit.returns = unit.state == State::kDraining && is_wanted;
    live += unit.state != State::kKept ? 1 : 0;
  }
  for (UnitEndpoint& endpoint : wanted) {
    const auto at = position(endpoint.url);
    const bool known = at != units_.end() && at->endpoint.url == endpoint.url;
    if (known && at->state != State::kKept) {
      continue;
    }
    if (live >= kMaxUnits) {
      if (refused.size() < kMaxUnits) {
        refused.push_back({shown_url(endpoint.url), "more than 1,024 units"});
      }
      continue;
    }
    ++live;
    change.start.push_back(endpoint);
    if (known) {
      at->state = State::kRunning;
      at->since = now;
    } else {
      units_.insert(at, Unit{std::move(endpoint), State::kRunning, false, false, now});
    }
  }
  for (const RefusedEndpoint& entry : refused) {
    if (std::find(refused_.begin(), refused_.end(), entry) == refused_.end()) {
      change.refused.push_back(entry);
    }
  }
  refused_ = std::move(refused);
  return change;
}

std::optional<UnitEndpoint> EndpointSet::on_drained(std::string_view name, TimePoint now) {
  const auto at = std::find_if(units_.begin(), units_.end(), [name](const Unit& unit) {
    return unit.endpoint.name == name && unit.state == State::kDraining;
  });
  if (at == units_.end()) {
    return std::nullopt;
  }
  at->since = now;
  if (at->returns) {
    at->returns = false;
    at->state = State::kRunning;
    return at->endpoint;
  }
  at->state = State::kKept;
  return std::nullopt;
}

std::vector<std::string> EndpointSet::overdue(TimePoint now) {
  std::vector<std::string> names;
  for (Unit& unit : units_) {
    if (unit.state == State::kDraining && !unit.told && now - unit.since >= kDrain) {
      unit.told = true;
      names.push_back(unit.endpoint.name);
    }
  }
  return names;
}

std::vector<std::string> EndpointSet::expired(TimePoint now) {
  std::vector<TimePoint> since;
  for (const Unit& unit : units_) {
    if (unit.state == State::kKept) {
      since.push_back(unit.since);
    }
  }
  TimePoint newest_to_go = now - kKeep;
  if (since.size() > kMaxKept) {
    const auto at = since.end() - static_cast<std::ptrdiff_t>(kMaxKept) - 1;
    std::nth_element(since.begin(), at, since.end());
    newest_to_go = std::max(newest_to_go, *at);
  }
  std::vector<std::string> names;
  std::erase_if(units_, [&](const Unit& unit) {
    const bool goes = unit.state == State::kKept && unit.since <= newest_to_go;
    if (goes) {
      names.push_back(unit.endpoint.name);
    }
    return goes;
  });
  return names;
}

std::vector<UnitEndpoint> EndpointSet::running() const {
  std::vector<UnitEndpoint> result;
  for (const Unit& unit : units_) {
    if (unit.state == State::kRunning) {
      result.push_back(unit.endpoint);
    }
  }
  return result;
}

}  // namespace kintsugi::workers
