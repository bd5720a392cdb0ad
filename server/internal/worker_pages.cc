#include "server/internal/worker_pages.h"

#include <algorithm>
#include <cstddef>

#include "base/strings.h"

namespace kintsugi::server {
namespace {

enum class Check : unsigned char { kLive, kReady };

/// Whether `[+]` or `[-]`, and why.
std::string line_of(const RoleHealth& role, Check check) {
  const std::string why = check == Check::kReady ? role.not_ready
                          : role.alive           ? ""
                                                 : "its loop takes no turns";
  return why.empty() ? "[+]" + role.role + " ok\n" : "[-]" + role.role + " failed: " + why + "\n";
}

bool fails(const RoleHealth& role, Check check) {
  return check == Check::kReady ? !role.not_ready.empty() : !role.alive;
}

/// A family of the text format.
struct Family {
  std::string help, type, series;
};

std::string_view next_line(std::string_view& rest) {
  const std::size_t end = rest.find('\n');
  const std::string_view line = rest.substr(0, end);
  rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  return line;
}

/// The family of a series: histograms have theirs without what follows the last underscore.
std::string_view family_of(std::string_view name, const StringMap<std::size_t>& known) {
  if (known.find(name) != known.end()) {
    return name;
  }
  for (const std::string_view end : {"_bucket", "_sum", "_count"}) {
    if (name.ends_with(end)) {
      const std::string_view base = name.substr(0, name.size() - end.size());
      if (known.find(base) != known.end()) {
        return base;
      }
    }
  }
  return name;
}

/// Behind the '}' that ends the labels; npos: there is none. Quoted texts may hold one.
std::size_t end_of_labels(std::string_view line, std::size_t open) {
  bool quoted = false;
  for (std::size_t i = open + 1; i < line.size(); ++i) {
    if (quoted && line[i] == '\\') {
      ++i;
    } else if (line[i] == '"') {
      quoted = !quoted;
    } else if (!quoted && line[i] == '}') {
      return i + 1;
    }
  }
  return std::string_view::npos;
}

class Merge {
 public:
  void add(std::string_view role, std::string_view page) {
    while (!page.empty()) {
      const std::string_view line = next_line(page);
      if (line.starts_with("# HELP ") || line.starts_with("# TYPE ")) {
        const std::string_view rest = line.substr(7);
        Family& family = of(rest.substr(0, rest.find(' ')));
        std::string& kept = line[2] == 'H' ? family.help : family.type;
        if (kept.empty()) {
          kept.append(line).push_back('\n');
        }
      } else if (!line.empty() && line.front() != '#') {
        add_series(role, line);
      }
    }
  }

  [[nodiscard]] std::string text() const {
    std::string out;
    for (const Family& family : families_) {
      out += family.help + family.type + family.series;
    }
    return out;
  }

 private:
  Family& of(std::string_view name) {
    const auto [at, is_new] = known_.try_emplace(std::string(name), families_.size());
    if (is_new) {
      families_.emplace_back();
    }
    return families_[at->second];
  }

  void add_series(std::string_view role, std::string_view line) {
    const std::size_t end = line.find_first_of("{ ");
    if (end == std::string_view::npos || end == 0) {
      return;
    }
    const bool labelled = line[end] == '{';
    const std::size_t rest = labelled ? end_of_labels(line, end) : end;
    if (rest == std::string_view::npos) {
      return;
    }
    const std::string_view labels =
        labelled ? line.substr(end + 1, rest - end - 2) : std::string_view();
    std::string& out = of(family_of(line.substr(0, end), known_)).series;
    out.append(line.substr(0, end)).push_back('{');
    if (!labels.starts_with("role=\"") && labels.find(",role=\"") == std::string_view::npos) {
      out.append("role=\"").append(role).append("\"");
      out.append(labels.empty() ? "" : ",");
    }
    out.append(labels).append("}").append(line.substr(rest)).push_back('\n');
  }

  std::vector<Family> families_;
  StringMap<std::size_t> known_;  // by name
};

}  // namespace

HealthPage health_page(std::string_view target, const std::vector<RoleHealth>& roles) {
  const std::string_view path = target.substr(0, target.find('?'));
  const std::string_view query =
      path.size() < target.size() ? target.substr(path.size() + 1) : std::string_view();
  const std::size_t slash = path.find('/', 1);
  const std::string_view name = path.substr(0, slash);
  const std::string_view one =
      slash == std::string_view::npos ? std::string_view() : path.substr(slash + 1);
  const bool is_ready = name == "/readyz";
  if ((!is_ready && name != "/livez" && name != "/healthz") ||
      (slash != std::string_view::npos && one.empty())) {
    return {404, "404 page not found\n"};
  }
  const Check check = is_ready ? Check::kReady : Check::kLive;
  bool verbose = false;
  for (const std::string_view part : split(query, '&')) {
    verbose = verbose || part == "verbose" || part.starts_with("verbose=");
  }
  HealthPage page;
  bool found = one.empty();
  for (const RoleHealth& role : roles) {
    if (!one.empty() && role.role != one) {
      continue;
    }
    found = true;
    page.body += line_of(role, check);
    if (fails(role, check)) {
      page.status = 503;
    }
  }
  if (!found) {
    return {404, "404 page not found\n"};
  }
  if (page.status != 200) {
    page.body += std::string(name.substr(1)) + " check failed\n";
  } else if (verbose) {
    page.body += std::string(name.substr(1)) + " check passed\n";
  } else {
    page.body = "ok";
  }
  return page;
}

std::string errors_path(std::string_view role) { return "/debug/" + std::string(role) + "/errors"; }

HealthPage errors_page(const krm::Json& list) {
  std::vector<krm::Json> sorted(list.items().begin(), list.items().end());
  std::stable_sort(sorted.begin(), sorted.end(), [](const krm::Json& a, const krm::Json& b) {
    return a.text({"at"}) < b.text({"at"});
  });
  krm::Json errors = krm::Json::array();
  for (krm::Json& one : sorted) {
    errors.push_back(std::move(one));
  }
  return {200, krm::Json::object({{"errors", std::move(errors)}}).dump() + "\n"};
}

HealthPage no_errors_page(std::string_view role) {
  return {503, "role " + std::string(role) + " does not answer\n"};
}

std::string reason_of(int status, std::string_view body) {
  if (status == 200) {
    return {};
  }
  while (!body.empty()) {
    const std::string_view line = next_line(body);
    constexpr std::string_view kFailed = " failed: ";
    const std::size_t at = line.find(kFailed);
    if (at != std::string_view::npos) {
      return std::string(line.substr(at + kFailed.size()));
    }
  }
  return status == 0 ? "does not answer" : "HTTP " + std::to_string(status);
}

std::string merge_metric_pages(const std::vector<std::pair<std::string, std::string>>& pages) {
  Merge merge;
  for (const auto& [role, page] : pages) {
    merge.add(role, page);
  }
  return merge.text();
}

}  // namespace kintsugi::server
