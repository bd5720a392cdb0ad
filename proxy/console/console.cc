#include "proxy/console/console.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "auth/x509_identity.h"
#include "proxy/console/console_answer.h"
#include "proxy/console/console_link.h"
#include "proxy/console/internal/console_page.h"
#include "proxy/console/internal/live_views.h"
#include "proxy/console/internal/report_cache.h"
#include "proxy/console/internal/view_rows.h"
#include "proxy/console/internal/viewer_scope.h"
#include "serving/waiting_request.h"

namespace kintsugi::proxy {
namespace {

using krm::Json;

constexpr std::ptrdiff_t kMostOfUser = 16;  ///< of kMostAsked

std::unique_ptr<http::RequestHandler> answer_json(const http::RequestHead& head,
                                                  http::ResponseStream& stream,
                                                  const Json& document) {
  return console_answer(head, stream, 200, console_headers("application/json", "no-store"),
                        document.dump() + "\n");
}

/// Who looks: whoever gets to the admin listener sees everything.
ViewerScope administrator(const http::PeerInfo& peer) {
  ViewerScope scope;
  scope.is_administrator = true;
  scope.user = "administrator of this machine";
  if (const auth::CertificateIdentity* identity = auth::certificate_of(peer)) {
    scope.user = identity->common_name;
    scope.groups = identity->organizations;
  }
  return scope;
}

void put_open_watches(const std::vector<LoopReport>& loops, Json& out) {
  std::uint64_t open = 0, told = 0;
  for (const LoopReport& loop : loops) {
    open += loop.open_watches;
    told += loop.watches.size();
  }
  out["watchesOpen"] = open;
  out["watchesCut"] = open - told;
}

}  // namespace

struct Console::State {
  /// A question of a data loop.
  struct Asked {
    explicit Asked(std::shared_ptr<ConsoleLink> link) : stream(std::move(link)) {}
    LinkStream stream;
    std::unique_ptr<http::RequestHandler> answer;
    std::string user;
  };
  explicit State(const AdminParams& params)
      : admin(params), reports(params), live(params, rates, timeline, started), timer(params.loop) {
    timer.start(seconds(1), [this] { look(); });
  }
  /// So that there is a timeline for who comes later: states each second, counters each fifth time.
  void look() {
    if (turn++ % 5 == 0) {
      admin.collect(ReportPart::kCounts, alive.guard([this](const std::vector<LoopReport>& loops) {
        timeline.take(timeline_sample(admin.feed, loops, admin.topology()), unix_microseconds());
      }));
    } else {
      timeline.take_shards(shard_states(admin.feed), unix_microseconds());
    }
    timer.start(seconds(1), [this] { look(); });
  }
  const AdminParams& admin;
  const TimePoint started = Clock::now();
  Rates rates;
  Timeline timeline;
  ReportCache reports;
  LiveViews live;
  net::Timer timer;
  std::uint64_t turn = 0;
  Alive alive;
  std::map<const ConsoleLink*, std::unique_ptr<Asked>> asked;
};

Console::Console(const AdminParams& admin)
    : admin_(admin), state_(std::make_unique<State>(admin)) {}

Console::~Console() = default;

std::unique_ptr<http::RequestHandler> Console::on_request(http::RequestHead head,
                                                          http::ResponseStream& stream) noexcept {
  const std::string path = head.target.substr(0, head.target.find('?'));
  if (auto page = answer_page(head, stream, path)) {
    return page;
  }
  return answer(std::move(head), stream, administrator(stream.peer()));
}

void Console::ask(ConsoleAsked&& asked) {
  auto one = std::make_unique<State::Asked>(asked.link);
  one->user = asked.scope.user;
  const auto of_user =
      std::count_if(state_->asked.begin(), state_->asked.end(),
                    [&one](const auto& other) { return other.second->user == one->user; });
  if (state_->asked.size() >= kMostAsked || of_user >= kMostOfUser) {
    (void)console_error(asked.head, one->stream, 429, "much is asked of the console just now");
    return;
  }
  State::Asked& kept = *state_->asked.emplace(asked.link.get(), std::move(one)).first->second;
  kept.answer = answer(std::move(asked.head), kept.stream, asked.scope);
}

void Console::left(const ConsoleLink& link, Errc cause) {
  if (const auto node = state_->asked.extract(&link); !node.empty()) {
    node.mapped()->answer->on_close(cause);
  }
}

void Console::drained(const ConsoleLink& link) {
  if (const auto found = state_->asked.find(&link); found != state_->asked.end()) {
    found->second->answer->on_drained();
  }
}

Console::Answer Console::answer(http::RequestHead head, http::ResponseStream& stream,
                                const ViewerScope& scope) {
  const std::string target = head.target;
  const std::size_t question = std::min(target.find('?'), target.size());
  const std::string_view name = console_name(std::string_view(target).substr(0, question));
  const krm::Query query(std::string_view(target).substr(std::min(question + 1, target.size())));
  if ((is_view(name) || name == "explain") && scope.sight(name) == Sight::kNothing) {
    return console_error(head, stream, 403, "this is not for you to see");
  }
  if (is_view(name)) {
    return answer_view(std::move(head), stream, name, query, scope);
  }
  if (name == "explain") {
    return answer_explain(std::move(head), stream, query);
  }
  if (name == "live" && head.method == "GET") {
    return state_->live.open(head, stream, query.get("views").value_or(""), scope);
  }
  return console_error(head, stream, 404,
                       "served here: overview shards streams slices partitions sets workers events "
                       "explain live");
}

Console::Answer Console::answer_view(http::RequestHead head, http::ResponseStream& stream,
                                     std::string_view view, const krm::Query& query,
                                     const ViewerScope& scope) {
  auto wanted = RowQuery::of(query);
  if (!wanted) {
    return console_error(head, stream, 400, wanted.error().message());
  }
  auto waiting = std::make_unique<serving::WaitingRequest>();
  const bool counts_watches = view == "streams" || view == "overview";
  const auto part = counts_watches ? ReportPart::kWatches : ReportPart::kFigures;
  const bool is_of_workers = view == "workers" && admin_.ask_workers;
  auto show = [this, weak = waiting->weak(), head = std::move(head), &stream,
               view = std::string(view), rows = *wanted,
               scope](const std::vector<LoopReport>& loops) {
    serving::WaitingRequest* const self = *weak;
    if (self == nullptr || self->closed()) {
      return;
    }
    const TopologyReport topology = admin_.topology();
    const TimePoint now = Clock::now();
    state_->rates.take(loops, now);
    ViewRows all = rows_of(
        view, {admin_, loops, topology, state_->rates, state_->timeline, now, state_->started});
    const bool sees_all = scope.sight(view) == Sight::kAll;
    Json out = page_of(sees_all ? std::move(all) : part_of(view, all, scope), rows);
    out["generated"] = rfc3339_micro(unix_microseconds());
    out["viewer"] = scope.document();
    if (view == "streams" && sees_all) {
      put_open_watches(loops, out);
    }
    self->go_on(answer_json(head, stream, out));
  };
  if (is_of_workers) {
    admin_.ask_workers(state_->alive.guard(
        [this, part, show = std::move(show)] { state_->reports.get(part, show); }));
  } else {
    state_->reports.get(part, std::move(show));
  }
  return waiting;
}

std::unique_ptr<http::RequestHandler> Console::answer_explain(http::RequestHead head,
                                                              http::ResponseStream& stream,
                                                              const krm::Query& query) {
  constexpr std::size_t kMostPath = 4'096;
  const std::string path(query.get("path").value_or(""));
  if (path.empty() || path.size() > kMostPath) {
    return console_error(head, stream, 400, "path: a workspace path, a URL path or a URL");
  }
  auto waiting = std::make_unique<serving::WaitingRequest>();
  explain([this]() -> const topology::Snapshot& { return admin_.feed.index(); }, admin_.explain,
          path, std::string(query.get("method").value_or("GET").substr(0, 16)),
          [weak = waiting->weak(), head = std::move(head), &stream](const Json& document) {
            if (serving::WaitingRequest* self = *weak; self != nullptr && !self->closed()) {
              self->go_on(answer_json(head, stream, document));
            }
          });
  return waiting;
}

}  // namespace kintsugi::proxy
