#include "server/internal/dispatcher_metrics.h"

#include <string_view>

#include "base/metric_families.h"
#include "base/process_metrics.h"
#include "server/dispatcher_program.h"

namespace kintsugi::server {
namespace {

constexpr std::string_view kOutcomes[] = {"filtered", "delivered", "dead_lettered", "skipped"};
constexpr std::string_view kTargets[] = {"destination", "reply", "dead_letter"};
constexpr std::string_view kTries[] = {"success", "refused", "no_answer"};
constexpr std::string_view kRefusals[] = {"unreadable", "epoch", "generation"};

struct Shown {
  workers::DispatcherCounters counters;
  std::uint64_t generation = 0;
  std::size_t egresses = 0, refused = 0;
};

class DispatcherMetrics final : public MetricSource {
 public:
  explicit DispatcherMetrics(const Shown& shown) : shown_(shown) {}
  void fill(MetricFamilies& out) const override {
    const workers::DispatcherCounters& counters = shown_.counters;
    out.gauge("kintsugi_dispatcher_generation", "Generation of the contract that is applied",
              shown_.generation);
    out.counter("kintsugi_dispatcher_contracts_total", "Contracts that were applied",
                counters.contracts);
    out.counter("kintsugi_dispatcher_contracts_refused_total",
                "Contracts that were not applied: unreadable, or of an older epoch or generation",
                {"reason"});
    for (std::size_t i = 0; i < counters.refused_contracts.size(); ++i) {
      out.sample({kRefusals[i]}, counters.refused_contracts[i]);
    }
    out.gauge("kintsugi_dispatcher_egresses",
              "Egresses of the contract, and those of them that "
              "this dispatcher cannot do",
              {"state"});
    out.sample({"running"}, shown_.egresses);
    out.sample({"refused"}, shown_.refused);
    out.counter("kintsugi_dispatcher_records_total", "Records that came from Kafka",
                counters.records);
    out.counter("kintsugi_dispatcher_records_repeated_total",
                "Of them, those that came again to the same member", counters.repeated);
    out.counter("kintsugi_dispatcher_records_done_total", "Records by what has become of them",
                {"outcome"});
    for (std::size_t i = 0; i < counters.outcomes.size(); ++i) {
      out.sample({kOutcomes[i]}, counters.outcomes[i]);
    }
    out.counter("kintsugi_dispatcher_tries_total",
                "Deliveries that were tried: answered with 2xx, with another status, or not at all",
                {"target", "result"});
    for (std::size_t i = 0; i < counters.tries.size(); ++i) {
      for (std::size_t j = 0; j < counters.tries[i].size(); ++j) {
        out.sample({kTargets[i], kTries[j]}, counters.tries[i][j]);
      }
    }
    out.counter("kintsugi_dispatcher_abandoned_total",
                "Deliveries that ended with their partition, and come again where it went",
                counters.abandoned);
    out.gauge("kintsugi_dispatcher_in_flight", "Records on their way", counters.in_flight);
    out.gauge("kintsugi_dispatcher_queued", "Records that wait", counters.queued);
    out.gauge("kintsugi_dispatcher_queued_bytes", "What they take", counters.queued_bytes);
    out.counter("kintsugi_dispatcher_pauses_total",
                "Pauses of partitions of which enough records wait", counters.pauses);
    out.counter("kintsugi_dispatcher_commits_total", "Commits of offsets", counters.commits);
    out.counter("kintsugi_dispatcher_commits_failed_total", "Those that Kafka has not taken",
                counters.failed_commits);
    out.counter("kintsugi_dispatcher_kafka_errors_total", "What Kafka's library complained of",
                counters.kafka_errors);
  }

 private:
  const Shown& shown_;
};

}  // namespace

std::string dispatcher_metrics_text(const workers::Dispatcher& dispatcher) {
  const Shown shown{dispatcher.counters(), dispatcher.generation(), dispatcher.egresses(),
                    dispatcher.refused()};
  const DispatcherMetrics metrics(shown);
  const ProcessMetrics process("dispatcher", {});
  return metrics_text({&process, &metrics});
}

std::vector<MetricAbout> dispatcher_metrics_about() {
  const Shown nothing;
  MetricFamilies families;
  ProcessMetrics("dispatcher", {}).fill(families);
  DispatcherMetrics(nothing).fill(families);
  return families.about();
}

}  // namespace kintsugi::server
