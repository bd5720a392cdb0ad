#pragma once

// Only for tests of this folder: several shards that answer what the test says, and merged reads
// over them.

#include <gtest/gtest.h>

#include <functional>
#include <list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "proxy/testing/rig.h"

namespace kintsugi::proxy::testing {

inline constexpr const char* kMaps = "/clusters/*/api/v1/configmaps";

using Script = std::function<void(Exchange&)>;
using Fields = std::initializer_list<std::pair<std::string_view, std::string_view>>;

/// Shards with scripts, and answers of merged reads. Derived fixtures say what the scripts are.
class MergedReads : public ::testing::Test {
 protected:
  /// The first of the names is the rig's own shard, "alpha".
  void begin(const std::vector<std::string>& names, const aggregation::MergeOptions& options,
             const std::function<void(aggregation::MergeParams&)>& set) {
    rig_ = std::make_unique<Rig>(
        [](net::UpstreamParams& params) { params.restart_window = Duration(); },
        [&](ProxyHandlerParams& params) {
          params.wildcard = true;
          params.merge_options = options;
          set(params.merge_params);
          params.memory = memory_;
          params.process_limits = process_limits_;
        });
    rig_->log_in();
    scripts_.resize(names.size());
    listeners_.resize(names.size());
    for (std::size_t i = 1; i < names.size(); ++i) {
      more_.push_back(std::make_unique<FakeShard>());
    }
    for (std::size_t i = 0; i < names.size(); ++i) {
      shard(i).complete = [this, i](Exchange& exchange) { scripts_[i](exchange); };
      if (i > 0) {
        listeners_[i] = Rig::must(net::Listener::open(rig_->loop, net::ListenerParams(), shard(i)));
        topology::ShardSpec spec;
        spec.name = names[i];
        spec.base_url = "http://127.0.0.1:" + std::to_string(listeners_[i]->port());
        rig_->add_shard(spec);
      }
    }
  }
  void TearDown() override {
    answers_.clear();
    for (const auto& listener : listeners_) {
      if (listener) {
        listener->close();
      }
    }
  }
  /// The shard cannot be reached any more.
  void take_away(std::size_t i) {
    listeners_[i]->close();
    listeners_[i].reset();
  }

  FakeShard& shard(std::size_t i) { return i == 0 ? rig_->shard : *more_[i - 1]; }
  Answer& send(const std::string& query = "", const std::string& accept = "application/json",
               Fields fields = {}) {
    http::RequestHead head = Rig::get(kMaps + query);
    head.headers.add("accept", accept);
    for (const auto& [name, value] : fields) {
      head.headers.add(name, value);
    }
    Answer& answer = answers_.emplace_back();
    rig_->send(answer, head);
    return answer;
  }
  bool until(const std::function<bool()>& check) { return rig_->until(check); }
  std::uint64_t failures(const std::string& name, std::string_view reason) {
    const auto& all = rig_->handler->merge_stats().shard_failures;
    const auto found = all.find({name, reason});
    return found == all.end() ? 0 : found->second;
  }

  std::shared_ptr<MemoryBudget> memory_ = std::make_shared<MemoryBudget>(0);
  std::shared_ptr<serving::ProcessLimits> process_limits_;  // null: none
  std::unique_ptr<Rig> rig_;
  std::vector<std::unique_ptr<FakeShard>> more_;
  std::vector<Script> scripts_;
  std::vector<std::unique_ptr<net::Listener>> listeners_;
  std::list<Answer> answers_;
};

}  // namespace kintsugi::proxy::testing
