#include <cstddef>
#include <utility>

#include "apiserver/body_bounds.h"
#include "apiserver/open_watches.h"
#include "server/internal/proxy_loop.h"

namespace kintsugi::server {

void ProxyLoop::report(proxy::ReportPart part, std::function<void(proxy::LoopReport)> done) {
  loop_.post([this, part, done = std::move(done)] {
    proxy::LoopReport report;
    report.name = loop_.name();
    report.loop = loop_.stats();
    if (listener_ != nullptr) {
      report.listener = listener_->stats();
    }
    report.forward = handler_->forward_stats();
    report.merge = handler_->merge_stats();
    if (part != proxy::ReportPart::kCounts) {
      report.groups = handler_->merge_groups();
    }
    report.slot_generation = handler_->slot_generation();
    if (first_) {
      report.sequences = shared_.sequences->stats();
      report.relays = shared_.homes->stats();
    }
    if (const aggregation::Reviewer* reviewer = handler_->reviewer()) {
      report.decisions = reviewer->decisions();
      report.grant_watches = reviewer->grant_watches();
    }
    report.documents = handler_->document_stats();
    report.lookup = handler_->lookup_stats();
    report.ignored_applies = handler_->ignored_applies();
    report.reviews = reviews_->stats();
    report.served_refused = local_->stats().requests_refused;
    const apiserver::BodyCounts served = apiserver::body_counts(*local_);
    report.late_bodies = served.late + handler_->bodies().late();
    report.crowded_bodies = served.crowded + handler_->bodies().crowded();
    if (first_) {
      for (std::size_t i = 0; i < kMemoryAccounts; ++i) {
        report.memory[i] = shared_.memory->used(static_cast<MemoryAccount>(i));
      }
      report.memory_budget = shared_.memory->limit();
    }
    if (part == proxy::ReportPart::kWatches) {
      serving::WatchList watches;
      handler_->list_watches(watches);
      apiserver::list_watches(*local_, watches);
      report.watches = watches.rows(loop_.now());
      report.open_watches = watches.open();
    }
    if (part == proxy::ReportPart::kCounts) {
      done(std::move(report));
      return;
    }
    pool_->for_each([&](topology::ShardId /*id*/, shards::ShardClient& client) {
      if (const net::Upstream* upstream = client.upstream()) {
        report.upstreams.push_back({client.name(), client.failed_at(), client.answered_at(),
                                    upstream->stats(net::UpstreamClass::kWatch),
                                    upstream->stats(net::UpstreamClass::kRead),
                                    upstream->stats(net::UpstreamClass::kWrite),
                                    client.certificate_end()});
      }
    });
    done(std::move(report));
  });
}

}  // namespace kintsugi::server
