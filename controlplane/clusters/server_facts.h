#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "apiserver/controllers/controller.h"
#include "base/alive.h"
#include "base/strings.h"
#include "krm/json.h"
#include "net/loop.h"
#include "store/store.h"

/// What this shard knows of its own work and does not read from objects that others may write
/// (KK-062, KK-292).
namespace kintsugi::controlplane {

/// Rows lie in the store under resource names "<plural>.facts", as if this were their API group. It
/// has no dot, so nobody can define a resource in it, and no registry knows it: no request reaches
/// them, of nobody. They go with their logical cluster and are part of backups.
inline constexpr std::string_view kFactsGroup = "facts";

/// Facts beside objects: one JSON object each, by where the object is. What was put is seen at
/// once; it is durable when `done` is called. Threads: one loop. The store must outlive it.
class ServerFacts {
 public:
  using Done = std::function<void(bool stored)>;
  ServerFacts(net::Loop& loop, store::Store& store) : loop_(loop), store_(store) {}
  ServerFacts(const ServerFacts&) = delete;
  ServerFacts& operator=(const ServerFacts&) = delete;

  /// @param of  group is ignored: kinds that have facts differ in their plural names.
  [[nodiscard]] std::optional<krm::Json> get(const apiserver::ObjectKey& of) const;
  /// Calls back in a later turn, and not at all when this object is gone. May be empty.
  void put(const apiserver::ObjectKey& of, krm::Json fact, Done done);
  void erase(const apiserver::ObjectKey& of);

 private:
  struct Waiting {
    std::optional<std::string> value;  // nullopt: erased
    std::uint64_t number = 0;
  };
  void commit(const std::string& key, std::optional<std::string> value, Done done);

  net::Loop& loop_;
  store::Store& store_;
  StringMap<Waiting> waiting_;
  std::uint64_t numbers_ = 0;
  Alive alive_;
};

/// A fact as the store has it, for readers on other loops. nullopt: none.
[[nodiscard]] std::optional<krm::Json> read_fact(const apiserver::ObjectReader& reader,
                                                 std::string_view cluster,
                                                 std::string_view resource, std::string_view name);

}  // namespace kintsugi::controlplane
