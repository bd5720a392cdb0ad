#include "workers/messaging/control/failures.h"

#include <chrono>

#include "workers/messaging/control/internal/ends.h"

namespace kintsugi::workers {

void add_failures(const Site& site, krm::Json& list) {
  const std::optional<Redactor> redactor = site.ends().redactor();
  const TimePoint now = Clock::now();
  const std::int64_t wall = unix_seconds();
  site.each_infra([&](const OwnedInfra& infra) {
    for (const auto& one : infra.work->components()) {
      for (const FailedExchange& failed : one->pipeline->failures()) {
        const auto age = std::chrono::duration_cast<std::chrono::seconds>(now - failed.at).count();
        list.push_back(krm::Json::object(
            {{"at", rfc3339(wall - age)},
             {"unit", site.unit_name()},
             {"infra", infra_text(infra.work->key())},
             {"component", one->kind == ComponentKind::kRouter ? "router" : "broker"},
             {"host", one->where.host},
             {"entity", printable(failed.what)},
             {"code", failed.code},
             {"text", redactor ? peer_message(failed.text, *redactor) : "***"}}));
      }
    }
  });
}

}  // namespace kintsugi::workers
