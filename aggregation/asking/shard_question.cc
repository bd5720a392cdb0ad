#include "aggregation/asking/shard_question.h"

#include <utility>

#include "aggregation/asking/internal/list_accept.h"

namespace kintsugi::aggregation {
namespace {

std::string target_of(std::string_view path, std::string query) {
  if (!query.empty()) {
    query.front() = '?';
  }
  return std::string(path) + query;
}

}  // namespace

http::RequestHead ShardQuestion::watch(const WatchStart& start, bool narrowed) const {
  http::RequestHead out = head;
  out.target = route.path + watch_query(start, passed_on);
  if (narrowed) {
    out.headers.set("accept", accept_only(accept(), shape.coding->media_type));
  }
  return out;
}

http::RequestHead ShardQuestion::list(std::string_view query, std::string_view more,
                                      std::string_view path) const {
  http::RequestHead out = head;
  std::string whole(query);
  whole.append(passed_on).append(more);
  out.target = target_of(path.empty() ? std::string_view(route.path) : path, std::move(whole));
  const std::string of_lists = list_accept(accept());
  out.headers.set("accept", shape.coding == nullptr
                                ? of_lists
                                : accept_only(of_lists, shape.coding->media_type));
  return out;
}

http::RequestHead ShardQuestion::probe() const {
  http::RequestHead out = head;
  out.target = target_of(route.path, "&limit=1" + passed_on);
  std::string as_json = list_accept(accept());
  const std::string_view protobuf = protobuf_coding().media_type;
  const std::string_view json = json_coding().media_type;
  for (std::size_t at; (at = as_json.find(protobuf)) != std::string::npos;) {
    as_json.replace(at, protobuf.size(), json);
  }
  out.headers.set("accept", as_json);
  return out;
}

std::string asked_identity(const http::RequestHead& head) {
  std::string out;
  for (std::size_t i = 0; i < head.headers.size(); ++i) {
    const auto header = head.headers[i];
    if (header.name.starts_with("x-remote-") || header.name.starts_with("impersonate-") ||
        header.name == "authorization") {
      out += header.name;
      out += ':';
      out += header.value;
      out += '\n';
    }
  }
  return out;
}

std::string ask_shard(Asking& shared, const MergeRoute& route, topology::ShardId shard,
                      net::UpstreamClass kind, http::RequestHead head, MemberCall& call) {
  shards::ShardClient* client = shared.client_of(route, shard);
  MemberCall::Turn turn;
  if (client != nullptr && shared.seats_of) {
    turn.seats = &shared.seats_of(client->name());
    turn.who = {route.caller.level, route.caller.payer, route.caller.cluster};
    turn.wait = shared.params.first_byte / 2;  // the rest is the shard's
  }
  if (client != nullptr && call.open(*client, kind, std::move(head), turn)) {
    return {};
  }
  return client == nullptr || client->cause().empty() ? "not known yet"
                                                      : std::string(client->cause());
}

}  // namespace kintsugi::aggregation
