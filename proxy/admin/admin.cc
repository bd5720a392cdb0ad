#include "proxy/admin/admin.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "krm/json.h"
#include "krm/request_info.h"
#include "proxy/admin/shard_health.h"
#include "proxy/admin/why_not_ready.h"
#include "proxy/console/console.h"
#include "serving/answer.h"
#include "serving/log_control.h"
#include "serving/metrics_answer.h"
#include "serving/waiting_request.h"

namespace kintsugi::proxy {
namespace {

using krm::Json;

Json upstream_json(const net::UpstreamStats& stats) {
  return Json::object({{"connections", static_cast<std::int64_t>(stats.connections)},
                       {"streams", static_cast<std::int64_t>(stats.streams)},
                       {"queued", static_cast<std::int64_t>(stats.queued)},
                       {"requests", stats.requests}});
}

/// Exports that the shard holds APIBindings of; the list is cut, the number is not.
Json consumers_json(const topology::Snapshot& index, topology::ShardId shard) {
  constexpr std::size_t kListed = 100;
  const std::vector<std::string> exports = index.consumed_exports(shard);
  Json list = Json::array();
  for (std::size_t i = 0; i < std::min(kListed, exports.size()); ++i) {
    list.push_back(exports[i]);
  }
  return Json::object({{"exports", static_cast<std::int64_t>(exports.size())}, {"list", list}});
}

std::string fault_text(const topology::FleetFault& fault) {
  return fault.reason == topology::FleetReason::kNone
             ? ""
             : std::string(topology::fleet_reason_name(fault.reason)) + ": " + fault.message;
}

Json source_json(const topology::FleetRow& row) {
  Json out = Json::object({{"object", row.object},
                           {"provider", row.provider},
                           {"state", std::string(row.state)},
                           {"reason", std::string(topology::fleet_reason_name(row.fault.reason))},
                           {"message", row.fault.message},
                           {"labelsLeftOut", static_cast<std::int64_t>(row.left_out)}});
  if (row.healthy) {
    out["controlPlaneHealthy"] = *row.healthy;
  }
  return out;
}

/// Clusters of the hub that have not joined stand behind the shards; those that are wrong say why.
void add_fleet(Json& list, const FleetReport& fleet) {
  for (const topology::FleetRow& row : fleet.rows) {
    Json::Array& shards = list.edit_items();
    auto found = std::find_if(shards.begin(), shards.end(), [&](const Json& shard) {
      return !row.name.empty() && shard.text({"name"}) == row.name;
    });
    if (found == shards.end()) {
      found = shards.insert(shards.end(),
                            Json::object({{"name", row.name.empty() ? row.object : row.name},
                                          {"labels", Json::object({})},
                                          {"baseURL", row.server},
                                          {"up", false},
                                          {"cause", fault_text(row.fault)}}));
    } else if (found->text({"cause"}).empty()) {
      (*found)["cause"] = fault_text(row.fault);
    }
    (*found)["source"] = source_json(row);
  }
}

Json hub_json(const FleetReport& fleet) {
  Json lists = Json::array();
  for (const FleetReport::List& list : fleet.lists) {
    lists.push_back(Json::object({{"path", list.path},
                                  {"listed", list.listed},
                                  {"status", list.status},
                                  {"cause", list.cause}}));
  }
  return Json::object({{"url", fleet.hub}, {"lists", std::move(lists)}});
}

Json shards_json(const topology::Feed& feed, const std::optional<FleetReport>& fleet) {
  Json list = Json::array();
  const auto statuses = feed.status();
  // As the metrics have it: with the first probe that fails, before requests are kept from it.
  const std::set<std::string> silent = silent_shards(statuses, {});
  for (const auto& info : feed.index().shards()) {
    const bool is_silent = silent.contains(info->spec.name);
    Json labels = Json::object();
    for (const auto& [key, value] : info->spec.labels) {
      labels[key] = value;
    }
    Json shard =
        Json::object({{"name", info->spec.name},
                      {"labels", labels},
                      {"baseURL", info->spec.base_url},
                      {"externalURL", info->spec.external_url},
                      {"virtualWorkspaceURL", info->spec.virtual_workspace_url},
                      {"up", info->up && !is_silent},
                      {"cause", info->up && is_silent ? "does not answer" : info->cause},
                      {"logicalClusters", static_cast<std::int64_t>(feed.index().owned(info->id))},
                      {"consumers", consumers_json(feed.index(), info->id)}});
    if (!info->spec.replica_urls.empty()) {
      Json urls = Json::array();
      for (const std::string& url : info->spec.replica_urls) {
        urls.push_back(url);
      }
      shard["replicaURLs"] = std::move(urls);
    }
    for (const auto& status : statuses) {
      if (status.name != info->spec.name) {
        continue;
      }
      if (status.certificate_end != 0) {
        shard["certificateDays"] = days_left(status.certificate_end);
      }
      for (std::size_t i = 0; i < topology::kResources; ++i) {
        const auto resource = static_cast<topology::Resource>(i);
        shard["resources"][resource_name(resource)] =
            Json::object({{"synced", info->is_synced(resource)},
                          {"objects", static_cast<std::int64_t>(status.resources[i].objects)},
                          {"events", status.resources[i].events},
                          {"lists", status.resources[i].lists},
                          {"failures", status.resources[i].failures}});
      }
    }
    list.push_back(std::move(shard));
  }
  Json refused = Json::array();
  for (const auto& one : feed.refusals()) {
    refused.push_back(Json::object({{"shard", one.server},
                                    {"path", one.path},
                                    {"code", one.code},
                                    {"message", one.message},
                                    {"user", one.user},
                                    {"times", one.times}}));
  }
  if (fleet) {
    add_fleet(list, *fleet);
  }
  Json out = Json::object(
      {{"shards", std::move(list)}, {"refused", std::move(refused)}, {"ready", feed.ready()}});
  if (fleet) {
    out["hub"] = hub_json(*fleet);
  }
  return out;
}

Json routes_json(const topology::Feed& feed, const ExplainSources& sources) {
  return Json::object({{"logicalClusters", static_cast<std::int64_t>(feed.index().cluster_count())},
                       {"workspaces", static_cast<std::int64_t>(feed.index().workspace_count())},
                       {"generation", feed.index().generation()},
                       {"bytes", static_cast<std::int64_t>(feed.index().bytes())},
                       {"routes", route_forms(feed.index(), sources)}});
}

/// How long the turns of a loop took, and what the slow ones spent their time with (PERF-104).
Json turns_json(const net::Loop::Stats& stats) {
  using Loop = net::Loop;
  Json classes = Json::array();
  for (std::size_t i = 0; i < stats.turns_below.size(); ++i) {
    if (stats.turns_below[i] != 0) {
      Json one = Json::object({{"turns", stats.turns_below[i]}});
      if (i + 1 < stats.turns_below.size()) {
        one["belowMicroseconds"] = std::uint64_t{1} << i;
      }
      classes.push_back(std::move(one));
    }
  }
  Json slow = Json::object({});
  for (std::size_t i = 0; i < stats.slow_turns_by.size(); ++i) {
    if (stats.slow_turns_by[i] != 0) {
      slow[std::string(Loop::part_name(static_cast<Loop::Part>(i)))] = stats.slow_turns_by[i];
    }
  }
  return Json::object(
      {{"histogram", std::move(classes)},
       {"slowBy", std::move(slow)},
       {"longest",
        Json::object({{"microseconds", stats.longest_turn_us},
                      {"largestPart", std::string(Loop::part_name(stats.longest_part))}})}});
}

Json loops_json(const std::vector<LoopReport>& loops) {
  Json list = Json::array();
  for (const LoopReport& loop : loops) {
    Json one =
        Json::object({{"name", loop.name},
                      {"turns", loop.loop.turns},
                      {"slowTurns", loop.loop.slow_turns},
                      {"turnTimes", turns_json(loop.loop)},
                      {"writes", loop.loop.writes},
                      {"writesOutsideFlush", loop.loop.writes_outside_flush},
                      {"timers", static_cast<std::int64_t>(loop.loop.timers)},
                      {"connections", static_cast<std::int64_t>(loop.listener.connections)},
                      {"streams", static_cast<std::int64_t>(loop.listener.streams)},
                      {"largestQueueBytes", static_cast<std::int64_t>(loop.listener.largest_queue)},
                      {"forwardedRequests", loop.forward.requests},
                      {"watches", static_cast<std::int64_t>(loop.forward.watches)}});
    for (const LoopReport::Upstream& upstream : loop.upstreams) {
      one["upstreams"][upstream.shard] = Json::object({{"watch", upstream_json(upstream.watch)},
                                                       {"read", upstream_json(upstream.read)},
                                                       {"write", upstream_json(upstream.write)}});
    }
    list.push_back(std::move(one));
  }
  return Json::object({{"loops", std::move(list)}});
}

/// Who has what of the process: the only place that names payers (SE-094).
Json fairness_json(const TopologyReport& report) {
  constexpr std::size_t kPayers = 100;
  const auto number = [](std::uint64_t value) { return Json(static_cast<std::int64_t>(value)); };
  Json out = Json::object({});
  if (report.limits != nullptr) {
    const auto totals = report.limits->totals();
    Json levels = Json::object({});
    for (std::size_t i = 0; i < serving::kLevels; ++i) {
      levels[std::string(serving::level_name(static_cast<serving::Level>(i)))] =
          Json::object({{"taken", number(totals[i].seats)},
                        {"waiting", number(totals[i].waiting)},
                        {"served", number(totals[i].served)},
                        {"full", number(totals[i].full)},
                        {"late", number(totals[i].late)}});
    }
    out["seats"] = Json::object(
        {{"open", number(report.limits->open_seats())}, {"levels", std::move(levels)}});
    const net::ConnectionBook& book = *report.limits->connections();
    Json payers = Json::array();
    for (const auto& [name, connections] : book.largest(kPayers)) {
      payers.push_back(Json::object({{"payer", name}, {"connections", number(connections)}}));
    }
    out["connections"] = Json::object({{"open", number(book.connections())},
                                       {"limit", number(book.limits().process)},
                                       {"payers", std::move(payers)}});
  }
  if (report.pressure != nullptr) {
    out["memory"] =
        Json::object({{"used", number(report.pressure->used())},
                      {"budget", number(report.pressure->budget())},
                      {"step", std::string(serving::step_name(report.pressure->step()))}});
  }
  return out;
}

/// Every watch that runs, or the first of them: by what waits for the client, then by age.
void add_watches(Json& out, const std::vector<LoopReport>& loops) {
  std::vector<std::pair<const serving::WatchRow*, const LoopReport*>> rows;
  std::size_t open = 0;
  for (const LoopReport& loop : loops) {
    open += loop.open_watches;
    for (const serving::WatchRow& watch : loop.watches) {
      rows.emplace_back(&watch, &loop);
    }
  }
  std::stable_sort(rows.begin(), rows.end(), [](const auto& one, const auto& other) {
    return one.first->queue != other.first->queue ? one.first->queue > other.first->queue
                                                  : one.first->age > other.first->age;
  });
  Json list = Json::array();
  for (const auto& [watch, loop] : rows) {
    Json shards = Json::array();
    for (const std::string& shard : watch->shards) {
      shards.push_back(shard);
    }
    list.push_back(Json::object({{"kind", std::string(watch->kind)},
                                 {"user", watch->user},
                                 {"address", watch->address},
                                 {"cluster", watch->cluster},
                                 {"path", watch->path},
                                 {"shards", std::move(shards)},
                                 {"ageSeconds", watch->age},
                                 {"sentBytes", watch->sent},
                                 {"queueBytes", static_cast<std::int64_t>(watch->queue)},
                                 {"loop", loop->name}}));
  }
  out["watchesOpen"] = static_cast<std::int64_t>(open);
  out["watchesCut"] = static_cast<std::int64_t>(open - rows.size());
  out["watches"] = std::move(list);
}

/// Besides the groups of merged watches: who shares what (AGG-901).
Json streams_json(const std::vector<LoopReport>& loops) {
  Json list = Json::array();
  for (const LoopReport& loop : loops) {
    for (const aggregation::GroupReport& group : loop.groups) {
      Json shards = Json::array();
      std::int64_t streams = 0;
      for (const aggregation::GroupReport::Shard& shard : group.shards) {
        streams += shard.relayed ? 0 : 1;
        shards.push_back(Json::object({{"shard", shard.name},
                                       {"state", std::string(shard.state)},
                                       {"from", shard.relayed ? "another loop" : "the shard"},
                                       {"position", std::to_string(shard.position)}}));
      }
      list.push_back(Json::object(
          {{"loop", loop.name},
           {"route", group.route},
           {"path", group.path},
           {"query", group.query},
           {"user", group.user},
           {"share", group.reviewed ? "reviewed" : "caller"},
           {"callers", static_cast<std::int64_t>(group.callers)},
           {"readers", static_cast<std::int64_t>(group.readers)},
           {"streams", streams},
           {"streamsUnshared", static_cast<std::int64_t>(group.readers * group.shards.size())},
           {"logEvents", static_cast<std::int64_t>(group.log_events)},
           {"logBytes", static_cast<std::int64_t>(group.log_bytes)},
           {"shards", std::move(shards)}}));
    }
  }
  Json out = Json::object({});
  add_watches(out, loops);
  out["mergedWatches"] = std::move(list);
  return out;
}

}  // namespace

AdminHandler::AdminHandler(AdminParams params)
    : params_(std::move(params)),
      log_(std::make_unique<serving::LogControl>(params_.loop)),
      console_(std::make_unique<Console>(params_)) {}

AdminHandler::~AdminHandler() = default;

std::unique_ptr<http::RequestHandler> AdminHandler::rotate_keys(http::RequestHead head,
                                                                http::ResponseStream& stream) {
  auto waiting = std::make_unique<serving::WaitingRequest>();
  params_.rotate_keys(
      [weak = waiting->weak(), head = std::move(head), &stream](const Expected<void>& done) {
        serving::WaitingRequest* const self = *weak;
        if (self == nullptr || self->closed()) {
          return;
        }
        if (done) {
          self->go_on(serving::answer_json(head, stream, 200, "{\"state\": \"next\"}\n"));
          return;
        }
        const Errc code = done.error().code();
        const int status = code == Errc::kConflict || code == Errc::kConfig ? 409 : 503;
        self->go_on(
            serving::answer_text(head, stream, status, std::string(done.error().message()) + "\n"));
      });
  return waiting;
}

std::unique_ptr<http::RequestHandler> AdminHandler::explain_request(http::RequestHead head,
                                                                    http::ResponseStream& stream,
                                                                    const krm::Query& query) {
  auth::UserInfo user;
  user.name = query.get("as").value_or("");
  for (const std::string_view group : query.all("as-group")) {
    user.groups.emplace_back(group);
  }
  if (!auth::is_within_bounds(user) || (user.name.empty() && !user.groups.empty())) {
    return serving::answer_text(head, stream, 400,
                                "as-group: groups of the user that `as` names, at most 1000\n");
  }
  auto waiting = std::make_unique<serving::WaitingRequest>();
  const auto index = [this]() -> const topology::Snapshot& { return params_.feed.index(); };
  std::string path(query.get("path").value_or(""));
  std::string method(query.get("method").value_or("GET"));
  auto show = [weak = waiting->weak(), head = std::move(head), &stream](const Json& document) {
    if (serving::WaitingRequest* self = *weak; self != nullptr && !self->closed()) {
      self->go_on(serving::answer_json(head, stream, 200, document.dump_pretty()));
    }
  };
  if (user.name.empty()) {
    explain(index, params_.explain, std::move(path), std::move(method), std::move(show));
  } else {
    explain_for(index, params_.explain, std::move(path), std::move(method), std::move(user),
                std::move(show));
  }
  return waiting;
}

std::unique_ptr<http::RequestHandler> AdminHandler::on_request(
    http::RequestHead head, http::ResponseStream& stream) noexcept {
  const std::string_view target = head.target;
  const std::size_t question = target.find('?');
  const std::string_view path = target.substr(0, question);
  const krm::Query query(question == std::string_view::npos ? std::string_view()
                                                            : target.substr(question + 1));
  if (Console::has(path)) {
    return console_->on_request(std::move(head), stream);
  }
  const bool is_log = path == "/debug/log";
  if (is_log && (head.method == "GET" || head.method == "HEAD" || head.method == "PUT")) {
    return log_->on_request(head, stream, query);
  }
  if (head.method == "POST" && path == "/keys/rotate" && params_.rotate_keys) {
    return rotate_keys(std::move(head), stream);
  }
  if (head.method != "GET" && head.method != "HEAD") {
    return serving::answer_text(
        head, stream, 405,
        is_log ? "only GET and PUT are served here\n" : "only GET is served here\n");
  }
  if (path == "/debug/shards") {
    return serving::answer_json(head, stream, 200,
                                shards_json(params_.feed, params_.topology().fleet).dump_pretty());
  }
  if (path == "/debug/routes") {
    return serving::answer_json(head, stream, 200,
                                routes_json(params_.feed, params_.explain).dump_pretty());
  }
  if (path == "/debug/fairness") {
    return serving::answer_json(head, stream, 200, fairness_json(params_.topology()).dump_pretty());
  }
  if (path == "/debug/config") {
    return serving::answer_text(head, stream, 200, params_.config_text);
  }
  if (path == "/explain") {
    const auto wanted = query.get("path");
    if (!wanted || wanted->empty()) {
      return serving::answer_text(
          head, stream, 400,
          "parameter path is missing: /explain?path=root:org or /explain?path=/clusters/…\n");
    }
    return explain_request(std::move(head), stream, query);
  }
  if (path == "/livez" || path == "/readyz") {
    const bool ok = path == "/livez" || params_.feed.ready();
    const bool verbose = !ok && query.get("verbose").has_value();
    return serving::answer_text(
        head, stream, ok ? 200 : 500,
        ok ? "ok"
           : "informer-sync failed" + (verbose ? ": " + why_not_ready(params_.feed) : "") + "\n");
  }
  const bool metrics = path == "/metrics";
  const bool streams = path == "/debug/streams";
  if (!metrics && !streams && path != "/debug/loops") {
    return serving::answer_text(
        head, stream, 404,
        "served here: /metrics /debug/shards /debug/routes /debug/loops /debug/streams "
        "/debug/fairness /debug/config /debug/log /explain?path= /livez /readyz /ui/\n");
  }
  auto waiting = std::make_unique<serving::WaitingRequest>();
  const ReportPart part = streams ? ReportPart::kWatches : ReportPart::kFigures;
  params_.collect(part, [this, metrics, streams, head = std::move(head), &stream,
                         weak = waiting->weak()](const std::vector<LoopReport>& loops) {
    serving::WaitingRequest* const self = *weak;
    if (self == nullptr || self->closed()) {
      return;
    }
    if (metrics) {
      self->go_on(serving::answer_metrics(head, stream,
                                          render_metrics(params_.feed, loops, params_.topology())));
    } else {
      self->go_on(serving::answer_json(
          head, stream, 200, (streams ? streams_json(loops) : loops_json(loops)).dump_pretty()));
    }
  });
  return waiting;
}

}  // namespace kintsugi::proxy
