#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "apiserver/controllers/controller.h"
#include "base/strings.h"
#include "controlplane/catalog/api_catalog.h"
#include "controlplane/controllers/workspace_types.h"

namespace kintsugi::controlplane {

/// Makes the APIBindings that a WorkspaceType and the types it extends ask for
/// (spec.defaultAPIBindings): in a new logical cluster as the initializer `system:apibindings`,
/// which it takes away when all of them are bound; later on for types with the lifecycle Maintain.
/// Permission claims of the exports are accepted. Why a cluster still waits stands in its condition
/// APIBindingsInitialized. Source: AM-484, AM-488.
class DefaultBindings final : public apiserver::ControllerBase {
 public:
  DefaultBindings(const apiserver::ControllerContext& context, const WorkspaceTypeLookup& types,
                  ApiCatalog& catalog);
  void start() override;
  void add_cluster(std::string_view cluster) override;
  void remove_cluster(std::string_view cluster) override;

 private:
  struct Work;
  using WorkPtr = std::shared_ptr<Work>;
  /// Whether a type, with those that it extends, is concerned by a change.
  using Concerns = std::function<bool(const std::vector<FoundType>& types)>;

  void process(const std::string& cluster, Finished finished) override;
  void look_again(const Concerns& concerns);
  void note_type(std::string_view cluster, std::string_view type);
  void collect(Work& work, const std::vector<FoundType>& types) const;
  void step(const WorkPtr& work);
  void conclude(const WorkPtr& work);
  void write_status(const WorkPtr& work, krm::Json object);
  void wait(const WorkPtr& work, std::string_view severity, std::string_view reason,
            const std::string& message);

  const WorkspaceTypeLookup& types_;
  ApiCatalog& catalog_;
  StringMap<std::string> type_of_;                                     // by cluster
  std::map<std::string, std::set<std::string>, std::less<>> of_type_;  // clusters
  StringMap<TimePoint> waiting_since_;
};

/// The name that kcp gives such a binding: the export's, cut, and five characters that depend on
/// all three arguments.
[[nodiscard]] std::string default_binding_name(std::string_view cluster,
                                               std::string_view export_path,
                                               std::string_view export_name);

}  // namespace kintsugi::controlplane
