#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "cmd/kintsugi/commands.h"
#include "cmd/kintsugi/flags.h"
#include "cmd/kintsugi/log_flags.h"
#include "cmd/kintsugi/span.h"
#include "server/dispatcher_program.h"
#include "server/files.h"

namespace kintsugi::cmd {
namespace {

constexpr const char* kDispatcher = "dispatcher";

struct DispatcherCall {
  server::DispatcherOptions program;
  std::string status_address = "127.0.0.1:8085";
  std::int64_t session_timeout = 6, request_timeout = 30, drain = 10;
  std::uint32_t in_flight = 100, queued = 200;
  LogOptions log;
};

FlagTable dispatcher_flags(DispatcherCall& call) {
  return {
      {"Contract",
       {{"pod", "NAME", "", "name of this dispatcher; its clients show it to Kafka",
         into(call.program.settings.pod)},
        {"contract", "FILE", "",
         "what it is to do, JSON or protobuf; read again when it changes, may be missing at first",
         into(call.program.contract)},
        {"status-address", "ADDRESS:PORT", "127.0.0.1:8085",
         "where /status, /metrics, /livez, /healthz and /readyz are; 0: nowhere",
         into(call.status_address)}}},
      {"Bounds",
       {{"session-timeout", "TIME", "6s", "after which Kafka gives partitions of a lost one away",
         into_span(call.session_timeout)},
        {"request-timeout", "TIME", "30s", "of one delivery, where the contract has none",
         into_span(call.request_timeout)},
        {"drain", "TIME", "10s", "for what is on its way when an egress or the process ends",
         into_span(call.drain)},
        {"in-flight", "N", "100", "events of an unordered egress that are on their way at a time",
         into(call.in_flight)},
        {"queued", "N", "200", "records of a partition that wait; it is paused with more",
         into(call.queued)}}},
      log_flags(call.log)};
}

Expected<void> judge_call(DispatcherCall& call) {
  workers::DispatcherSettings& settings = call.program.settings;
  if (settings.pod.empty()) {
    return fail(Errc::kConfig, "--pod: which pod? Give its name");
  }
  if (call.program.contract.empty()) {
    return fail(Errc::kConfig, "--contract: which contract? Give its file");
  }
  call.program.contract = server::absolute_path(call.program.contract);
  const auto status = server::parse_worker_address(call.status_address);
  if (!status) {
    return fail(Errc::kConfig, "--status-address: must be ADDRESS:PORT, or 0");
  }
  call.program.status = *status;
  if (call.in_flight == 0 || call.queued == 0) {
    return fail(Errc::kConfig, "--in-flight and --queued: must be at least 1");
  }
  if (call.session_timeout < 1 || call.session_timeout > 3'600 || call.request_timeout < 1) {
    return fail(
        Errc::kConfig,
        "--session-timeout and --request-timeout: must be at least 1s, the first at most 1h");
  }
  settings.session_timeout = seconds(call.session_timeout);
  settings.request_timeout = seconds(call.request_timeout);
  settings.drain = seconds(call.drain);
  settings.in_flight = call.in_flight;
  settings.queued = call.queued;
  return {};
}

}  // namespace

CommandAbout dispatcher_about() {
  DispatcherCall call;
  return {"kintsugi dispatcher --pod NAME --contract FILE [options]",
          "Consumes topics of Kafka and delivers their records as CloudEvents over HTTP, as the "
          "contract of its pod\nsays (docs/workers/eventing.md). SIGTERM lets what is on its way "
          "end.",
          {},
          without_setters(dispatcher_flags(call))};
}

int run_dispatcher(const std::vector<std::string>& arguments) {
  DispatcherCall call;
  if (const auto status =
          take_options(kDispatcher, dispatcher_flags(call), dispatcher_about, arguments)) {
    return *status;
  }
  if (auto right = judge_call(call); !right) {
    return complain(kDispatcher, right.error(), 2);
  }
  if (auto written = use(call.log); !written) {
    return complain(kDispatcher, written.error());
  }
  return server::run_dispatcher_program(std::move(call.program));
}

}  // namespace kintsugi::cmd
