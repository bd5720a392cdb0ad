#include "workers/runtime/reflector/reflector_pool.h"

#include <algorithm>
#include <vector>

namespace kintsugi::workers {

Reflector::Reflector(net::Loop& loop, ReflectorSpec spec, std::unique_ptr<CacheCore> cache,
                     shards::InformerParams params, const http::HeaderList& headers)
    : loop_(loop),
      spec_(std::move(spec)),
      cache_(std::move(cache)),
      informer_(loop, std::move(params), headers, *cache_),
      due_(loop),
      linger_(loop) {
  cache_->attach(informer_.machine().keys());
  cache_->on_deadline([this] { arm(); });
}

void Reflector::arm() {
  const TimePoint at = cache_->deadline();
  if (at == TimePoint::max()) {
    return;
  }
  const TimePoint now = loop_.now();
  due_.start(at <= now ? Duration::zero() : at - now, [this] {
    const std::vector<std::function<void()>> calls = cache_->due(loop_.now());
    arm();
    for (const std::function<void()>& call : calls) {
      call();  // may end this reflector
    }
  });
}

ReflectorPool::ReflectorPool(net::Loop& loop, net::Upstream& upstream, ReflectorPoolParams params)
    : loop_(loop), upstream_(&upstream), params_(std::move(params)) {}

ReflectorPool::~ReflectorPool() {
  for (const auto& [key, reflector] : reflectors_) {
    reflector->unused_ = nullptr;
    reflector->linger_.cancel();
    reflector->informer_.stop();
  }
}

std::string ReflectorPool::key_of(const ReflectorSpec& spec, const char* type) {
  std::string key = spec.target;
  for (const std::string& part : {spec.selector, spec.projection, spec.kind, std::string(type)}) {
    key.append("\n").append(part);
  }
  return key;
}

std::shared_ptr<Reflector> ReflectorPool::find(const std::string& key) const {
  const auto at = reflectors_.find(key);
  return at == reflectors_.end() ? nullptr : at->second;
}

std::shared_ptr<Reflector> ReflectorPool::add(const std::string& key, const ReflectorSpec& spec,
                                              std::unique_ptr<CacheCore> cache) {
  shards::InformerParams params = shards::reflector_params(spec.target, spec.kind);
  params.default_cluster = spec.default_cluster;
  params.rest_min = params_.rest_min;
  params.seed = ++params_.seed;
  params.reflector.selector = spec.selector;
  params.reflector.one_shard = spec.one_shard;
  if (const auto known = no_watch_list_.find(spec.target); known != no_watch_list_.end()) {
    params.reflector.no_watch_list_until = known->second;
  }
  auto reflector = std::make_shared<Reflector>(loop_, spec, std::move(cache), std::move(params),
                                               params_.headers);
  Reflector& added = *reflector;
  added.unused_ = [this, key, &added] {
    added.linger_.start(params_.linger, [this, key] { drop(key); });
  };
  reflectors_.emplace(key, reflector);
  added.informer_.start(*upstream_);
  return reflector;
}

void ReflectorPool::take(Reflector& reflector) {
  ++reflector.users_;
  reflector.linger_.cancel();
}

void ReflectorPool::release(Reflector& reflector) {
  if (--reflector.users_ == 0 && reflector.unused_) {
    reflector.unused_();
  }
}

void ReflectorPool::drop(const std::string& key) {
  const auto at = reflectors_.find(key);
  std::shared_ptr<Reflector> gone = std::move(at->second);
  reflectors_.erase(at);
  gone->informer_.stop();
  const TimePoint now = loop_.now();
  std::erase_if(no_watch_list_, [now](const auto& one) { return one.second <= now; });
  if (const TimePoint until = gone->machine().no_watch_list_until(); until > now) {
    no_watch_list_[gone->spec().target] = until;
  }
  loop_.defer([gone] {});  // not inside its own timer
}

void ReflectorPool::set_upstream(net::Upstream& upstream) {
  upstream_ = &upstream;
  no_watch_list_.clear();
  for (const auto& [key, reflector] : reflectors_) {
    reflector->informer_.set_upstream(upstream);
  }
}

void ReflectorPool::kick() {
  for (const auto& [key, reflector] : reflectors_) {
    reflector->informer_.kick();
  }
}

}  // namespace kintsugi::workers
