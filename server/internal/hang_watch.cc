#include "server/internal/hang_watch.h"

#include <memory>
#include <utility>

#include "server/internal/gathered.h"
#include "server/internal/worker_socket.h"

namespace kintsugi::server {

bool HangJudge::on_asked(const std::string& name, pid_t pid, bool answered) {
  One& one = all_[name];
  if (one.pid != pid) {
    one = One{.pid = pid};
  }
  if (answered) {
    one = One{.pid = pid, .has_answered = true};
    return false;
  }
  return ++one.silences == (one.has_answered ? kSilences : kStarting);
}

HangWatch::HangWatch(net::Loop& loop, Params params)
    : loop_(loop),
      params_(std::move(params)),
      period_(params_.timeout / HangJudge::kSilences),
      timer_(loop) {
  timer_.start(period_, [this] { ask(); });
}

void HangWatch::ask_now() {
  timer_.start(Duration{}, [this] { ask(); });
}

void HangWatch::ask() {
  std::vector<Supervisor::State> asked;
  for (Supervisor::State& state : params_.processes()) {
    if (state.pid > 0 && !state.socket.empty()) {
      asked.push_back(std::move(state));
    }
  }
  const TimePoint began = loop_.now();
  const auto fetches = std::make_shared<std::vector<std::unique_ptr<SocketFetch>>>();
  gather<bool>(
      loop_, period_, asked,
      [this, fetches](const Supervisor::State& state, std::function<void(bool)> answer) {
        fetches->push_back(std::make_unique<SocketFetch>(
            loop_, state.socket, "/livez", [answer = std::move(answer)](int status, const auto&) {
              answer(status > 0 && status < 500);
            }));
      },
      [this, fetches, asked, began](Gathered<bool>& all) {
        const Duration took = loop_.now() - began;
        if (took < 2 * period_) {
          std::vector<bool> answered;
          for (const auto& one : all.answers) {
            answered.push_back(one.value_or(false));
          }
          judge(asked, answered);
        }
        timer_.start(took < period_ ? period_ - took : Duration{}, [this] { ask(); });
      });
}

void HangWatch::judge(const std::vector<Supervisor::State>& asked,
                      const std::vector<bool>& answered) {
  for (std::size_t i = 0; i < asked.size(); ++i) {
    if (judge_.on_asked(asked[i].name, asked[i].pid, answered[i])) {
      params_.hangs(asked[i].name);
    }
  }
}

}  // namespace kintsugi::server
