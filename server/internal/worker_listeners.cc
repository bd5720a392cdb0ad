#include "server/internal/worker_listeners.h"

#include <algorithm>
#include <cstddef>
#include <optional>

#include "base/log.h"
#include "server/internal/gathered.h"
#include "serving/answer.h"
#include "serving/metrics_answer.h"
#include "serving/waiting_request.h"

namespace kintsugi::server {

class WorkerListeners::Pages final : public http::Handler {
 public:
  Pages(WorkerListeners& owner, bool metrics) : owner_(owner), metrics_(metrics) {}

  std::unique_ptr<http::RequestHandler> on_request(http::RequestHead head,
                                                   http::ResponseStream& stream) noexcept override {
    if (head.method != "GET" && head.method != "HEAD") {
      return serving::answer_text(head, stream, 405, "405 method not allowed\n");
    }
    auto waiting = std::make_unique<serving::WaitingRequest>();
    const auto answer = [weak = waiting->weak(), head, &stream](const HealthPage& page) {
      if (serving::WaitingRequest* self = *weak; self != nullptr && !self->closed()) {
        self->go_on(serving::answer_text(head, stream, page.status, page.body));
      }
    };
    if (!metrics_) {
      gather_health(head.target, answer);
    } else if (head.target.substr(0, head.target.find('?')) == "/metrics") {
      gather_metrics([weak = waiting->weak(), head, &stream](HealthPage page) {
        if (serving::WaitingRequest* self = *weak; self != nullptr && !self->closed()) {
          self->go_on(serving::answer_metrics(head, stream, std::move(page.body)));
        }
      });
    } else if (WorkerPart* const part = part_of_errors(head.target); part != nullptr) {
      gather_errors(*part, [weak = waiting->weak(), head, &stream](const HealthPage& page) {
        if (serving::WaitingRequest* self = *weak; self != nullptr && !self->closed()) {
          self->go_on(page.status == 200
                          ? serving::answer_json(head, stream, page.status, page.body)
                          : serving::answer_text(head, stream, page.status, page.body));
        }
      });
    } else {
      return serving::answer_text(head, stream, 404, "404 page not found\n");
    }
    return waiting;
  }

 private:
  template <class Done>
  void gather_health(const std::string& target, Done answer) {
    gather<RoleHealth>(
        owner_.loop_, owner_.params_.patience, owner_.parts_,
        [](WorkerPart* part, auto done) { part->ask_health(std::move(done)); },
        [this, target, answer](Gathered<RoleHealth>& all) {
          std::vector<RoleHealth> roles;
          for (std::size_t i = 0; i < all.answers.size(); ++i) {
            roles.push_back(all.answers[i] ? std::move(*all.answers[i])
                                           : RoleHealth{.role = owner_.parts_[i]->role(),
                                                        .alive = true,
                                                        .not_ready = "does not answer"});
          }
          answer(health_page(target, roles));
        });
  }

  /// Null: it is no such page, or there is no such role.
  [[nodiscard]] WorkerPart* part_of_errors(std::string_view target) const {
    const std::string_view path = target.substr(0, target.find('?'));
    const auto found = std::find_if(owner_.parts_.begin(), owner_.parts_.end(),
                                    [&](auto* part) { return path == errors_path(part->role()); });
    return found == owner_.parts_.end() ? nullptr : *found;
  }

  template <class Done>
  void gather_errors(WorkerPart& part, Done answer) {
    gather<HealthPage>(
        owner_.loop_, owner_.params_.patience, std::vector<WorkerPart*>{&part},
        [](WorkerPart* one, auto done) { one->ask_errors(std::move(done)); },
        [role = part.role(), answer](Gathered<HealthPage>& all) {
          answer(all.answers.front().value_or(no_errors_page(role)));
        });
  }

  template <class Done>
  void gather_metrics(Done answer) {
    gather<std::string>(
        owner_.loop_, owner_.params_.patience, owner_.parts_,
        [](WorkerPart* part, auto done) { part->ask_metrics(std::move(done)); },
        [this, answer](Gathered<std::string>& all) {
          std::string own = owner_.params_.own_metrics();
          if (!owner_.params_.labels) {
            for (const auto& page : all.answers) {
              own += page.value_or("");
            }
            answer(HealthPage{200, std::move(own)});
            return;
          }
          std::vector<std::pair<std::string, std::string>> pages{{"supervisor", std::move(own)}};
          for (std::size_t i = 0; i < all.answers.size(); ++i) {
            pages.emplace_back(owner_.parts_[i]->role(), all.answers[i].value_or(""));
          }
          answer(HealthPage{200, merge_metric_pages(pages)});
        });
  }

  WorkerListeners& owner_;
  const bool metrics_;
};

WorkerListeners::WorkerListeners(net::Loop& loop, Params params, std::vector<WorkerPart*> parts)
    : loop_(loop),
      params_(std::move(params)),
      parts_(std::move(parts)),
      metrics_pages_(std::make_unique<Pages>(*this, true)),
      health_pages_(std::make_unique<Pages>(*this, false)) {}

WorkerListeners::~WorkerListeners() = default;

Expected<std::unique_ptr<net::Listener>> WorkerListeners::listen(const WorkerAddress& address,
                                                                 http::Handler& handler,
                                                                 const char* what) {
  if (address.address.empty()) {
    return std::unique_ptr<net::Listener>();
  }
  net::ListenerParams params;
  params.address = address.address;
  params.port = address.port;
  auto opened = net::Listener::open(loop_, std::move(params), handler);
  if (opened) {
    log_info("listens",
             {{"what", what}, {"address", address_text({address.address, (*opened)->port()})}});
  }
  return opened;
}

Expected<void> WorkerListeners::open() {
  auto metrics = listen(params_.metrics, *metrics_pages_, "metrics");
  if (!metrics) {
    return fail(std::move(metrics.error()).at("metrics_bind_address"));
  }
  auto health = listen(params_.health, *health_pages_, "health");
  if (!health) {
    return fail(std::move(health.error()).at("health_probe_bind_address"));
  }
  metrics_ = std::move(*metrics);
  health_ = std::move(*health);
  return {};
}

}  // namespace kintsugi::server
