#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "krm/json.h"
#include "workers/messaging/control/internal/directory.h"
#include "workers/messaging/pipeline/component_pipeline.h"
#include "workers/runtime/unit/event_writer.h"

namespace kintsugi::workers {

class Site;

/// What people are told when one status takes the place of another: bound, placed, ready, ready no
/// more, refused, degraded. Nothing of waiting, of what the deletion brings with it, and of a
/// condition whose status and reason stay. What is not ready from the start is told by the
/// condition that says why.
[[nodiscard]] std::vector<Tale> tales_of(const krm::Json& from, const krm::Json& to);
/// "address", "autoLink", "queue", …: what metrics and events call a kind.
[[nodiscard]] std::string_view entity_type_text(EntityKind kind) noexcept;
/// An entity at a component was other than applied, and is set right.
[[nodiscard]] Tale tale_of(const DriftRepair& repair, ComponentKind kind, std::string_view host);
/// More settings classes at a broker than it takes with ease (8.3): event ManySettingsClasses.
inline constexpr std::size_t kManySettingsClasses = 256;
[[nodiscard]] Tale tale_of_classes(std::string_view broker);

/// Tells people of one unit's objects, by EventWriter. Threads: the unit's loop's. Lifetime: the
/// site outlives it.
class Teller {
 public:
  explicit Teller(Site& site);
  Teller(const Teller&) = delete;
  Teller& operator=(const Teller&) = delete;

  void tell(const ObjectRefKey& object, std::string_view uid, const Tale& tale);
  [[nodiscard]] std::uint64_t dropped() const noexcept { return events_.dropped(); }

 private:
  Site& site_;
  EventWriter events_;
};

}  // namespace kintsugi::workers
