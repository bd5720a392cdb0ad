#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "krm/json.h"
#include "workers/messaging/model/condition_of.h"
#include "workers/runtime/status/conditions.h"
#include "workers/runtime/status/status_write.h"

namespace kintsugi::workers {

/// A status being written: conditions in their order, and the lists that consoles read.
class StatusWriter {
 public:
  StatusWriter(const krm::Json& from, std::vector<std::string_view> order, std::string_view now,
               const Redactor* redactor, std::int64_t generation)
      : status_(from), now_(now), generation_(generation) {
    rules_.order = std::move(order);
    rules_.redactor = redactor;
  }

  void set(Condition condition) {
    condition.observed_generation = generation_;
    set_condition(status_, rules_, condition, now_);
  }
  void set(std::string_view type, ConditionStatus status, std::string_view reason,
           std::string message = {}) {
    set(condition_of(type, status, reason, std::move(message)));
  }
  void set_true(std::string_view type) { set(type, ConditionStatus::kTrue, type); }
  void drop(std::string_view type) { drop_condition(status_, type); }
  [[nodiscard]] krm::Json& json() noexcept { return status_; }
  [[nodiscard]] bool is(std::string_view type, std::string_view status) const noexcept {
    const krm::Json* one = find_condition(status_, type);
    return one != nullptr && one->text({"status"}) == status;
  }
  /// Messages of all conditions that are not True, Ready's when it has one; each once.
  [[nodiscard]] std::vector<std::string> messages() const {
    std::vector<std::string> out;
    const krm::Json* all = status_.find("conditions");
    if (all == nullptr) {
      return out;
    }
    for (const krm::Json& one : all->items()) {
      const std::string text(one.text({"message"}));
      const bool told = one.text({"status"}) == "False" || one.text({"type"}) == "Ready";
      if (told && !text.empty() && std::find(out.begin(), out.end(), text) == out.end()) {
        out.push_back(text);
      }
    }
    return out;
  }
  /// phase, isReady, messages[] and observedGeneration; the whole, no larger than it may be.
  [[nodiscard]] krm::Json finish(std::string_view phase, bool console) {
    status_["phase"] = phase;
    status_["observedGeneration"] = generation_;
    const std::vector<std::string> texts = messages();
    if (console) {
      status_["isReady"] = is("Ready", "True");
      krm::Json list = krm::Json::array();
      for (const std::string& text : texts) {
        list.push_back(text);
      }
      status_["messages"] = std::move(list);
    } else {
      status_["message"] = texts.empty() ? std::string() : texts.front();
    }
    (void)summarize_status(status_);
    return std::move(status_);
  }

 private:
  krm::Json status_;
  ConditionRules rules_;
  std::string_view now_;
  std::int64_t generation_;
};

}  // namespace kintsugi::workers
