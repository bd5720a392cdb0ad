#include "workers/eventing/dispatcher/contract_gate.h"

namespace kintsugi::workers {

ContractGate::Verdict ContractGate::judge(const Contract& contract) {
  if (contract.epoch < epoch_) {
    return Verdict::kOldEpoch;
  }
  if (applied_ && contract.generation <= generation_) {
    return Verdict::kOldGeneration;
  }
  applied_ = true;
  generation_ = contract.generation;
  epoch_ = contract.epoch;
  return Verdict::kApply;
}

}  // namespace kintsugi::workers
