#include "cmd/kintsugi/workspace_commands.h"

#include <algorithm>
#include <cstdio>
#include <optional>
#include <utility>

#include "base/strings.h"
#include "cmd/kintsugi/progress.h"
#include "krm/path_prefixes.h"
#include "krm/selector.h"

namespace kintsugi::cmd {
namespace {

using krm::Json;

constexpr Duration kOften = milliseconds(100);
constexpr Duration kSeldom = milliseconds(500);
constexpr Duration kSettle = seconds(5);  // polls often, and waits for routes

std::string target_of(const std::string& path) {
  const WorkspaceName name = split_workspace(path);
  return workspaces_target(name.parent) + "/" + name.name;
}

/// "root:universal"; "" for mounts and homes.
std::string type_of(const Json& workspace) {
  const std::string name(workspace.text({"spec", "type", "name"}));
  const std::string path(workspace.text({"spec", "type", "path"}));
  return path.empty() ? name : path + ":" + name;
}

std::string with_type(const std::string& path, const Json& workspace) {
  const std::string type = type_of(workspace);
  return "Workspace \"" + path + "\"" + (type.empty() ? "" : " (type " + type + ")");
}

std::string phase_of(const Json& workspace) {
  const std::string_view phase = workspace.text({"status", "phase"});
  return phase.empty() ? "Scheduling" : std::string(phase);
}

/// What a condition says that is not True, for people: "No available shards …".
std::string complaint(const Json& workspace) {
  if (const Json* conditions = workspace.at({"status", "conditions"})) {
    for (const Json& condition : conditions->items()) {
      if (condition.text({"status"}) == "False" && !condition.text({"message"}).empty()) {
        return std::string(condition.text({"message"}));
      }
    }
  }
  return {};
}

Json type_reference(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos) {
    return Json::object({{"name", to_lower(text)}});
  }
  return Json::object({{"name", to_lower(text.substr(colon + 1))},
                       {"path", text.substr(text.front() == ':' ? 1 : 0, colon)}});
}

Expected<Json> location_selector(const std::string& text) {
  Expected<krm::Selector> selector = krm::Selector::parse(text);
  if (!selector) {
    return fail(Errc::kConfig, "--location-selector: " + std::string(selector.error().message()));
  }
  Json out = Json::object();
  for (const krm::Requirement& one : selector->requirements()) {
    const char* op = nullptr;
    switch (one.op) {
      case krm::SelectorOp::kEquals:
      case krm::SelectorOp::kDoubleEquals:
      case krm::SelectorOp::kIn:
        op = "In";
        break;
      case krm::SelectorOp::kNotEquals:
      case krm::SelectorOp::kNotIn:
        op = "NotIn";
        break;
      case krm::SelectorOp::kExists:
        op = "Exists";
        break;
      case krm::SelectorOp::kDoesNotExist:
        op = "DoesNotExist";
        break;
      case krm::SelectorOp::kGreater:
      case krm::SelectorOp::kLess:
        return fail(Errc::kConfig, "--location-selector: > and < cannot choose shards");
    }
    Json expression = Json::object({{"key", Json(one.key)}, {"operator", op}});
    for (const std::string& value : one.values) {
      expression["values"].push_back(Json(value));
    }
    out["matchExpressions"].push_back(std::move(expression));
  }
  return out;
}

Error named(const Error& error, const std::string& path) {
  if (error.code() == Errc::kNotFound) {
    return Error(Errc::kNotFound, "workspace \"" + path + "\" not found");
  }
  if (error.code() == Errc::kForbidden) {
    return Error(Errc::kForbidden,
                 "access to workspace \"" + path + "\" denied: " + std::string(error.message()));
  }
  return error.clone();
}

}  // namespace

Expected<std::unique_ptr<WorkspaceCommands>> WorkspaceCommands::open(WorkspaceOptions options) {
  std::unique_ptr<WorkspaceCommands> out(new WorkspaceCommands(std::move(options)));
  auto config = KubeconfigSet::load(KubeconfigSet::default_files(out->options_.kubeconfig));
  if (!config) {
    return fail(std::move(config.error()));
  }
  out->config_ = std::move(*config);
  auto access = out->config_.access();
  if (!access) {
    return fail(std::move(access.error()));
  }
  auto here = parse_workspace_url(access->server);
  if (!here) {
    return fail(std::move(here.error()));
  }
  out->here_ = std::move(*here);
  auto client = ApiClient::make(*access, out->here_.base);
  if (!client) {
    return fail(std::move(client.error()));
  }
  out->client_ = std::move(*client);
  out->client_->set_limit(seconds(out->options_.timeout));
  return out;
}

Expected<void> WorkspaceCommands::show() const {
  if (here_.path.empty()) {
    return fail(Errc::kConfig, "the server " + here_.base +
                                   " of the current context names no workspace; `kintsugi ws "
                                   "root` goes to the root workspace");
  }
  std::printf("%s\n", here_.path.c_str());
  return {};
}

Expected<std::string> WorkspaceCommands::home() {
  Expected<Json> workspace = client_->send("GET", workspaces_target("root") + "/~");
  if (!workspace) {
    return fail(std::move(workspace.error()).at("home workspace"));
  }
  auto url = parse_workspace_url(workspace->text({"spec", "URL"}));
  if (!url) {
    return fail(std::move(url.error()).at("home workspace"));
  }
  return std::move(url->path);
}

Expected<std::string> WorkspaceCommands::resolve(const std::string& wanted) {
  std::string below;
  if (is_below_home(wanted)) {
    auto found = home();
    if (!found) {
      return fail(std::move(found.error()));
    }
    below = std::move(*found);
  }
  return resolve_workspace(here_.path, wanted, below);
}

/// For what has a parent with an object of it.
Expected<std::string> WorkspaceCommands::resolve_child(const std::string& wanted) {
  auto path = resolve(wanted);
  if (path && split_workspace(*path).parent.empty()) {
    return fail(Errc::kConfig, "\"" + *path + "\" has no parent workspace");
  }
  return path;
}

Expected<Json> WorkspaceCommands::workspace(const std::string& path) {
  return client_->send("GET", target_of(path));
}

Expected<Json> WorkspaceCommands::check_entry(const std::string& path) {
  const Expected<Json> groups = client_->send("GET", krm::cluster_root(path) + "/apis");
  if (!groups && groups.error().code() != Errc::kForbidden &&
      groups.error().code() != Errc::kNotFound) {
    return fail(groups.error().clone());
  }
  Expected<Json> object = Json();
  if (!split_workspace(path).parent.empty()) {
    object = workspace(path);
  }
  if (groups) {
    return object ? std::move(*object) : Json();  // some may enter what they cannot see
  }
  if (!object && object.error().code() == Errc::kNotFound) {
    return fail(named(object.error(), path));
  }
  if (object && !object->is_null() && phase_of(*object) != "Ready") {
    return fail(Errc::kUnavailable,
                "workspace \"" + path + "\" is not ready yet: it is " + phase_of(*object));
  }
  return fail(named(Error(Errc::kForbidden, std::string(groups.error().message())), path));
}

Expected<void> WorkspaceCommands::enter(const std::string& path, const Json& workspace) {
  if (auto entered = config_.enter(here_.at(path)); !entered) {
    return entered;
  }
  if (auto saved = config_.save(); !saved) {
    return saved;
  }
  const std::string type = type_of(workspace);
  std::printf("Current workspace is \"%s\"%s.\n", path.c_str(),
              type.empty() ? "" : (" (type " + type + ")").c_str());
  return {};
}

Expected<void> WorkspaceCommands::go_back() {
  if (auto back = config_.go_back(); !back) {
    return back;
  }
  auto access = config_.access();
  if (!access) {
    return fail(std::move(access.error()));
  }
  auto url = parse_workspace_url(access->server);
  if (!url) {
    return fail(std::move(url.error()));
  }
  if (auto saved = config_.save(); !saved) {
    return saved;
  }
  if (url->path.empty()) {
    std::printf("Current server is %s, which names no workspace.\n", url->base.c_str());
  } else {
    std::printf("Current workspace is \"%s\".\n", url->path.c_str());
  }
  return {};
}

Expected<void> WorkspaceCommands::use(const std::string& wanted) {
  if (wanted == "-") {
    return go_back();
  }
  auto path = resolve(wanted);
  if (!path) {
    return fail(std::move(path.error()));
  }
  auto object = check_entry(*path);
  if (!object) {
    return fail(std::move(object.error()));
  }
  return enter(*path, *object);
}

Expected<void> WorkspaceCommands::check_same_type(const std::string& path,
                                                  const Json& workspace) const {
  if (options_.type.empty()) {
    return {};
  }
  const Json wanted = type_reference(options_.type);
  const bool same_path = wanted.text({"path"}).empty() ||
                         wanted.text({"path"}) == workspace.text({"spec", "type", "path"});
  if (same_path && wanted.text({"name"}) == workspace.text({"spec", "type", "name"})) {
    return {};
  }
  return fail(Errc::kAlreadyExists, "workspace \"" + path + "\" exists already, with the type " +
                                        type_of(workspace) + " instead of " + options_.type);
}

Expected<void> WorkspaceCommands::create(const std::string& wanted) {
  auto path = resolve_child(wanted);
  if (!path) {
    return fail(std::move(path.error()));
  }
  const WorkspaceName name = split_workspace(*path);
  Json body = Json::object({{"apiVersion", "tenancy.kcp.io/v1alpha1"}, {"kind", "Workspace"}});
  body.make({"metadata", "name"}) = name.name;
  body["spec"] = Json::object();
  if (!options_.type.empty()) {
    body.make({"spec", "type"}) = type_reference(options_.type);
  }
  if (!options_.selector.empty()) {
    auto selector = location_selector(join(options_.selector, ","));
    if (!selector) {
      return fail(std::move(selector.error()));
    }
    body.make({"spec", "location", "selector"}) = std::move(*selector);
  }
  const char* word = "created";
  Expected<Json> object = client_->send("POST", workspaces_target(name.parent), body);
  if (!object && object.error().code() == Errc::kAlreadyExists && options_.ignore_existing) {
    word = "already exists";
    object = workspace(*path);
    if (object) {
      if (auto same = check_same_type(*path, *object); !same) {
        return same;
      }
    }
  }
  if (!object) {
    return fail(std::move(object.error()));
  }
  if (!options_.wait) {
    std::printf("%s %s.\n", with_type(*path, *object).c_str(), word);
    return {};
  }
  if (phase_of(*object) != "Ready") {
    std::fprintf(stderr, "%s %s. Waiting for it to be ready.\n", with_type(*path, *object).c_str(),
                 word);
  }
  object = wait_ready(*path, std::move(*object));
  if (!object) {
    return fail(std::move(object.error()));
  }
  std::printf("%s is ready to use.\n", with_type(*path, *object).c_str());
  return options_.enter ? enter(*path, *object) : Expected<void>();
}

/// Until it is Ready and can be reached. A Workspace that was made is seen by everyone a moment
/// later.
Expected<Json> WorkspaceCommands::wait_ready(const std::string& path, Json object) {
  Progress progress("workspace \"" + path + "\"");
  const TimePoint begin = client_->now();
  while (true) {
    const Duration passed = client_->now() - begin;
    std::string state = phase_of(object);
    if (state == "Ready") {
      const Expected<Json> entry = check_entry(path);
      if (entry || passed > kSettle || entry.error().code() == Errc::kUnauthorized) {
        return object;  // not everyone who may create a workspace may enter it
      }
    } else if (const std::string why = complaint(object); !why.empty()) {
      state += " (" + why + ")";
    }
    if (passed >= seconds(options_.timeout)) {
      return fail(Errc::kDeadline, "workspace \"" + path + "\" is there, but not ready after " +
                                       std::to_string(options_.timeout) + " s: " + state);
    }
    progress.show(state);
    client_->pause(passed < kSettle ? kOften : kSeldom);
    Expected<Json> now = workspace(path);
    if (now) {
      object = std::move(*now);
    } else if (now.error().code() != Errc::kNotFound || passed > kSettle) {
      return fail(named(now.error(), path));
    }
  }
}

Expected<void> WorkspaceCommands::remove(const std::string& wanted) {
  auto path = resolve_child(wanted);
  if (!path) {
    return fail(std::move(path.error()));
  }
  if (const Expected<Json> asked = client_->send("DELETE", target_of(*path)); !asked) {
    return fail(asked.error().code() == Errc::kNotFound ? named(asked.error(), *path)
                                                        : asked.error().clone());
  }
  if (!options_.wait) {
    std::printf("Workspace \"%s\" is being deleted.\n", path->c_str());
    return {};
  }
  Progress progress("workspace \"" + *path + "\"");
  const TimePoint begin = client_->now();
  while (true) {
    const Duration passed = client_->now() - begin;
    const Expected<Json> object = workspace(*path);
    if (!object && object.error().code() == Errc::kNotFound) {
      break;
    }
    if (!object) {
      return fail(named(object.error(), *path));
    }
    if (passed >= seconds(options_.timeout)) {
      return fail(Errc::kDeadline, "workspace \"" + *path + "\" is still being deleted after " +
                                       std::to_string(options_.timeout) + " s");
    }
    progress.show("Deleting");
    client_->pause(passed < kSettle ? kOften : kSeldom);
  }
  std::printf("Workspace \"%s\" deleted.\n", path->c_str());
  if (here_.path == *path || here_.path.starts_with(*path + ":")) {
    std::fprintf(stderr, "The current workspace \"%s\" went with it; `kintsugi ws %s` leaves it.\n",
                 here_.path.c_str(), (":" + split_workspace(*path).parent).c_str());
  }
  return {};
}

}  // namespace kintsugi::cmd
