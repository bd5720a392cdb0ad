#include "workers/eventing/control/pod_control.h"

#include <utility>

#include "base/log.h"
#include "base/strings.h"
#include "workers/runtime/control/outcome_of.h"

namespace kintsugi::workers {
namespace {

using krm::Json;

constexpr int kMostPodWrites = 8;  ///< of one turn

}  // namespace

net::Task<Outcome> PodControl::reconcile(Key key) {
  const Step step = site_.unit().step(*controller_, key.view());
  for (int i = 0; i < kMostPodWrites; ++i) {
    Next what = next(key.name, step.epoch);
    if (!what.writes) {
      co_return what.outcome;
    }
    net::Task<ApiAnswer> writing = site_.unit().write_home(step, std::move(what.write));
    const ApiAnswer answer = co_await writing;
    if (answer.is(409) && what.creates) {  // somebody made it, without our label
      net::Task<ApiAnswer> asking = site_.unit().home().get(std::move(what.path));
      const ApiAnswer there = co_await asking;
      if (!there.ok()) {
        co_return Outcome::error();
      }
      site_.lay_contract(there.body);
      continue;
    }
    if (!answer.ok()) {
      const Outcome outcome =
          outcome_of(answer, what.is_contract ? RequestKind::kCreate : RequestKind::kUpdate);
      co_return outcome.kind == Outcome::Kind::kDone ? Outcome::error() : outcome;
    }
    if (what.is_contract) {
      ++site_.counts.contracts;
      site_.lay_contract(answer.body);
    } else {
      ++site_.counts.annotations;
      site_.lay_pod(answer.body);
    }
  }
  co_return Outcome::requeue_after({});
}

PodControl::Next PodControl::next(const std::string& name, std::uint64_t epoch) {
  Next out;
  const CachedPod* const pod = site_.pod(name);
  const std::size_t dash = name.rfind('-');
  const DispatcherPool* const pool =
      dash == std::string::npos ? nullptr : site_.pool(std::string_view(name).substr(0, dash));
  if (pod == nullptr || pool == nullptr) {
    return out;  // its ConfigMap goes with it; a pool that begins looks at its pods
  }
  const CachedMap* const map = site_.contract(pod->contract);
  const ContractPlan plan =
      plan_contract(pod_contract(*pool, name),
                    map == nullptr ? std::nullopt : std::optional<std::string_view>(map->data),
                    map == nullptr ? 0 : map->epoch, pod->volume_generation, epoch,
                    site_.config().contract_format);
  if (plan.what == ContractPlan::What::kOvertaken) {
    ++site_.counts.overtaken;
    log_warn("another worker of a later epoch has written a contract", {{"pod", name}});
    out.outcome = Outcome::error();
    return out;
  }
  if (plan.what == ContractPlan::What::kWrite) {
    out.writes = out.is_contract = true;
    out.creates = map == nullptr;
    out.path = site_.home_path(kContractMaps).append("/").append(pod->contract);
    out.write = write_map(*pod, name, plan, epoch);
    return out;
  }
  auto patch = seen_patch(pod->annotations.value(), seen_of_contract(*pool, name),
                          static_cast<std::int64_t>(plan.generation));
  if (patch) {
    out.writes = true;
    out.write.method = "PATCH";
    out.write.path = site_.home_path(kPods).append("/").append(name);
    out.write.body = patch->dump();
    out.write.content_type = kMergePatch;
  }
  return out;
}

ApiWrite PodControl::write_map(const CachedPod& pod, const std::string& name,
                               const ContractPlan& plan, std::uint64_t epoch) const {
  const CachedMap* const map = site_.contract(pod.contract);
  Json metadata = Json::object();
  metadata["annotations"] = Json::object({{kEpochAnnotation, std::to_string(epoch)}});
  metadata["labels"] = Json::object({{kKindLabel, kContractKind}});
  metadata["ownerReferences"] = Json::array({Json::object(
      {{"apiVersion", "v1"}, {"kind", kPods.kind}, {"name", name}, {"uid", pod.uid}})});
  ApiWrite write;
  write.path = site_.home_path(kContractMaps);
  Json body = Json::object({{"binaryData", Json::object({{"data", base64_encode(plan.data)}})}});
  if (map == nullptr) {
    write.method = "POST";
    metadata["name"] = pod.contract;
    body["apiVersion"] = "v1";
    body["kind"] = kContractMaps.kind;
  } else {
    write.method = "PATCH";
    write.path.append("/").append(pod.contract);
    write.content_type = kMergePatch;
    metadata["resourceVersion"] = map->resource_version;
  }
  body["metadata"] = std::move(metadata);
  write.body = body.dump();
  return write;
}

}  // namespace kintsugi::workers
