// A router or broker for benches of the messaging worker: its management alone. Prints the port it
// listens on, and on SIGUSR1 what it was sent, as one JSON line; SIGHUP empties it with
// --restart-empty. Ends on SIGTERM, SIGINT.
#include "workers/messaging/testing/fake_component.h"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace {

using kintsugi::workers::ComponentKind;
using kintsugi::workers::FakeComponent;

volatile std::sig_atomic_t prints = 0, restarts = 0, ends = 0;

void on_signal(int signal) {
  (signal == SIGUSR1 ? prints : signal == SIGHUP ? restarts : ends) = 1;
}

int usage(const char* program) {
  std::fprintf(stderr,
               "usage: %s --kind router|broker [--port P] [--latency-us N] [--parallel]\n"
               "          [--hazards all|none] [--container NAME] [--restart-empty]\n",
               program);
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  FakeComponent::Params params;
  bool empties = false;
  bool has_kind = false;
  for (int i = 1; i < argc; ++i) {
    const std::string_view flag = argv[i];
    if (flag == "--parallel") {
      params.parallel = true;
    } else if (flag == "--restart-empty") {
      empties = true;
    } else if (i + 1 == argc) {
      return usage(argv[0]);
    } else if (const std::string_view value = argv[++i]; flag == "--kind") {
      has_kind = value == "router" || value == "broker";
      params.kind = value == "broker" ? ComponentKind::kBroker : ComponentKind::kRouter;
    } else if (flag == "--port") {
      params.port = static_cast<std::uint16_t>(std::strtoul(argv[i], nullptr, 10));
    } else if (flag == "--latency-us") {
      params.latency = std::chrono::microseconds(std::strtoul(argv[i], nullptr, 10));
    } else if (flag == "--hazards" && (value == "all" || value == "none")) {
      params.hazards = value == "all";
    } else if (flag == "--container") {
      params.container = value;
    } else {
      return usage(argv[0]);
    }
  }
  if (!has_kind) {
    return usage(argv[0]);
  }
  struct sigaction action {};
  action.sa_handler = on_signal;
  for (const int signal : {SIGUSR1, SIGHUP, SIGTERM, SIGINT}) {
    (void)::sigaction(signal, &action, nullptr);
  }
  FakeComponent component(params);
  const auto port = component.listen();
  if (!port) {
    std::fprintf(stderr, "%s\n", port.error().to_string().c_str());
    return 1;
  }
  std::printf("%u\n", static_cast<unsigned>(*port));
  std::fflush(stdout);
  while (ends == 0) {
    component.run_once(std::chrono::milliseconds(200));
    if (prints != 0) {
      prints = 0;
      std::printf("%s\n", component.counts().c_str());
      std::fflush(stdout);
    }
    if (restarts != 0) {
      restarts = 0;
      if (empties) {
        component.restart_empty();
      }
    }
  }
  return 0;
}
