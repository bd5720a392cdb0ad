#include "controlplane/views/partition_view.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "auth/own_roles.h"
#include "controlplane/clusters/cluster_resolver.h"
#include "controlplane/internal/names.h"
#include "controlplane/kinds/kcp_kinds.h"
#include "krm/status.h"

namespace kintsugi::controlplane {
namespace {

using krm::Json;

constexpr std::string_view kTopologyGroup = "topology.kcp.io";
constexpr std::string_view kNotes = "partitionnotes";
constexpr std::size_t kLongestSelector = 256UL << 10U;
constexpr std::size_t kLongestName = 253, kLongestSource = 64;

/// "" or what is wrong with it.
std::string note_fault(const Json& spec) {
  const std::string_view name = spec.text({"partition"});
  const std::size_t source = spec.text({"source"}).size();
  const Json* selector = spec.find("selector");
  const bool is_name =
      !name.empty() && name.size() <= kLongestName &&
      std::all_of(name.begin(), name.end(), [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.';
      });
  if (!is_name || source == 0 || source > kLongestSource) {
    return "partition and source are required";
  }
  if (selector != nullptr && !selector->is_object()) {
    return "the selector is no object";
  }
  return selector != nullptr && selector->dump().size() > kLongestSelector
             ? "the selector is too long"
             : "";
}

bool is_named(const apiserver::ObjectReader& reader, std::string_view cluster,
              std::string_view partition) {
  bool found = false;
  reader.list(cluster, kCacheGroup, kCachedSlices, "", [&](const Json& slice) {
    found = slice.text({"spec", "partition"}) == partition;
    return !found;
  });
  return found;
}

}  // namespace

NoteOutcome judge_note(const Json& spec, const std::optional<Json>& before) {
  const Json* gone = spec.find("gone");
  if (gone != nullptr && gone->is_bool() && gone->as_bool()) {
    return {before && before->text({"source"}) == spec.text({"source"}), std::nullopt};
  }
  Json fact = Json::object({{"source", spec.text({"source"})}});
  if (const Json* selector = spec.find("selector")) {
    fact["selector"] = *selector;
  }
  const bool same =
      before && before->text({"source"}) == fact.text({"source"}) &&
      (before->find("selector") != nullptr) == (fact.find("selector") != nullptr) &&
      (fact.find("selector") == nullptr || *before->find("selector") == *fact.find("selector"));
  return {!same, std::move(fact)};
}

class PartitionView::One final : public apiserver::View,
                                 private apiserver::Registry,
                                 private auth::Authorizer {
 public:
  explicit One(ServerFacts& facts) {
    apiserver::ResourceDef def = *partition_note_kind();
    def.hooks.answer = [&facts](const apiserver::WriteContext& context, Json object,
                                const apiserver::Hooks::CreateDone& done) {
      const Json spec = object.find("spec") == nullptr ? Json::object() : *object.find("spec");
      const std::string partition(spec.text({"partition"}));
      if (std::string fault = note_fault(spec); !fault.empty()) {
        done(fail(krm::bad_request(std::move(fault))));
        return;
      }
      if (!is_named(context.reader, context.cluster, partition)) {
        done(fail(krm::not_found(kTopologyGroup, kNotes, partition)));
        return;
      }
      const apiserver::ObjectKey key{std::string(context.cluster), "", std::string(kPartitionFacts),
                                     "", partition};
      NoteOutcome outcome = judge_note(spec, facts.get(key));
      object.erase("spec");
      if (!outcome.writes) {
        done(std::move(object));
      } else if (!outcome.fact) {
        facts.erase(key);
        done(std::move(object));
      } else {
        facts.put(key, std::move(*outcome.fact), [object, done](bool stored) {
          if (stored) {
            done(object);
          } else {
            done(fail(Errc::kUnavailable, "the note could not be stored"));
          }
        });
      }
    };
    def_ = std::make_shared<const apiserver::ResourceDef>(std::move(def));
  }

  [[nodiscard]] const apiserver::Registry& registry() const override { return *this; }
  [[nodiscard]] auth::Authorizer& authorizer() override { return *this; }
  [[nodiscard]] std::string_view rights_cluster() const override { return {}; }
  [[nodiscard]] krm::Selector visible(std::string_view,
                                      const apiserver::ResourceDef&) const override {
    return {};
  }
  [[nodiscard]] Expected<void> prepare(const apiserver::WriteContext&,
                                       const apiserver::ResourceDef&, Json&,
                                       const Json*) const override {
    return {};
  }

 private:
  [[nodiscard]] apiserver::ResourcePtr find(std::string_view, std::string_view group,
                                            std::string_view resource) const override {
    return group == kTopologyGroup && resource == kNotes ? def_ : nullptr;
  }
  [[nodiscard]] std::vector<apiserver::ResourcePtr> all(std::string_view) const override {
    return {def_};
  }
  [[nodiscard]] std::uint64_t generation(std::string_view) const override { return 1; }
  [[nodiscard]] bool ready(std::string_view) const override { return true; }

  void authorize(const auth::Attributes& attributes, Done done) override {
    const bool allowed = attributes.user.in_group(auth::kGroupOwnProxy) && attributes.is_resource &&
                         attributes.verb == "create";
    done(auth::Decision{allowed, allowed ? "access granted" : "access denied"});
  }

  apiserver::ResourcePtr def_;
};

PartitionView::PartitionView(ServerFacts& facts) : view_(std::make_shared<One>(facts)) {}
PartitionView::~PartitionView() = default;

Expected<std::optional<apiserver::ClusterTarget>> PartitionView::resolve(
    const ViewRequest& request) {
  std::optional<ViewPath> path = split_view_path(request, 1);
  if (!path) {
    return std::nullopt;
  }
  if (path->segments.front() != path->cluster || path->cluster == "*") {
    return fail(access_denied(request.head, request.user, path->cluster, path->api_path));
  }
  return apiserver::ClusterTarget{std::move(path->cluster), std::move(path->api_root),
                                  path->api_path, view_};
}

}  // namespace kintsugi::controlplane
