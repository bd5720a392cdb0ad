#include "proxy/console/console.h"

#include <string>
#include <utility>

#include "auth/x509_identity.h"
#include "proxy/console/console_answer.h"
#include "proxy/console/internal/live_views.h"
#include "proxy/console/internal/static_files.h"
#include "proxy/console/internal/view_rows.h"
#include "serving/waiting_request.h"

namespace kintsugi::proxy {
namespace {

using krm::Json;
constexpr std::string_view kApi = "/ui/api/";
constexpr std::string_view kApiV1 = "/ui/api/v1/";

std::unique_ptr<http::RequestHandler> answer_json(const http::RequestHead& head,
                                                  http::ResponseStream& stream,
                                                  const Json& document) {
  return console_answer(head, stream, 200, console_headers("application/json", "no-store"),
                        document.dump() + "\n");
}

/// Who looks: whoever gets to the admin listener sees everything.
Json viewer_of(const http::PeerInfo& peer) {
  Json full = Json::array(), groups = Json::array();
  for (const std::string_view view : kViews) {
    full.push_back(view);
  }
  std::string user = "administrator of this machine";
  if (const auth::CertificateIdentity* identity = auth::certificate_of(peer)) {
    user = identity->common_name;
    for (const std::string& group : identity->organizations) {
      groups.push_back(group);
    }
  }
  return Json::object({{"user", user}, {"groups", std::move(groups)}, {"full", std::move(full)}});
}

}  // namespace

struct Console::State {
  explicit State(const AdminParams& admin) : live(admin, rates, started) {}
  const TimePoint started = Clock::now();
  const StaticFiles files;
  Rates rates;
  LiveViews live;
};

Console::Console(const AdminParams& admin)
    : admin_(admin), state_(std::make_unique<State>(admin)) {}

Console::~Console() = default;

bool Console::has(std::string_view path) noexcept {
  return path == "/ui" || path.starts_with("/ui/");
}

bool Console::is_public(std::string_view path) noexcept { return !path.starts_with(kApi); }

std::unique_ptr<http::RequestHandler> Console::on_request(http::RequestHead head,
                                                          http::ResponseStream& stream) noexcept {
  const std::string target = head.target;
  const std::string_view all = target;
  const std::size_t question = all.find('?');
  const std::string_view path = all.substr(0, question);
  if (head.method != "GET" && head.method != "HEAD") {
    http::HeaderList headers = console_headers("application/json", "no-store");
    headers.add("allow", "GET, HEAD");
    return console_answer(head, stream, 405, std::move(headers), "{\"error\":\"only GET\"}\n");
  }
  if (path == "/ui") {
    http::HeaderList headers = console_headers("text/plain; charset=utf-8", "no-cache");
    headers.add("location", "/ui/");
    return console_answer(head, stream, 308, std::move(headers), {});
  }
  if (is_public(path)) {
    return state_->files.answer(head, stream, path.substr(std::string_view("/ui/").size()));
  }
  const krm::Query query(question == std::string_view::npos ? std::string_view()
                                                            : all.substr(question + 1));
  const std::string_view name =
      path.starts_with(kApiV1) ? path.substr(kApiV1.size()) : std::string_view();
  if (is_view(name)) {
    return answer_view(std::move(head), stream, name, query);
  }
  if (name == "explain") {
    return answer_explain(std::move(head), stream, query);
  }
  if (name == "live" && head.method == "GET") {
    return state_->live.open(head, stream, query.get("views").value_or(""));
  }
  return console_error(head, stream, 404,
                       "served here: overview shards streams slices partitions explain live");
}

std::unique_ptr<http::RequestHandler> Console::answer_view(http::RequestHead head,
                                                           http::ResponseStream& stream,
                                                           std::string_view view,
                                                           const krm::Query& query) {
  auto wanted = RowQuery::of(query);
  if (!wanted) {
    return console_error(head, stream, 400, wanted.error().message());
  }
  auto waiting = std::make_unique<serving::WaitingRequest>();
  const auto part = view == "streams" ? ReportPart::kWatches : ReportPart::kFigures;
  admin_.collect(
      part, [this, weak = waiting->weak(), head = std::move(head), &stream,
             view = std::string(view), rows = *wanted](const std::vector<LoopReport>& loops) {
        serving::WaitingRequest* const self = *weak;
        if (self == nullptr || self->closed()) {
          return;
        }
        const TopologyReport topology = admin_.topology();
        const TimePoint now = Clock::now();
        state_->rates.take(loops, now);
        Json out = page_of(
            rows_of(view, {admin_, loops, topology, state_->rates, now, state_->started}), rows);
        out["generated"] = rfc3339_micro(unix_microseconds());
        out["viewer"] = viewer_of(stream.peer());
        if (view == "streams") {
          std::uint64_t open = 0, told = 0;
          for (const LoopReport& loop : loops) {
            open += loop.open_watches;
            told += loop.watches.size();
          }
          out["watchesOpen"] = open;
          out["watchesCut"] = open - told;
        }
        self->go_on(answer_json(head, stream, out));
      });
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
