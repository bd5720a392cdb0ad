#include "server/internal/slice_admission.h"

#include <memory>
#include <string>
#include <utility>

#include "controlplane/kinds/kcp_kinds.h"
#include "krm/status.h"

namespace kintsugi::server {
namespace {

using krm::Json;

constexpr std::string_view kGroup = "apis.kcp.io";
constexpr std::string_view kSlices = "apiexportendpointslices";

/// As the client called it: a name that the server made up says nothing to it.
std::string name_of(const apiserver::WriteContext& context, const Json& object) {
  const std::string_view name = object.text({"metadata", "name"});
  return std::string(
      name.empty() || context.generated_name ? object.text({"metadata", "generateName"}) : name);
}

}  // namespace

bool changes_export(const Json* object, const Json* old) {
  const Json* now = object != nullptr ? object->at({"spec", "export"}) : nullptr;
  const Json* before = old != nullptr ? old->at({"spec", "export"}) : nullptr;
  return now != nullptr && before != nullptr && !(*now == *before);
}

void admit_slice(const AskBind& ask, const endpointslice::Regions& regions,
                 const apiserver::WriteContext& context, const Json* object, const Json* old,
                 apiserver::Hooks::AdmitDone done) {
  if (object == nullptr || !context.subresource.empty()) {
    done({});
    return;
  }
  for (std::string& warning : endpointslice::annotation_warnings(*object, regions)) {
    context.warnings.push_back(std::move(warning));
  }
  const Json* wanted = object->at({"spec", "export"});
  const Json* before = old != nullptr ? old->at({"spec", "export"}) : nullptr;
  if (old != nullptr &&
      (wanted == nullptr ? before == nullptr : before != nullptr && *before == *wanted)) {
    done({});
    return;
  }
  const std::string_view name = object->text({"spec", "export", "name"});
  std::string slice = name_of(context, *object);
  if (name.empty()) {
    done(fail(krm::forbidden(kGroup, kSlices, slice, "[spec.export.name: Required value]")));
    return;
  }
  ask({context.user, std::string(context.cluster), std::string(wanted->text({"path"})),
       std::string(name), std::move(slice)},
      std::move(done));
}

apiserver::ResourcePtr admitted_slice_kind(proxy::BindCheck& binds,
                                           const proxy::ProxyConfig& config) {
  apiserver::ResourceDef def = *controlplane::api_export_endpoint_slice_kind();
  const AskBind ask = [&binds](proxy::BindCheck::Question question,
                               std::function<void(Expected<void>)> done) {
    binds.check(std::move(question), std::move(done));
  };
  // After the schema has had its say.
  def.hooks.approve = [ask, regions = config.endpoint_slice.regions](
                          const apiserver::WriteContext& context, const Json* object,
                          const Json* old, apiserver::Hooks::AdmitDone done) {
    if (context.subresource.empty() && changes_export(object, old)) {
      done({});
      return;
    }
    admit_slice(ask, regions, context, object, old, std::move(done));
  };
  return std::make_shared<const apiserver::ResourceDef>(std::move(def));
}

}  // namespace kintsugi::server
