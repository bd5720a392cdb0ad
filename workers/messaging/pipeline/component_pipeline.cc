#include "workers/messaging/pipeline/component_pipeline.h"

#include <utility>

#include "workers/messaging/pipeline/internal/pipeline_core.h"

namespace kintsugi::workers {

namespace {
constexpr unsigned kMostLost = 3;
}  // namespace

std::string_view pipeline_step_text(PipelineStep step) noexcept {
  constexpr std::string_view kTexts[kPipelineSteps] = {"create", "verify", "read", "look",
                                                       "update", "delete", "check"};
  return kTexts[static_cast<std::size_t>(step)];
}

class ComponentPipeline::Core : public PipelineCore {
 public:
  using PipelineCore::PipelineCore;
};

ComponentPipeline::ComponentPipeline(Params params, Callbacks callbacks)
    : core_(std::make_unique<Core>(std::move(params), std::move(callbacks))) {}
ComponentPipeline::~ComponentPipeline() = default;

void ComponentPipeline::want(ObjectId object, std::span<const DesiredEntity> entities, bool first) {
  core_->want(object, entities, first);
  core_->tell();
}

void ComponentPipeline::assume(ObjectId object, std::span<const DesiredEntity> entities,
                               bool active) {
  core_->assume(object, entities, active);
  core_->tell();
}

void ComponentPipeline::forget(ObjectId object) {
  core_->forget(object);
  core_->tell();
}

ObjectProgress ComponentPipeline::progress(ObjectId object) const {
  return core_->progress(object);
}

bool ComponentPipeline::wants(ObjectId object) const noexcept { return core_->wants(object); }

void ComponentPipeline::complete(TimePoint now) {
  core_->complete(now);
  core_->tell();
}

void ComponentPipeline::on_ready(std::string_view product, std::string_view version,
                                 TimePoint now) {
  core_->on_ready(product, version, now);
  core_->tell();
}

void ComponentPipeline::on_lost(std::string_view why, TimePoint now) {
  core_->on_lost(why, now);
  core_->tell();
}

std::optional<ComponentPipeline::Send> ComponentPipeline::next(TimePoint now) {
  std::optional<Send> out = core_->next(now);
  core_->tell();
  return out;
}

void ComponentPipeline::on_answer(std::uint64_t tag, const ManagementReply* reply, TimePoint now) {
  core_->on_answer(tag, reply, now);
  core_->tell();
}

std::optional<TimePoint> ComponentPipeline::next_timer() const noexcept {
  return core_->next_timer();
}

void ComponentPipeline::on_timer(TimePoint now) {
  core_->on_timer(now);
  core_->tell();
}

bool ComponentPipeline::wants_reset() const noexcept { return core_->lost >= kMostLost; }
bool ComponentPipeline::wants_reconnect() const noexcept { return core_->reconnect; }

void ComponentPipeline::resync(TimePoint now) {
  core_->resync(now);
  core_->tell();
}

bool ComponentPipeline::is_connected() const noexcept { return core_->connected; }
bool ComponentPipeline::is_looked_at() const noexcept { return core_->looked_at; }
std::uint32_t ComponentPipeline::looks() const noexcept { return core_->looks; }
bool ComponentPipeline::is_unheard() const noexcept { return !core_->looked_at && !core_->trouble; }
bool ComponentPipeline::is_usable() const noexcept {
  return core_->connected && core_->greeted && !core_->trouble;
}
bool ComponentPipeline::synchronized() const noexcept { return core_->synchronized(); }
const std::optional<ComponentPipeline::Trouble>& ComponentPipeline::trouble() const noexcept {
  return core_->trouble;
}
const RouterCounters& ComponentPipeline::router() const noexcept { return core_->router; }
const ComponentPipeline::BrokerFacts& ComponentPipeline::broker() const noexcept {
  return core_->broker;
}
bool ComponentPipeline::is_unidentified() const noexcept {
  return !core_->greeted && !core_->trouble;
}
bool ComponentPipeline::set_twin(std::string message, TimePoint now) {
  const bool is_other = core_->set_twin(std::move(message), now);
  core_->tell();
  return is_other;
}
LinkStatus ComponentPipeline::connector(std::string_view name) const {
  return core_->connector(name);
}
std::size_t ComponentPipeline::entities() const noexcept { return core_->table.size(); }
std::size_t ComponentPipeline::entities(EntityKind kind) const noexcept {
  return core_->table.size(kind);
}
std::size_t ComponentPipeline::classes() const noexcept { return core_->table.classes(); }
std::size_t ComponentPipeline::pending() const noexcept { return core_->pending; }
std::optional<TimePoint> ComponentPipeline::last_sync() const noexcept { return core_->last_sync; }
const ComponentPipeline::Counts& ComponentPipeline::counts() const noexcept {
  return core_->exchanges.counts();
}
const std::deque<FailedExchange>& ComponentPipeline::failures() const noexcept {
  return core_->exchanges.failures();
}

}  // namespace kintsugi::workers
