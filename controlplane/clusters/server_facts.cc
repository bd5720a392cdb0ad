#include "controlplane/clusters/server_facts.h"

#include <utility>
#include <vector>

#include "apiserver/keys.h"
#include "apiserver/stored_object.h"
#include "base/log.h"

namespace kintsugi::controlplane {
namespace {

using krm::Json;

std::optional<std::string> row_of(const apiserver::ObjectKey& of) {
  return apiserver::object_key(apiserver::stored_resource(kFactsGroup, of.resource), of.cluster,
                               of.ns, of.name);
}

std::optional<Json> decoded(std::string_view value) {
  Expected<Json> fact = apiserver::decode_stored(value, "v1", "Fact", 0);
  return fact ? std::optional<Json>(std::move(*fact)) : std::nullopt;
}

}  // namespace

std::optional<Json> ServerFacts::get(const apiserver::ObjectKey& of) const {
  const std::optional<std::string> key = row_of(of);
  if (!key) {
    return std::nullopt;
  }
  if (const auto waiting = waiting_.find(*key); waiting != waiting_.end()) {
    return waiting->second.value ? decoded(*waiting->second.value) : std::nullopt;
  }
  const Expected<store::Entry> entry = store_.get(*key);
  return entry ? decoded(entry->value.view()) : std::nullopt;
}

void ServerFacts::put(const apiserver::ObjectKey& of, Json fact, Done done) {
  const std::optional<std::string> key = row_of(of);
  if (!key) {
    return;
  }
  fact.make({"metadata", "name"}) = of.name;
  commit(*key, apiserver::encode_stored(fact), std::move(done));
}

void ServerFacts::erase(const apiserver::ObjectKey& of) {
  const std::optional<std::string> key = row_of(of);
  if (key && (waiting_.find(*key) != waiting_.end() || store_.get(*key))) {
    commit(*key, std::nullopt, nullptr);
  }
}

void ServerFacts::commit(const std::string& key, std::optional<std::string> value, Done done) {
  std::vector<store::Op> ops;
  ops.push_back({value ? store::EventType::kPut : store::EventType::kDelete, key,
                 value.value_or(std::string()), std::nullopt});
  const std::uint64_t number = ++numbers_;
  waiting_.insert_or_assign(key, Waiting{std::move(value), number});
  store_.commit(std::move(ops),
                [this, &loop = loop_, alive = alive_.weak(), key, number,
                 done = std::move(done)](Expected<store::CommitResult> result) mutable {
                  const bool stored = result.has_value();
                  if (!stored) {
                    log_warn("a fact cannot be stored", {{"error", result.error().to_string()}});
                  }
                  loop.post([this, alive = std::move(alive), key = std::move(key), number, stored,
                             done = std::move(done)] {
                    if (!alive) {
                      return;
                    }
                    const auto waiting = waiting_.find(key);
                    if (waiting != waiting_.end() && waiting->second.number == number) {
                      waiting_.erase(waiting);
                    }
                    if (done) {
                      done(stored);
                    }
                  });
                });
}

std::optional<Json> read_fact(const apiserver::ObjectReader& reader, std::string_view cluster,
                              std::string_view resource, std::string_view name) {
  return reader.get(cluster, kFactsGroup, resource, "", name);
}

}  // namespace kintsugi::controlplane
