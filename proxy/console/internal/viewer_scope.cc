#include "proxy/console/internal/viewer_scope.h"

#include <utility>

namespace kintsugi::proxy {
namespace {

using krm::Json;

/// Names that many logical clusters give to accounts of their own.
constexpr std::string_view kAccounts = "system:serviceaccount:";

Json without(const Json& row, std::initializer_list<std::string_view> fields) {
  Json out = Json::object({});
  for (const auto& member : row.members()) {
    bool stays = true;
    for (const std::string_view field : fields) {
      stays = stays && member.key != field;
    }
    if (stays) {
      out[member.key] = member.value;
    }
  }
  return out;
}

Json only(const Json& row, std::initializer_list<std::string_view> fields) {
  Json out = Json::object({});
  for (const std::string_view field : fields) {
    if (const Json* const value = row.find(field)) {
      out[field] = *value;
    }
  }
  return out;
}

/// Accounts of several logical clusters have the same name; who is known in some only is shown with
/// them (serving/shown_user.h).
bool is_his(const Json& row, const std::string& user) {
  return !user.empty() && !user.starts_with(kAccounts) && row.text({"user"}) == user &&
         row.text({"share"}) != "reviewed";
}

/// Of a watch of his: not where in the installation it is served.
Json own_watch(const Json& row) {
  Json out = without(row, {"loop", "callers", "logEvents"});
  out["shards"] = Json::array();
  return out;
}

}  // namespace

ObjectsOfView objects_of_view(std::string_view view) noexcept {
  if (view == "slices") {
    return {"apis.kcp.io", "apiexportendpointslices"};
  }
  return view == "partitions" ? ObjectsOfView{"topology.kcp.io", "partitions"}
         : view == "sets"     ? ObjectsOfView{"topology.kcp.io", "partitionsets"}
                              : ObjectsOfView{};
}

Sight ViewerScope::sight(std::string_view name) const noexcept {
  if (is_administrator || full.contains(name)) {
    return Sight::kAll;
  }
  const bool some = name == "overview" || name == "streams" || (name == "shards" && lists_shards) ||
                    cluster_of.contains(name);
  return some ? Sight::kPart : Sight::kNothing;
}

Json ViewerScope::document() const {
  Json groups_of = Json::array(), all = Json::array(), part = Json::array();
  for (const std::string& group : groups) {
    groups_of.push_back(group);
  }
  for (const std::string_view name : kConsoleNames) {
    const Sight sees = sight(name);
    if (sees != Sight::kNothing) {
      (sees == Sight::kAll ? all : part).push_back(name);
    }
  }
  return Json::object({{"user", user},
                       {"groups", std::move(groups_of)},
                       {"full", std::move(all)},
                       {"part", std::move(part)}});
}

ViewRows part_of(std::string_view view, const ViewRows& rows, const ViewerScope& scope) {
  ViewRows out;
  const auto of = scope.cluster_of.find(view);
  for (const Json& row : rows) {
    if (view == "overview") {
      out.push_back(only(row, {"id", "version", "ready"}));
    } else if (view == "shards" && scope.lists_shards) {
      out.push_back(without(row, {"cause", "urls", "certificateDays", "resources"}));
    } else if (view == "streams" && is_his(row, scope.user)) {
      out.push_back(own_watch(row));
    } else if (of != scope.cluster_of.end() && row.text({"cluster"}) == of->second) {
      out.push_back(row);
    }
  }
  return out;
}

}  // namespace kintsugi::proxy
