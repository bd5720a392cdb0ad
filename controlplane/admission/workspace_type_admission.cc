#include "controlplane/admission/workspace_type_admission.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "controlplane/internal/names.h"
#include "krm/status.h"

namespace kintsugi::controlplane {
namespace {

using krm::Json;

struct ExportName {
  std::string path, name;
  [[nodiscard]] std::string shown() const { return path.empty() ? name : path + ":" + name; }
  bool operator==(const ExportName&) const = default;
};

Error refused(std::string_view type, std::string_view text) {
  return krm::forbidden(kTenancyGroup, kWorkspaceTypes, type, text);
}

std::string path_fault(const Json& type) {
  const Json* child = type.at({"spec", "defaultChildWorkspaceType"});
  if (child != nullptr && child->text({"path"}).empty()) {
    return ".spec.defaultChildWorkspaceType.path must be set";
  }
  for (const char* limit : {"limitAllowedChildren", "limitAllowedParents"}) {
    const Json* list = type.at({"spec", limit, "types"});
    for (std::size_t i = 0; list != nullptr && i < list->items().size(); ++i) {
      if (list->items()[i].text({"path"}).empty()) {
        return ".spec." + std::string(limit) + ".types[" + std::to_string(i) + "].path must be set";
      }
    }
  }
  return {};
}

std::vector<ExportName> default_exports(const Json* type) {
  std::vector<ExportName> out;
  const Json* list = type == nullptr ? nullptr : type->at({"spec", "defaultAPIBindings"});
  if (list != nullptr) {
    for (const Json& one : list->items()) {
      out.push_back({std::string(one.text({"path"})), std::string(one.text({"export"}))});
    }
  }
  return out;
}

/// The cluster in which the right to bind is asked; the export itself need not be there.
std::optional<std::string> cluster_of_export(ClusterIndex& index, const ApiCatalog& catalog,
                                             std::string_view own, const ExportName& wanted) {
  if (wanted.path.empty()) {
    return std::string(own);
  }
  if (wanted.path == kRootCluster) {
    return std::string(kRootCluster);
  }
  if (ClusterIndex::Answer answer = index.resolve(wanted.path); !answer.cluster.empty()) {
    return std::move(answer.cluster);
  }
  const std::optional<ExportRef> ref = catalog.find_export(own, wanted.path, wanted.name);
  return ref ? std::optional(ref->cluster) : std::nullopt;
}

/// Asks for verb `bind` of one export after the other.
struct BindCheck : std::enable_shared_from_this<BindCheck> {
  struct Question {
    std::string cluster, name, shown;
  };
  auth::Authorizer& authorizer;
  auth::UserInfo user;
  std::string type;
  std::vector<Question> questions;
  apiserver::Hooks::AdmitDone done;

  BindCheck(auth::Authorizer& asked, auth::UserInfo who)
      : authorizer(asked), user(std::move(who)) {}

  void refuse(const std::string& shown) {
    done(fail(refused(type,
                      "unable to create or update WorkspaceType: no permission to bind to "
                      "export " +
                          shown)));
  }

  void ask(std::size_t next) {
    if (next == questions.size()) {
      done({});
      return;
    }
    auth::Attributes bind;
    bind.user = user;
    bind.cluster = questions[next].cluster;
    bind.verb = "bind";
    bind.group = kApisGroup;
    bind.version = "v1alpha1";
    bind.resource = kApiExports;
    bind.name = questions[next].name;
    bind.deep = true;
    authorizer.authorize(bind, [self = shared_from_this(), next](Expected<auth::Decision> answer) {
      if (answer && answer->allowed) {
        self->ask(next + 1);
      } else {
        self->refuse(self->questions[next].shown);
      }
    });
  }
};

}  // namespace

void prepare_workspace_type(const apiserver::WriteContext& context, Json& type) {
  if (context.subresource.empty() && context.verb != "delete" &&
      type.at({"spec", "defaultChildWorkspaceType"}) == nullptr) {
    type.make({"spec", "defaultChildWorkspaceType"}) =
        Json::object({{"name", "universal"}, {"path", kRootCluster}});
  }
}

void admit_workspace_type(const apiserver::WriteContext& context, const Json* type, const Json* old,
                          const apiserver::Hooks::AdmitDone& done) {
  const std::string_view name =
      type == nullptr ? std::string_view() : type->text({"metadata", "name"});
  if (old == nullptr && (name == "any" || name == "system")) {
    done(fail(refused(
        name, "metadata.name: Invalid value: " + Json(name).dump() + ": name is reserved")));
  } else if (old == nullptr && name == kRootCluster && context.cluster != kRootCluster) {
    done(fail(refused(name, "root workspace type can only be created in root cluster")));
  } else {
    done({});
  }
}

void approve_workspace_type(ClusterIndex& index, const ApiCatalog& catalog,
                            auth::Authorizer& authorizer, const apiserver::WriteContext& context,
                            const Json* type, const Json* old, apiserver::Hooks::AdmitDone done) {
  if (type == nullptr || !context.subresource.empty()) {
    done({});
    return;
  }
  const std::string name(type->text({"metadata", "name"}));
  const std::string fault = path_fault(*type);
  // What was stored before may be stored again.
  const Json* before = old == nullptr ? nullptr : old->find("spec");
  const Json* now = type->find("spec");
  const bool changed = before == nullptr || now == nullptr || !(*before == *now);
  if (changed && !fault.empty()) {
    done(fail(refused(name, fault)));
    return;
  }
  auto check = std::make_shared<BindCheck>(authorizer, context.user);
  check->type = name;
  check->done = std::move(done);
  const std::vector<ExportName> known = default_exports(old);
  for (const ExportName& wanted : default_exports(type)) {
    if (std::find(known.begin(), known.end(), wanted) != known.end()) {
      continue;
    }
    const std::optional<std::string> cluster =
        cluster_of_export(index, catalog, context.cluster, wanted);
    if (!cluster) {
      check->refuse(wanted.shown());
      return;
    }
    check->questions.push_back({*cluster, wanted.name, wanted.shown()});
  }
  check->ask(0);
}

}  // namespace kintsugi::controlplane
