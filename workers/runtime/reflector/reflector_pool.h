#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <typeinfo>
#include <utility>

#include "base/time.h"
#include "http/headers.h"
#include "net/loop.h"
#include "net/upstream.h"
#include "shards/informer.h"
#include "workers/runtime/reflector/object_cache.h"

namespace kintsugi::workers {

/// Which objects are followed, and under which name the role's projection of them is known.
struct ReflectorSpec {
  std::string target;           ///< path of the collection ("/clusters/*/api/v1/configmaps")
  std::string kind;             ///< of the objects ("ConfigMap"); "": not checked
  std::string selector;         ///< "labelSelector=…&fieldSelector=…", encoded; "": all
  std::string projection;       ///< distinguishes projections to the same type
  std::string default_cluster;  ///< of objects without the annotation
  bool one_shard = true;        ///< the endpoint is one shard: revisions of events move the cursor
};

/// A cache and the informer that fills it.
class Reflector {
 public:
  Reflector(net::Loop& loop, ReflectorSpec spec, std::unique_ptr<CacheCore> cache,
            shards::InformerParams params, const http::HeaderList& headers);
  [[nodiscard]] const ReflectorSpec& spec() const noexcept { return spec_; }
  [[nodiscard]] CacheCore& cache() noexcept { return *cache_; }
  [[nodiscard]] const CacheCore& cache() const noexcept { return *cache_; }
  [[nodiscard]] const shards::InformerFsm& machine() const noexcept { return informer_.machine(); }
  [[nodiscard]] unsigned users() const noexcept { return users_; }

 private:
  friend class ReflectorPool;
  void arm();

  net::Loop& loop_;
  ReflectorSpec spec_;
  std::unique_ptr<CacheCore> cache_;
  shards::Informer informer_;
  net::Timer due_, linger_;
  unsigned users_ = 0;
  std::function<void()> unused_;  // set by the pool while it lives
};

/// One user's share of a reflector: while it lives, the cache is filled. Movable.
template <class T>
class CacheUse {
 public:
  CacheUse() noexcept = default;
  CacheUse(std::shared_ptr<Reflector> reflector, std::function<void(Reflector&)> release)
      : reflector_(std::move(reflector)), release_(std::move(release)) {}
  CacheUse(CacheUse&& other) noexcept
      : reflector_(std::move(other.reflector_)), release_(std::move(other.release_)) {}
  CacheUse& operator=(CacheUse&& other) noexcept {
    if (this != &other) {
      end();
      reflector_ = std::move(other.reflector_);
      release_ = std::move(other.release_);
    }
    return *this;
  }
  ~CacheUse() { end(); }
  [[nodiscard]] explicit operator bool() const noexcept { return reflector_ != nullptr; }
  [[nodiscard]] ObjectCache<T>& operator*() const noexcept {
    return static_cast<ObjectCache<T>&>(reflector_->cache());
  }
  [[nodiscard]] ObjectCache<T>* operator->() const noexcept { return &**this; }
  [[nodiscard]] const Reflector& reflector() const noexcept { return *reflector_; }
  void end() noexcept {
    if (reflector_ != nullptr) {
      release_(*reflector_);
      reflector_.reset();
    }
  }

 private:
  std::shared_ptr<Reflector> reflector_;
  std::function<void(Reflector&)> release_;
};

struct ReflectorPoolParams {
  http::HeaderList headers;       ///< of every request (User-Agent by RT-16, Authorization)
  Duration linger = seconds(60);  ///< from the last user to the end
  Duration rest_min = milliseconds(800);
  std::uint64_t seed = 1;
};

/// The reflectors of one unit: one per (collection, selector, projection), shared by its users and
/// kept for a while after the last one (RT-30). RT-28's PING is the upstream's: ping_after 30 s,
/// ping_timeout 15 s.
/// Threads: the loop's. Lifetime: must not die inside a callback of a cache or an informer; a use
/// that outlives it keeps a cache that nothing fills.
class ReflectorPool {
 public:
  ReflectorPool(net::Loop& loop, net::Upstream& upstream, ReflectorPoolParams params);
  ~ReflectorPool();
  ReflectorPool(const ReflectorPool&) = delete;
  ReflectorPool& operator=(const ReflectorPool&) = delete;

  /// @param projection of the first user; that of later ones is taken to be the same, as its type
  ///        and ReflectorSpec::projection are.
  template <class T>
  [[nodiscard]] CacheUse<T> use(const ReflectorSpec& spec, const Projection<T>& projection) {
    const std::string key = key_of(spec, typeid(T).name());
    std::shared_ptr<Reflector> reflector = find(key);
    if (reflector == nullptr) {
      auto cache = std::make_unique<ObjectCache<T>>(projection, spec.default_cluster);
      reflector = add(key, spec, std::move(cache));
    }
    take(*reflector);
    return {std::move(reflector), [](Reflector& one) { release(one); }};
  }

  /// The unit is reached elsewhere from now on: everything is listed again there.
  void set_upstream(net::Upstream& upstream);
  /// Discovery has changed, or the shard is back: what rests asks at once (RT-29).
  void kick();
  [[nodiscard]] std::size_t size() const noexcept { return reflectors_.size(); }
  /// `visit(const Reflector&)` for metrics and readiness.
  template <class Visit>
  void each(Visit&& visit) const {
    for (const auto& [key, reflector] : reflectors_) {
      visit(static_cast<const Reflector&>(*reflector));
    }
  }

 private:
  [[nodiscard]] static std::string key_of(const ReflectorSpec& spec, const char* type);
  [[nodiscard]] std::shared_ptr<Reflector> find(const std::string& key) const;
  [[nodiscard]] std::shared_ptr<Reflector> add(const std::string& key, const ReflectorSpec& spec,
                                               std::unique_ptr<CacheCore> cache);
  static void take(Reflector& reflector);
  static void release(Reflector& reflector);
  void drop(const std::string& key);

  net::Loop& loop_;
  net::Upstream* upstream_;
  ReflectorPoolParams params_;
  std::map<std::string, std::shared_ptr<Reflector>> reflectors_;
  /// Collections that were dropped and have no initial events, and until when that is remembered.
  std::map<std::string, TimePoint> no_watch_list_;
};

}  // namespace kintsugi::workers
