#include "server/internal/console_workers.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <utility>

namespace kintsugi::server {
namespace {

using krm::Json;

struct Field {
  std::string_view family, field;
};
/// Of the label `role`; series of one family are added up.
constexpr Field kFields[] = {{"worker_units", "units"},
                             {"ring_partitions_owned", "partitions"},
                             {"ring_generation", "generation"},
                             {"workqueue_depth", "queue"},
                             {"journal_bytes", "journalBytes"}};

std::string_view next_line(std::string_view& rest) {
  const std::size_t end = rest.find('\n');
  const std::string_view line = rest.substr(0, end);
  rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  return line;
}

/// Of a label's value, which has no quote in it where it is a role's name.
std::string_view label_of(std::string_view line, std::string_view label) {
  const std::string begin = std::string(label) + "=\"";
  const std::size_t at = line.find(begin);
  if (at == std::string_view::npos) {
    return {};
  }
  const std::string_view rest = line.substr(at + begin.size());
  return rest.substr(0, rest.find('"'));
}

using Numbers = std::map<std::string, std::map<std::string_view, double>, std::less<>>;

/// By role and field. @param only  of series without a label `role`: the only role there is; "":
/// there are several
Numbers numbers_of(std::string_view page, const std::string& only) {
  Numbers out;
  while (!page.empty()) {
    const std::string_view line = next_line(page);
    const std::size_t brace = line.find('{');
    const std::size_t value = line.rfind(' ');
    if (line.starts_with('#') || brace == std::string_view::npos ||
        value == std::string_view::npos || value < brace) {
      continue;
    }
    const double number = std::strtod(std::string(line.substr(value + 1)).c_str(), nullptr);
    for (const Field& one : kFields) {
      const std::string_view labelled = label_of(line, "role");
      const std::string role(labelled.empty() ? std::string_view(only) : labelled);
      if (line.substr(0, brace) == one.family && !role.empty()) {
        out[role][one.field] += number;
      }
    }
    constexpr std::string_view kRing = "ring-", kEnd = "-coordinator";
    if (const std::string_view name = label_of(line, "name");
        line.substr(0, brace) == "leader_election_master_status" && name.starts_with(kRing) &&
        name.ends_with(kEnd)) {
      const std::string role(name.substr(kRing.size(), name.size() - kRing.size() - kEnd.size()));
      out[role]["coordinates"] += number;
    }
  }
  return out;
}

/// By role: "", or why it is not ready.
std::map<std::string, std::string> health_of(std::string_view page) {
  std::map<std::string, std::string> out;
  while (!page.empty()) {
    const std::string_view line = next_line(page);
    const std::string_view rest = line.substr(std::min<std::size_t>(3, line.size()));
    constexpr std::string_view kFailed = " failed: ";
    if (line.starts_with("[+]")) {
      out[std::string(rest.substr(0, rest.find(' ')))] = "";
    } else if (const std::size_t at = rest.find(kFailed);
               line.starts_with("[-]") && at != std::string_view::npos) {
      out[std::string(rest.substr(0, at))] = rest.substr(at + kFailed.size());
    }
  }
  return out;
}

}  // namespace

std::vector<Json> worker_rows(std::string_view instance, int status, std::string_view health,
                              std::string_view metrics) {
  const auto row = [instance](std::string_view role, bool ready, std::string_view reason) {
    return Json::object({{"id", std::string(instance) + "|" + std::string(role)},
                         {"instance", instance},
                         {"role", role},
                         {"ready", ready},
                         {"reason", reason}});
  };
  if (status == 0) {
    return {row("", false, "it does not answer")};
  }
  std::vector<Json> out;
  const std::map<std::string, std::string> roles = health_of(health);
  Numbers numbers = numbers_of(metrics, roles.size() == 1 ? roles.begin()->first : "");
  for (const auto& [role, why] : roles) {
    Json one = row(role, why.empty(), why);
    for (const Field& field : kFields) {
      one[field.field] = Json();
    }
    one["coordinates"] = false;
    for (const auto& [field, value] : numbers[role]) {
      one[field] =
          field == "coordinates" ? Json(value > 0) : Json(static_cast<std::int64_t>(value));
    }
    out.push_back(std::move(one));
  }
  return out;
}

/// One worker: asked for its health, then for its metrics.
class ConsoleWorkers::One {
 public:
  One(net::Loop& loop, std::string socket)
      : loop_(loop),
        socket_(std::move(socket)),
        instance_(std::filesystem::path(socket_).stem().string()),
        patience_(loop) {}
  [[nodiscard]] const std::vector<Json>& rows() const noexcept { return rows_; }
  /// `told`, if it is not empty, once the rows are those of now.
  void refresh(std::function<void()> told = {}) {
    const bool is_fresh = asked_ != TimePoint{} && Clock::now() - asked_ < kFresh;
    if (fetch_ == nullptr && is_fresh) {
      if (told) {
        told();
      }
      return;
    }
    if (told) {
      waiting_.push_back(std::move(told));
    }
    if (fetch_ != nullptr) {
      return;
    }
    asked_ = Clock::now();
    patience_.start(kPatience, [this] { end(0, {}, {}); });
    fetch_ = std::make_unique<SocketFetch>(loop_, socket_, "/readyz?verbose",
                                           [this](int status, std::string body) {
                                             if (status == 0) {
                                               end(0, {}, {});
                                             } else {
                                               ask_metrics(status, std::move(body));
                                             }
                                           });
  }

 private:
  void ask_metrics(int status, std::string health) {
    const std::string path = socket_.substr(0, socket_.rfind(".sock")) + ".metrics.sock";
    fetch_ = std::make_unique<SocketFetch>(
        loop_, path, "/metrics",
        [this, status, health = std::move(health)](int /*status*/, const std::string& metrics) {
          end(status, health,
              std::string_view(metrics).substr(0,
                                               metrics.size() <= kMostPage ? metrics.size() : 0));
        });
  }
  void end(int status, std::string_view health, std::string_view metrics) {
    rows_ = worker_rows(instance_, status, health, metrics);
    patience_.cancel();
    fetch_.reset();
    for (const auto& told : std::exchange(waiting_, {})) {
      told();
    }
  }

  net::Loop& loop_;
  const std::string socket_, instance_;
  TimePoint asked_{};
  std::unique_ptr<SocketFetch> fetch_;
  net::Timer patience_;
  std::vector<Json> rows_;
  std::vector<std::function<void()>> waiting_;
};

ConsoleWorkers::ConsoleWorkers(net::Loop& loop, const std::vector<std::string>& sockets) {
  for (std::size_t i = 0; i < std::min(kMost, sockets.size()); ++i) {
    all_.push_back(std::make_shared<One>(loop, sockets[i]));
  }
}

void ConsoleWorkers::ask(std::function<void()> done) {
  const auto left = std::make_shared<std::size_t>(all_.size() + 1);
  const auto end_one = [left, done = std::move(done)] {
    if (--*left == 0) {
      done();
    }
  };
  for (const auto& one : all_) {
    one->refresh(end_one);
  }
  end_one();
}

std::vector<Json> ConsoleWorkers::rows() {
  std::vector<Json> out;
  for (const auto& one : all_) {
    one->refresh();
    out.insert(out.end(), one->rows().begin(), one->rows().end());
  }
  return out;
}

}  // namespace kintsugi::server
