#include "workers/eventing/dispatcher/dispatcher.h"

#include <utility>
#include <vector>

#include "base/log.h"

namespace kintsugi::workers {
namespace {

using Verdict = ContractGate::Verdict;

std::string complaint_of(Verdict verdict, const Contract& contract, const ContractGate& gate) {
  switch (verdict) {
    case Verdict::kOldEpoch:
      return "epoch " + std::to_string(contract.epoch) + " is below " +
             std::to_string(gate.epoch());
    case Verdict::kOldGeneration:
      return contract.generation == gate.generation()
                 ? ""
                 : "generation " + std::to_string(contract.generation) + " is below " +
                       std::to_string(gate.generation());
    case Verdict::kUnreadable:
    case Verdict::kApply:
      return "";
  }
  return "";
}

}  // namespace

Dispatcher::Dispatcher(net::Loop& loop, DispatcherSettings settings)
    : loop_(loop), settings_(std::move(settings)), sinks_(loop), producers_(loop, settings_.pod) {}

Dispatcher::~Dispatcher() = default;

void Dispatcher::take(std::string_view bytes) {
  if (stopping_) {
    return;
  }
  const auto contract = parse_contract(bytes);
  const Verdict verdict = contract ? gate_.judge(*contract) : Verdict::kUnreadable;
  if (verdict == Verdict::kApply) {
    complaint_.clear();
    ++counters_.contracts;
    return apply(*contract);
  }
  complaint_ =
      contract ? complaint_of(verdict, *contract, gate_) : std::string(contract.error().message());
  if (!complaint_.empty()) {
    ++counters_.refused_contracts[static_cast<std::size_t>(verdict)];
    log_warn("the contract is not applied", {{"why", complaint_}});
  }
}

void Dispatcher::apply(const Contract& contract) {
  std::string trusted;
  for (const std::string& bundle : contract.trust_bundles) {
    trusted += bundle + "\n";
  }
  wanted_.clear();
  refused_.clear();
  for (const ContractResource& resource : contract.resources) {
    for (const Egress& egress : resource.egresses) {
      if (wanted_.contains(egress.uid)) {
        refused_[egress.uid] = "uid: another egress has it, too";
        continue;
      }
      auto terms = make_terms(resource, egress, trusted, settings_, sinks_, producers_);
      if (terms) {
        wanted_[egress.uid] = std::move(*terms);
      } else {
        refused_[egress.uid] = terms.error().message();
        log_warn("egress refused", {{"egress", egress.uid}, {"why", refused_[egress.uid]}});
      }
    }
  }
  log_info("contract applied", {{"generation", gate_.generation()},
                                {"epoch", gate_.epoch()},
                                {"egresses", static_cast<std::uint64_t>(wanted_.size())},
                                {"refused", static_cast<std::uint64_t>(refused_.size())}});
  reach();
}

void Dispatcher::reach() {
  std::vector<std::string> gone;
  for (const auto& [uid, runner] : runners_) {
    const auto at = wanted_.find(uid);
    if (at == wanted_.end() || needs_other_consumers(runner->terms(), *at->second)) {
      gone.push_back(uid);
    }
  }
  for (const std::string& uid : gone) {
    end(uid);
  }
  for (const auto& [uid, terms] : wanted_) {
    if (const auto at = runners_.find(uid); at != runners_.end()) {
      at->second->update(terms);
    } else if (!ending_.contains(uid)) {  // else when that has ended
      auto runner = std::make_unique<EgressRunner>(loop_, settings_, counters_, terms);
      if (auto started = runner->start(); !started) {
        refused_[uid] = started.error().message();
        log_warn("egress refused", {{"egress", uid}, {"why", refused_[uid]}});
      }
      runners_.emplace(uid, std::move(runner));
    }
  }
}

void Dispatcher::end(const std::string& uid) {
  auto node = runners_.extract(uid);
  EgressRunner& runner = *node.mapped();
  ending_.insert(std::move(node));
  runner.stop([this, uid] {
    ending_.erase(uid);
    if (!stopping_) {
      return reach();
    }
    if (ending_.empty()) {
      std::exchange(done_, nullptr)();
    }
  });
}

void Dispatcher::stop(std::function<void()> done) {
  if (std::exchange(stopping_, true)) {
    return;
  }
  done_ = std::move(done);
  wanted_.clear();
  while (!runners_.empty()) {
    end(std::string(runners_.begin()->first));
  }
  if (ending_.empty()) {
    loop_.post(alive_.guard([this] { std::exchange(done_, nullptr)(); }));
  }
}

krm::Json Dispatcher::status() const {
  krm::Json egresses = krm::Json::object();
  for (const auto& [uid, runner] : runners_) {
    egresses[uid] = runner->status();
  }
  for (const auto& [uid, why] : refused_) {
    egresses[uid]["refused"] = why;
  }
  krm::Json out = krm::Json::object({{"pod", settings_.pod},
                                     {"generation", gate_.generation()},
                                     {"epoch", gate_.epoch()},
                                     {"egresses", std::move(egresses)}});
  if (!complaint_.empty()) {
    out["contract"] = complaint_;
  }
  return out;
}

}  // namespace kintsugi::workers
