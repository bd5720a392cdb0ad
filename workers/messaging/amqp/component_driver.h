#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "net/loop.h"
#include "workers/messaging/amqp/component_link.h"
#include "workers/messaging/pipeline/component_pipeline.h"
#include "workers/runtime/queue/duration_histogram.h"

namespace kintsugi::workers {

/// A component's pipeline on its link: requests leave while there is room, answers come back, both
/// have their timers, and three requests without an answer end the connection. Source: MR-28,
/// MR-30, BH-5. Threads: its loop. Lifetime: the pipeline outlives it; silent once it is destroyed,
/// which no callback of the pipeline may do.
class ComponentDriver final : private net::Loop::Flushable {
 public:
  /// @param may_act  asked before each request; while it says no, nothing is sent. Empty: always.
  ComponentDriver(net::Loop& loop, ComponentPipeline& pipeline, ComponentLink::Params link,
                  std::function<bool()> may_act = {});
  ~ComponentDriver();
  ComponentDriver(const ComponentDriver&) = delete;
  ComponentDriver& operator=(const ComponentDriver&) = delete;

  /// From when a request leaves until its answer, or its deadline, by PipelineStep.
  using Durations = std::array<DurationHistogram, kPipelineSteps>;
  [[nodiscard]] const Durations& durations() const noexcept { return durations_; }
  [[nodiscard]] const ComponentLink& link() const noexcept { return link_; }
  /// There may be something to send: after want(), forget(), complete(), resync() of the pipeline.
  /// It happens in this turn's flush pass. Cheap when it is told already.
  void wake();
  /// For good; the pipeline keeps what it knows.
  void stop();

 private:
  void flush() noexcept override;
  void on_answer(std::uint64_t id, const ManagementReply* reply);
  void on_lost(const std::string& why, bool unauthorized);
  void arm();

  net::Loop& loop_;
  ComponentPipeline& pipeline_;
  const std::function<bool()> may_act_;
  struct Tag {
    std::uint64_t id = 0;  ///< the session's number
    std::uint64_t tag = 0;
    TimePoint sent{};
    PipelineStep step = PipelineStep::kCheck;
  };
  std::vector<Tag> tags_;  // a window
  Durations durations_;
  std::optional<TimePoint> armed_;
  net::Timer timer_;
  bool stopped_ = false;
  ComponentLink link_;
};

}  // namespace kintsugi::workers
