#include "controlplane/admission/definition_admission.h"

#include <memory>
#include <string>
#include <utility>

#include "apiserver/judged_hook.h"
#include "controlplane/internal/names.h"
#include "krm/go_text.h"
#include "krm/status.h"

namespace kintsugi::controlplane {
namespace {

using krm::Json;

/// The APIBinding that has bound what the definition is of; "": none.
std::string holder_of(const apiserver::WriteContext& context, const Json& definition) {
  const std::string_view group = definition.text({"spec", "group"});
  const std::string_view plural = definition.text({"spec", "names", "plural"});
  std::string holder;
  context.reader.list(context.cluster, kApisGroup, kApiBindings, "", [&](const Json& binding) {
    const Json* bound = binding.at({"status", "boundResources"});
    for (const Json& one : bound == nullptr ? Json::Array() : bound->items()) {
      if (one.text({"resource"}) == plural && one.text({"group"}) == group) {
        holder = binding.text({"metadata", "name"});
      }
    }
    return holder.empty();
  });
  return holder;
}

}  // namespace

apiserver::ResourcePtr with_resource_locks(const apiserver::ResourcePtr& definitions) {
  auto def = std::make_shared<apiserver::ResourceDef>(*definitions);
  const auto judge = [group = def->group, plural = def->plural](
                         const apiserver::WriteContext& context, const Json* object,
                         const Json* old) -> Expected<void> {
    const bool is_new = object != nullptr && old == nullptr && context.subresource.empty() &&
                        !context.cluster.starts_with("system:");
    const std::string holder = is_new ? holder_of(context, *object) : std::string();
    if (holder.empty()) {
      return {};
    }
    return fail(krm::forbidden(
        group, plural, object->text({"metadata", "name"}),
        "cannot create because resource is bound by APIBinding " + krm::go_quote(holder)));
  };
  def->hooks.approve = apiserver::judged_hook(judge, std::move(def->hooks.approve));
  return def;
}

}  // namespace kintsugi::controlplane
