// What workers::ManagementSession costs with its peer, both on Proton's engine in one process and
// joined in memory, one line on stdout: requests with a map as a router's CREATE has it, each with
// the answer that a router gives. Times are CPU of both ends.
// --requests: how many; --window; --case router (presettled) or broker (settled by both).
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <map>
#include <string>

#include "bench/flags.h"
#include "workers/messaging/amqp/management_session.h"
#include "workers/messaging/amqp/testing/management_peer.h"

namespace kintsugi::bench {
namespace {

using namespace kintsugi::workers;  // NOLINT
using workers::amqp_testing::ManagementPeer;

double cpu_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

ManagementRequest make_request() {
  ManagementRequest request;
  request.properties = {{"operation", std::string("CREATE")},
                        {"type", std::string("org.apache.qpid.dispatch.router.config.autoLink")},
                        {"name", std::string("ktg.shard-1.al.abcdefghijklmnopqrstuvwxyz")}};
  request.body = Attributes{{"address", std::string("space-abcdefghijklm/queue-000001")},
                            {"direction", std::string("in")},
                            {"connection", std::string("ktg.shard-1.con.abcdefghijklmnop")},
                            {"externalAddress", std::string("space-abcdefghijklm/queue-000001")},
                            {"phase", std::int64_t{1}}};
  return request;
}

void answer_body(pn_data_t* data) {
  pn_data_put_map(data);
  pn_data_enter(data);
  for (const char* name : {"name", "identity", "address", "direction", "connection",
                           "externalAddress", "operStatus", "type"}) {
    ManagementPeer::put(data, name);
    ManagementPeer::put(data, "space-abcdefghijklm/queue-000001");
  }
  for (const char* name : {"lastError", "linkRef", "containerId"}) {
    ManagementPeer::put(data, name);
    pn_data_put_null(data);
  }
  pn_data_exit(data);
}

int run(std::uint64_t requests, std::size_t window, bool broker) {
  ManagementSession::Params params;
  params.kind = broker ? ComponentKind::kBroker : ComponentKind::kRouter;
  params.container = "bench";
  params.window = window;
  ManagementPeer::Options options;
  options.keeps_requests = false;
  options.presettles = !broker;
  TimePoint now{seconds(1)};
  ManagementSession session(params, now);
  ManagementPeer peer(options);
  const auto properties = ManagementPeer::status(201, "Created");
  peer.on_request = [&](const ManagementPeer::Request& request) {
    if (request.delivery != nullptr) {
      peer.settle(request, PN_ACCEPTED);
    }
    peer.answer(request.correlation, properties, answer_body);
  };
  const ManagementRequest request = make_request();
  std::uint64_t sent = 0, answered = 0;
  const double start = cpu_seconds();
  for (std::uint64_t idle = 0; answered < requests && idle < 100;) {
    while (sent < requests && session.submit(request, now) != 0) {
      ++sent;
    }
    for (auto out = session.output(); !out.empty(); out = session.output()) {
      peer.receive(out);
      session.consume(out.size());
    }
    session.receive(peer.output(), now);
    ++idle;
    while (const auto each = session.take()) {
      if (!each->reply || each->reply->body.size() != 11) {
        std::fputs("amqp_session: a wrong answer\n", stderr);
        return 1;
      }
      ++answered;
      idle = 0;
    }
  }
  const double used = cpu_seconds() - start;
  std::printf("%s: %llu requests and answers, window %zu, %.2f us each, %.0f/s%s%s\n",
              broker ? "broker" : "router", static_cast<unsigned long long>(answered), window,
              used * 1e6 / static_cast<double>(answered), static_cast<double>(answered) / used,
              session.fault().empty() ? "" : ", ended: ", session.fault().c_str());
  return answered == requests ? 0 : 1;
}

}  // namespace
}  // namespace kintsugi::bench

int main(int argc, char** argv) {
  const kintsugi::bench::Flags flags(argc, argv);
  const std::uint64_t requests = flags.number("--requests", 200'000);
  const std::uint64_t window = flags.number("--window", 100);
  if (requests == 0 || window == 0) {
    std::fputs("amqp_session: --requests and --window are at least 1\n", stderr);
    return 2;
  }
  return kintsugi::bench::run(requests, window, flags.text("--case") == "broker");
}
