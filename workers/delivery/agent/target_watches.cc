#include "workers/delivery/agent/target_watches.h"

#include <algorithm>
#include <utility>

#include "krm/path_prefixes.h"

namespace kintsugi::workers {
namespace {

constexpr Duration kAskLook = milliseconds(5);
constexpr Duration kServedFor = std::chrono::minutes(10), kNotServedFor = seconds(1),
                   kNotServedMost = seconds(5);
constexpr std::string_view kSelector = "labelSelector=concertmaster-cache%3DTrue";

Projection<Target> target_projection() {
  Projection<Target> out;
  out.make = [](const shards::ObjectKey&, const krm::Json& object) { return make_target(object); };
  return out;
}

Resource resource_of(const std::string& api_version) {
  const std::size_t slash = api_version.find('/');
  return slash == std::string::npos
             ? Resource{"", api_version, "", ""}
             : Resource{api_version.substr(0, slash), api_version.substr(slash + 1), "", ""};
}

}  // namespace

std::string TargetKind::path(const std::string& cluster, const ManifestRecord& record) const {
  std::string out = krm::cluster_root(cluster) + resource.base();
  if (namespaced) {
    out += "/namespaces/" + record.ns;
  }
  return out + "/" + resource.name + "/" + record.name;
}

TargetWatches::TargetWatches(Unit& unit, std::function<void(const OrderName&)> changed)
    : unit_(unit), changed_(std::move(changed)) {}

net::Task<Expected<std::optional<TargetKind>>> TargetWatches::kind(std::string cluster,
                                                                   std::string api_version,
                                                                   std::string kind) {
  const std::string name = cluster + "|" + api_version;
  while (known_[name].asking) {
    net::Sleep rest(unit_.loop(), kAskLook);
    co_await rest;
  }
  if (known_[name].until <= unit_.loop().now()) {
    known_[name].asking = true;
    const Resource resource = resource_of(api_version);
    const std::string path = krm::cluster_root(cluster) + resource.base();
    net::Task<ApiAnswer> asking = unit_.home().get(path);
    const ApiAnswer answer = co_await asking;
    known_[name].asking = false;
    if (!answer.ok() && !answer.is(404)) {
      co_return fail(Errc::kUnavailable, answer.text());
    }
    Known known;
    known.served = answer.ok();
    known.until = unit_.loop().now() + kServedFor;
    known.misses = known_[name].misses;
    bool has = false;
    if (const krm::Json* const list = answer.body.find("resources"); known.served && list) {
      for (const krm::Json& one : list->items()) {
        const std::string plural(one.text({"name"}));
        if (plural.find('/') != std::string::npos || plural.empty()) {
          continue;
        }
        TargetKind made{resource, false};
        made.resource.name = plural;
        made.resource.kind = one.text({"kind"});
        const krm::Json* const namespaced = one.find("namespaced");
        made.namespaced = namespaced != nullptr && namespaced->as_bool();
        has = has || made.resource.kind == kind;
        known.kinds[made.resource.kind] = made;
      }
    }
    if (has) {
      known.misses = 0;
    } else {
      known.until = unit_.loop().now() +
                    std::min(kNotServedFor * (1U << std::min(known.misses, 3U)), kNotServedMost);
      ++known.misses;
    }
    known_[name] = std::move(known);
  }
  Known& known = known_[name];
  const auto found = known.kinds.find(kind);
  if (found == known.kinds.end()) {
    known.until = std::min(known.until, unit_.loop().now() + kNotServedMost);
    co_return std::optional<TargetKind>();
  }
  co_return std::optional(found->second);
}

Duration TargetWatches::ask_again(const std::string& cluster,
                                  const std::string& api_version) const {
  const auto known = known_.find(cluster + "|" + api_version);
  const TimePoint now = unit_.loop().now();
  const Duration rest = known == known_.end() ? Duration{} : known->second.until - now;
  return std::max<Duration>(rest, milliseconds(1));
}

void TargetWatches::forget_kind(const std::string& cluster, const std::string& api_version) {
  known_.erase(cluster + "|" + api_version);
}

void TargetWatches::watch(const OrderName& order, const TargetKind& kind,
                          const ManifestRecord& record) {
  Place place;
  place.watch = order.cluster + "|" + kind.resource.base() + "/" + kind.resource.name;
  place.cluster = order.cluster;
  place.ns = kind.namespaced ? record.ns : std::string();
  place.name = record.name;
  if (const auto known = places_.find(order); known != places_.end()) {
    if (known->second.watch == place.watch && known->second.ns == place.ns &&
        known->second.name == place.name) {
      return;
    }
    unwatch(order);
  }
  Watch& watch = watches_[place.watch];
  if (watch.orders++ == 0) {
    watch.use = unit_.follow_home<Target>(order.cluster, kind.resource, std::string(kSelector),
                                          target_projection());
    const std::string name = place.watch;
    watch.handler = watch.use->add_handler([this, name](const CacheChange& change) {
      const auto at = watches_.find(name);
      if (at == watches_.end()) {
        return;
      }
      if (at->second.cluster != change.key.cluster) {
        at->second.cluster = change.key.cluster;
      }
      if (change.echo) {
        return;
      }
      const auto [first, last] = at->second.by_name.equal_range(
          {std::string(change.key.ns), std::string(change.key.name)});
      std::for_each(first, last, [this](const auto& one) { changed_(one.second); });
    });
  }
  watch.by_name.emplace(std::pair(place.ns, place.name), order);
  places_[order] = std::move(place);
}

void TargetWatches::unwatch(const OrderName& order) {
  const auto known = places_.find(order);
  if (known == places_.end()) {
    return;
  }
  const auto at = watches_.find(known->second.watch);
  Watch& watch = at->second;
  const auto [first, last] = watch.by_name.equal_range({known->second.ns, known->second.name});
  const auto own =
      std::find_if(first, last, [&order](const auto& one) { return one.second == order; });
  watch.by_name.erase(own);
  places_.erase(known);
  if (--watch.orders == 0) {
    watch.use->remove_handler(watch.handler);
    watches_.erase(at);
  }
}

ObjectCache<Target>* TargetWatches::cache(const OrderName& order) {
  const auto known = places_.find(order);
  return known == places_.end() ? nullptr : &*watches_.find(known->second.watch)->second.use;
}

int TargetWatches::refusal(const OrderName& order) const {
  const auto known = places_.find(order);
  return known == places_.end()
             ? 0
             : watches_.find(known->second.watch)->second.use.reflector().machine().refusal();
}

bool TargetWatches::find(const OrderName& order, shards::ObjectKey& key) const {
  const auto known = places_.find(order);
  if (known == places_.end()) {
    return false;
  }
  const Watch& watch = watches_.find(known->second.watch)->second;
  key = {watch.cluster.empty() ? known->second.cluster : watch.cluster, known->second.ns,
         known->second.name};
  return true;
}

}  // namespace kintsugi::workers
