#include <memory>
#include <utility>

#include "kinds/common.h"
#include "krm/status.h"

namespace kintsugi::kinds {

namespace {

using krm::Json;

void validate(const apiserver::WriteContext&, const Json& object, const Json*,
              std::vector<Cause>& causes) {
  const Json* duration = object.at({"spec", "leaseDurationSeconds"});
  if (duration != nullptr && duration->is_integer() && duration->as_integer() <= 0) {
    causes.push_back(
        krm::field_invalid("spec.leaseDurationSeconds", *duration, "must be greater than 0"));
  }
  const Json* transitions = object.at({"spec", "leaseTransitions"});
  if (transitions != nullptr && transitions->is_integer() && transitions->as_integer() < 0) {
    causes.push_back(krm::field_invalid("spec.leaseTransitions", *transitions,
                                        "must be greater than or equal to 0"));
  }
}

}  // namespace

std::vector<apiserver::ResourcePtr> coordination_kinds() {
  apiserver::ResourceDef def = make_kind("coordination.k8s.io", "v1", "Lease", "leases");
  def.unconditional_update = false;
  def.create_on_update = true;
  apiserver::Column holder;
  holder.name = "Holder";
  holder.description =
      "holderIdentity contains the identity of the holder of a current lease. If Coordinated "
      "Leader "
      "Election is used, the holder identity must be equal to the elected "
      "LeaseCandidate.metadata.name "
      "field.";
  holder.cell = [](const Json& object) { return Json(object.text({"spec", "holderIdentity"})); };
  def.versions[0].columns = {std::move(holder), age_column()};
  def.hooks.prepare = [](const apiserver::WriteContext&, Json& lease, const Json*) {
    // Of coordinated leader election, which a server has to be told to have.
    if (Json* spec = lease.find("spec")) {
      spec->erase("strategy");
      spec->erase("preferredHolder");
    }
  };
  def.hooks.validate = validate;
  return {std::make_shared<const apiserver::ResourceDef>(std::move(def))};
}

}  // namespace kintsugi::kinds
