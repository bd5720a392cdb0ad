#include "aggregation/asking/asking.h"

namespace kintsugi::aggregation {
namespace {

constexpr std::size_t kListsFirst = 4'096;
constexpr Duration kRefusal = seconds(30);
constexpr unsigned kMostRepeats = 3;

std::string list_key(topology::ShardId shard, const Scope& scope) {
  return std::to_string(shard) + '\n' + scope.route + '\n' + scope.group + '\n' + scope.resource;
}

}  // namespace

bool asks_partial(const MergeOptions& options, const http::HeaderList& headers) {
  return options.policy == MissingShards::kPartial ||
         (options.allow_partial && headers.get("x-kintsugi-partial") == "true");
}

void Asking::list_first(topology::ShardId shard, const Scope& scope, Duration duration) {
  if (lists_first_.size() >= kListsFirst) {
    std::erase_if(lists_first_, [this](const auto& one) { return one.second <= loop.now(); });
  }
  if (lists_first_.size() < kListsFirst) {
    lists_first_[list_key(shard, scope)] = loop.now() + duration;
  }
}

bool Asking::lists_first(topology::ShardId shard, const Scope& scope) const {
  const auto found =
      lists_first_.empty() ? lists_first_.end() : lists_first_.find(list_key(shard, scope));
  return found != lists_first_.end() && found->second > loop.now();
}

bool Asking::sends_again(const MergeRoute& route, topology::ShardId shard, Errc lost,
                         unsigned repeats) {
  if (lost == Errc::kCancelled || repeats >= kMostRepeats) {
    return false;
  }
  if (lost == Errc::kNotProcessed && repeats == 0) {
    return true;
  }
  const shards::ShardClient* client = client_of(route, shard);
  return client != nullptr && client->answers_elsewhere();
}

bool Asking::has_no_place(topology::ShardId shard) {
  if (!positions_.are_small()) {
    return false;
  }
  refused_[shard] = loop.now() + kRefusal;
  return true;
}

bool Asking::is_refused(topology::ShardId shard) const {
  const auto found = refused_.empty() ? refused_.end() : refused_.find(shard);
  return found != refused_.end() && found->second > loop.now();
}

shards::ShardClient* Asking::client_of(const MergeRoute& route, topology::ShardId shard) {
  topology::ShardPool* from = route.reviewed ? own_pool : &pool;
  if (from == nullptr) {
    return nullptr;
  }
  return route.virtual_url ? from->find_virtual(shard) : from->find(shard);
}

}  // namespace kintsugi::aggregation
