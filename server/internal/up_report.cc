#include "server/internal/up_report.h"

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "base/metric_families.h"
#include "base/process_metrics.h"
#include "krm/json.h"
#include "server/internal/gathered.h"
#include "server/internal/remedies.h"
#include "server/internal/worker_pages.h"
#include "server/internal/worker_socket.h"
#include "server/up_metrics.h"
#include "serving/answer.h"
#include "serving/metrics_answer.h"
#include "serving/waiting_request.h"

namespace kintsugi::server {
namespace {

using krm::Json;

constexpr std::size_t kMostAsking = 16;

std::int64_t in_seconds(Duration time) {
  return std::chrono::duration_cast<std::chrono::seconds>(time).count();
}

std::string why_ended(const Supervisor::State& state) {
  return "its process ended (" + state.last_end + ") " + std::to_string(in_seconds(state.since)) +
         " s ago, " + std::to_string(state.restarts) + " restarts so far, and is started again";
}

class UpMetrics final : public MetricSource {
 public:
  explicit UpMetrics(const std::vector<UpProcess>& all) : all_(all) {}
  void fill(MetricFamilies& out) const override {
    out.gauge("kintsugi_child_up", "1 while that process runs", {"process"});
    for (const UpProcess& one : all_) {
      out.sample({one.state.name}, one.state.pid > 0 ? 1 : 0);
    }
    out.gauge("kintsugi_child_ready", "1 while that process runs and says that it is ready",
              {"process"});
    for (const UpProcess& one : all_) {
      out.sample({one.state.name}, one.not_ready.empty() ? 1 : 0);
    }
    out.counter("kintsugi_child_restarts_total",
                "starts of a process after its first; cause: exit, signal, hang",
                {"process", "cause"});
    constexpr std::array<std::string_view, Supervisor::kCauses> kCauses = {"exit", "signal",
                                                                           "hang"};
    for (const UpProcess& one : all_) {
      for (std::size_t i = 0; i < kCauses.size(); ++i) {
        out.sample({one.state.name, kCauses[i]}, one.state.restarts_by[i]);
      }
    }
  }

 private:
  const std::vector<UpProcess>& all_;
};

}  // namespace

void UpReport::ask(std::function<void(std::vector<UpProcess>)> done) {
  auto states = params_.processes();
  const auto fetches = std::make_shared<std::vector<std::unique_ptr<SocketFetch>>>();
  ++asking_;
  gather<std::string>(
      loop_, params_.patience, states,
      [this, fetches](const Supervisor::State& state, std::function<void(std::string)> answer) {
        if (state.pid == 0 || state.socket.empty()) {
          answer(state.pid == 0 ? why_ended(state) : "");
          return;
        }
        fetches->push_back(std::make_unique<SocketFetch>(
            loop_, state.socket, "/readyz?verbose",
            [answer = std::move(answer)](int status, const std::string& body) {
              answer(reason_of(status, body));
            }));
      },
      [this, states, fetches, done = std::move(done)](Gathered<std::string>& all) {
        --asking_;
        std::vector<UpProcess> processes;
        for (std::size_t i = 0; i < states.size(); ++i) {
          processes.push_back({states[i], all.answers[i].value_or("does not answer")});
        }
        done(std::move(processes));
      });
}

ProcessSocket::Page UpReport::page(Answer answer) {
  return [this, answer = std::move(answer)](
             const http::RequestHead& head, http::ResponseStream& stream,
             const krm::Query& /*query*/) -> std::unique_ptr<http::RequestHandler> {
    if (asking_ >= kMostAsking) {
      return serving::answer_text(head, stream, 503, "too many ask at once\n");
    }
    auto waiting = std::make_unique<serving::WaitingRequest>();
    ask([answer, head, &stream, weak = waiting->weak()](const std::vector<UpProcess>& all) {
      if (serving::WaitingRequest* self = *weak; self != nullptr && !self->closed()) {
        self->go_on(answer(head, stream, all));
      }
    });
    return waiting;
  };
}

ProcessSocket::Pages UpReport::pages() {
  return {
      {"/readyz", page([](const http::RequestHead& head, http::ResponseStream& stream,
                          const std::vector<UpProcess>& all) {
         std::vector<RoleHealth> lines;
         for (const UpProcess& one : all) {
           lines.push_back({one.state.name, true, one.not_ready});
         }
         const HealthPage made = health_page(head.target, lines);
         return serving::answer_text(head, stream, made.status, made.body);
       })},
      {"/debug/processes", page([this](const http::RequestHead& head, http::ResponseStream& stream,
                                       const std::vector<UpProcess>& all) {
         return serving::answer_json(head, stream, 200, processes_json(all, params_.left_out()));
       })},
      {"/metrics", page([](const http::RequestHead& head, http::ResponseStream& stream,
                           const std::vector<UpProcess>& all) {
         return serving::answer_metrics(head, stream, up_metrics_text(all));
       })},
  };
}

std::string waiting_line(const std::string& process, const std::string& why, const Layout& layout) {
  return "waiting for " + process + ": " + with_remedy(process, why, layout) + "; " +
         layout.log_file(process) + " tells more";
}

std::vector<std::string> waiting_lines(const std::vector<UpProcess>& all, const Layout& layout) {
  std::vector<std::string> lines;
  for (const UpProcess& one : all) {
    if (!one.not_ready.empty()) {
      lines.push_back(waiting_line(one.state.name, one.not_ready, layout));
    }
  }
  return lines;
}

std::string processes_json(const std::vector<UpProcess>& all,
                           const std::vector<std::string>& left_out) {
  Json processes = Json::array(), missing = Json::array();
  for (const UpProcess& one : all) {
    Json row = Json::object({{"name", one.state.name},
                             {"ready", one.not_ready.empty()},
                             {"seconds", in_seconds(one.state.since)},
                             {"restarts", static_cast<std::int64_t>(one.state.restarts)}});
    if (one.state.pid > 0) {
      row["pid"] = Json(static_cast<std::int64_t>(one.state.pid));
    }
    if (!one.not_ready.empty()) {
      row["why"] = Json(one.not_ready);
    }
    if (!one.state.last_end.empty()) {
      row["lastEnd"] = Json(one.state.last_end);
    }
    processes.push_back(std::move(row));
  }
  for (const std::string& name : left_out) {
    missing.push_back(Json(name));
  }
  return Json::object({{"processes", std::move(processes)}, {"leftOut", std::move(missing)}})
             .dump_pretty() +
         "\n";
}

std::string up_metrics_text(const std::vector<UpProcess>& all) {
  const ProcessMetrics process("up", {});
  const UpMetrics children(all);
  return metrics_text({&process, &children});
}

std::vector<MetricAbout> up_metrics_about() {
  MetricFamilies families;
  ProcessMetrics("up", {}).fill(families);
  UpMetrics({}).fill(families);
  return families.about();
}

}  // namespace kintsugi::server
