#include "apiserver/internal/health.h"

#include <algorithm>
#include <string>
#include <vector>

#include "apiserver/internal/respond.h"
#include "apiserver/internal/server_impl.h"
#include "base/log.h"
#include "base/strings.h"
#include "krm/status.h"
#include "krm/version.h"

namespace kintsugi::apiserver::internal {
namespace {

constexpr std::string_view kRoots[] = {"/healthz", "/livez", "/readyz"};

struct Result {
  std::string name;
  Expected<void> outcome;
};

Expected<void> shutdown_check(const Server& server) {
  if (server.is_draining()) {
    return fail(Errc::kUnavailable, "process is shutting down");
  }
  return {};
}

/// The checks of a root in order of showing.
std::vector<HealthCheck> checks_of(const Server& server, std::string_view root) {
  std::vector<HealthCheck> checks;
  checks.push_back({"ping", false, [] { return Expected<void>(); }});
  for (const HealthCheck& check : server.params().checks) {
    if (!check.readiness_only || root == "readyz") {
      checks.push_back(check);
    }
  }
  if (root == "readyz") {
    const store::Store& store = server.params().store;
    checks.push_back({"store-write", true, [&store] { return store.health(); }});
    checks.push_back({"shutdown", true, [&server] { return shutdown_check(server); }});
  }
  return checks;
}

void answer_one(const RequestPtr& request, const HealthCheck& check) {
  const Expected<void> outcome = check.check();
  if (outcome) {
    send_text(*request, 200, "ok", false);
    return;
  }
  send_text(*request, 500,
            "internal server error: " + std::string(outcome.error().message()) + "\n");
}

}  // namespace

bool is_health_path(std::string_view path) noexcept {
  return std::any_of(std::begin(kRoots), std::end(kRoots), [path](std::string_view root) {
    return path.starts_with(root) && (path.size() == root.size() || path[root.size()] == '/');
  });
}

bool is_open_path(std::string_view path) noexcept {
  return is_health_path(path) || path == "/version" || path == "/version/";
}

void handle_health(const RequestPtr& request) {
  const std::string& method = request->head.method;
  if (method != "GET" && method != "HEAD") {
    send_error(*request, krm::method_not_allowed());
    return;
  }
  const std::vector<std::string_view> parts = split(request->info.path, '/');  // "", root, check
  const std::string_view root = parts[1];
  const std::vector<HealthCheck> checks = checks_of(request->server, root);
  if (parts.size() > 2 && !parts[2].empty()) {
    const auto found = std::find_if(checks.begin(), checks.end(),
                                    [&](const HealthCheck& c) { return c.name == parts[2]; });
    if (found == checks.end() || parts.size() > 3) {
      send_unknown_path(*request);
    } else {
      answer_one(request, *found);
    }
    return;
  }
  const std::vector<std::string_view> excluded = request->info.query.all("exclude");
  std::string lines;
  bool failed = false;
  for (const HealthCheck& check : checks) {
    if (std::find(excluded.begin(), excluded.end(), check.name) != excluded.end()) {
      lines += "[+]" + check.name + " excluded: ok\n";
      continue;
    }
    const Expected<void> outcome = check.check();
    if (outcome) {
      lines += "[+]" + check.name + " ok\n";
      continue;
    }
    failed = true;
    lines += "[-]" + check.name + " failed: reason withheld\n";
    log_warn("health check failed",
             {{"check", check.name}, {"reason", outcome.error().to_string()}});
  }
  const bool terse = request->terse;
  if (failed) {
    send_text(*request, 500, (terse ? "" : lines) + std::string(root) + " check failed\n");
  } else if (request->info.query.get("verbose") && !terse) {
    send_text(*request, 200, lines + std::string(root) + " check passed\n");
  } else {
    send_text(*request, 200, "ok");
  }
}

void handle_version(const RequestPtr& request) {
  const std::string& method = request->head.method;
  if (method != "GET") {
    send_error(*request, krm::method_not_allowed());
    return;
  }
  request->form = Form();
  send_json(*request, 200, krm::version_document());
}

}  // namespace kintsugi::apiserver::internal
