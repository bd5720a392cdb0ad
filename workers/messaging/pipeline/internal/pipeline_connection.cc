// The connection, which component it leads to, and what is amiss with all of it.
#include <algorithm>
#include <utility>

#include "workers/messaging/pipeline/internal/pipeline_core.h"

namespace kintsugi::workers {

namespace {

constexpr std::string_view kSameBroker = "SameBroker";
constexpr std::int64_t kSpread = 20;  ///< MD-5: 10 to 29 s of half an hour

}  // namespace

void PipelineCore::set_trouble(std::string_view reason, std::string message) {
  if (trouble && trouble->reason == reason && trouble->message == message) {
    return;
  }
  if (is_twin() && reason != kSameBroker) {
    return;  // that comes first
  }
  trouble = ComponentPipeline::Trouble{reason, std::move(message)};
  facts_ = true;
}

void PipelineCore::clear_trouble() {
  if (trouble && trouble->reason != "UnsupportedRouter" &&
      trouble->reason != "UnsupportedVersion" && !is_twin()) {
    trouble.reset();
    facts_ = true;
  }
}

bool PipelineCore::set_twin(std::string message, TimePoint now) {
  now_ = now;
  if (twin_ == message) {
    return false;
  }
  twin_ = std::move(message);
  if (!greeted) {
    return true;
  }
  if (is_twin()) {
    set_trouble(kSameBroker, twin_);
  } else {
    clear_trouble();
    begin_checks(now, false);
  }
  return true;
}

/// Who it is and what it can is known: the first look at what it holds.
void PipelineCore::greet(TimePoint now) {
  if (greeted || !told_node_ || !told_version_) {
    return;
  }
  greeted = facts_ = true;
  if (is_twin()) {
    set_trouble(kSameBroker, twin_);
  }
  begin_checks(now, false);
}

/// One that has no such attribute, or lets us not read it, is like no other.
void PipelineCore::on_node(const ManagementReply& reply, TimePoint now) {
  const Expected<krm::Json> value = broker_value(reply);
  const bool is_text = value && (value->is_string() || value->is_null());
  if (!is_text) {
    const std::string text(value ? "NodeID is not a text" : value.error().message());
    exchanges.failed(now, "check", text, 0);
    if (value || value.error().code() == Errc::kInvalid || says_full(text)) {
      counters_at_ = now + params_.retry_least;
      return;
    }
  }
  broker.node = is_text ? value->as_string() : std::string_view();
  told_node_ = true;
  greet(now);
}

void PipelineCore::on_ready(std::string_view product, std::string_view version, TimePoint now) {
  now_ = now;
  connected = true;
  looked_at = false;
  heard_before_ = heard_;
  greeted = first_checks_done = told_node_ = told_version_ = false;
  resync_ = std::exchange(reconnect, false);
  lost = 0;
  forbidden_ = 0;
  forbidden_until_ = scan_free_ = looks_free_ = {};
  trouble.reset();
  facts_ = true;
  if (params_.kind == ComponentKind::kRouter && !is_supported_router(product, version)) {
    set_trouble("UnsupportedRouter", std::string(product) + " " + std::string(version));
    return;
  }
  if (params_.kind == ComponentKind::kRouter) {
    ask(Question::kCounters);
  } else {
    ask(Question::kNode);
    ask(Question::kVersion);
    ask(Question::kMemory);
  }
  counters_at_ = now + params_.counters;
  // Spread, so that components that connect together are not checked together.
  const auto share = static_cast<std::int64_t>(params_.seed * 0x9E3779B97F4A7C15U >> 54U);
  checks_at_ = params_.resync_by_reconnect
                   ? next_checks(now + params_.sweep + params_.sweep / 180 +
                                     params_.sweep / 1800 * kSpread * share / 1024,
                                 now)
                   : next_checks(now + params_.sweep / 2 + params_.sweep / 2048 * share, now);
  states_at_ = now + params_.links / 2 + params_.links / 2048 * share;
}

void PipelineCore::on_lost(std::string_view why, TimePoint now) {
  now_ = now;
  connected = greeted = looked_at = false;
  for (Flight& flight : flights_.take_all()) {
    if (flight.question == Question::kNone) {
      unanswered(flight, now, false);
    }
  }
  lookers_ = 0;
  questions_.clear();
  scans_.clear();
  sweeping_ = relooking_ = tables_after_sweep_ = false;
  counters_at_.reset();
  checks_at_.reset();
  states_at_.reset();
  lost = 0;
  // A queue that waits for the list asks anew.
  for (std::uint32_t index = 0; index < table.end(); ++index) {
    if (table[index].is_used() && table[index].compare) {
      table[index].compare = false;
      reconsider(index);
    }
  }
  set_trouble("ConnectionLost", std::string(why));
}

void PipelineCore::resync(TimePoint now) {
  now_ = now;
  if (connected && greeted) {
    begin_checks(now, true);
  }
}

void PipelineCore::complete(TimePoint now) {
  now_ = now;
  complete_ = true;
  if (std::exchange(orphans_left_, false) && connected && greeted) {
    begin_checks(now, true);
  }
}

}  // namespace kintsugi::workers
