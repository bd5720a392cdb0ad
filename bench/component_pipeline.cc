// CPU of a pipeline for each entity that it applies, without what renders it and what answers:
//   bench_component_pipeline --objects 100000
#include "workers/messaging/pipeline/component_pipeline.h"

#include <malloc.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <deque>
#include <string>

namespace kintsugi::bench {
namespace {

using namespace kintsugi::workers;

double cpu_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

std::vector<DesiredEntity> queue_entities(ObjectId n) {
  const std::string address = "space-a-abcdefghijklm/queue-" + std::to_string(n);
  const std::string uid = "object-" + std::to_string(n);
  std::vector<DesiredEntity> out;
  out.push_back({EntityKind::kAddress,
                 entity_name("bench", EntityKind::kAddress, uid),
                 {{"pattern", address}, {"distribution", std::string("balanced")}}});
  for (const char* direction : {"in", "out"}) {
    out.push_back({EntityKind::kAutoLink,
                   entity_name("bench", EntityKind::kAutoLink, uid, "b0", direction),
                   {{"address", address},
                    {"direction", std::string(direction)},
                    {"connection", std::string("b0")},
                    {"externalAddress", address}}});
  }
  return out;
}

krm::Json text_json(const Attributes& attributes) {
  krm::Json out = krm::Json::object();
  for (const Attribute& one : attributes) {
    if (const auto* text = std::get_if<std::string>(&one.value)) {
      out[one.name] = std::string_view(*text);
    }
  }
  return out;
}

int run(std::uint32_t objects) {
  std::vector<std::vector<DesiredEntity>> all;
  all.reserve(objects);
  for (ObjectId i = 0; i < objects; ++i) {
    all.push_back(queue_entities(i));
  }
  double rendering = 0, answering = 0;
  ComponentPipeline::Params params;
  params.most_read = 1;  // states of links are another matter
  ComponentPipeline pipeline(params, {[&](ObjectId object) {
                                        const double start = cpu_seconds();
                                        std::vector<DesiredEntity> out = all[object];
                                        rendering += cpu_seconds() - start;
                                        return out;
                                      },
                                      {},
                                      {},
                                      {},
                                      {}});
  TimePoint now{std::chrono::hours(1)};
  pipeline.on_ready("qpid-dispatch-router", "1.19.0", now);
  const auto counters = pipeline.next(now);
  krm::Json columns = krm::Json::array();
  for (const char* one : {"addrCount", "linkCount", "autoLinkCount", "linkRouteCount",
                          "connectionCount", "memoryUsage", "uptimeSeconds", "id"}) {
    columns.push_back(one);
  }
  const ManagementReply hello{
      krm::Json::object({{"statusCode", 200}}),
      krm::Json::object(
          {{"attributeNames", columns},
           {"results", krm::Json::array({krm::Json::array({0, 0, 0, 0, 0, 0, 10, "r0"})})}})};
  pipeline.on_answer(counters->tag, &hello, now);
  const std::size_t before = ::mallinfo2().uordblks;
  const double start = cpu_seconds();
  for (ObjectId i = 0; i < objects; ++i) {
    pipeline.want(i, all[i]);
  }
  const double wanted = cpu_seconds();
  const std::size_t grown = ::mallinfo2().uordblks - before;
  std::deque<ComponentPipeline::Send> flying;
  std::size_t answered = 0;
  for (;;) {
    while (auto send = pipeline.next(now)) {
      flying.push_back(std::move(*send));
    }
    if (flying.empty()) {
      break;
    }
    const ComponentPipeline::Send send = std::move(flying.front());
    flying.pop_front();
    const double begin = cpu_seconds();
    const ManagementReply reply{krm::Json::object({{"statusCode", 201}}),
                                text_json(std::get<Attributes>(send.request.body))};
    answering += cpu_seconds() - begin;
    pipeline.on_answer(send.tag, &reply, now);
    ++answered;
  }
  const double end = cpu_seconds();
  const double count = 3.0 * objects;
  std::printf(
      "want %.2f us, send and answer %.2f us an entity (rendering %.2f and the peer %.2f us "
      "apart), %.1f B an entity, %zu answers, %zu pending\n",
      (wanted - start) * 1e6 / count, (end - wanted - rendering - answering) * 1e6 / count,
      rendering * 1e6 / count, answering * 1e6 / count, static_cast<double>(grown) / count,
      answered, pipeline.pending());
  return pipeline.pending() == 0 ? 0 : 1;
}

}  // namespace
}  // namespace kintsugi::bench

int main(int argc, char** argv) {
  const std::uint32_t objects = argc > 2 && std::string(argv[1]) == "--objects"
                                    ? static_cast<std::uint32_t>(std::strtoul(argv[2], nullptr, 10))
                                    : 100'000;
  return kintsugi::bench::run(objects);
}
