// What the proxy tells those who run it: the admin listeners, and the figures behind them.
#include <unistd.h>

#include <algorithm>

#include "auth/request_header.h"
#include "base/log.h"
#include "base/secret_file.h"
#include "base/strings.h"
#include "proxy/admin/admin.h"
#include "proxy/console/console.h"
#include "proxy/console/console_link.h"
#include "server/files.h"
#include "server/internal/kube_tls.h"
#include "server/proxy_control.h"

namespace kintsugi::server {

proxy::ExplainSources ProxyControl::explain_sources() {
  const auto ask = [this](const std::string& cluster, proxy::ExplainSources::Groups done) {
    loops_.front()->ask_groups(
        cluster, [this, done = std::move(done)](const Expected<proxy::LocalGroups>& groups) {
          // What is passed on is copied, and an Error is not.
          auto kept = std::make_shared<const Expected<proxy::LocalGroups>>(
              groups ? Expected<proxy::LocalGroups>(*groups)
                     : Expected<proxy::LocalGroups>(fail(groups.error().clone())));
          loop_.post([kept, done] { done(*kept); });
        });
  };
  const auto review = [this](const auth::Attributes& asked, auth::Authorizer::Done done) {
    loops_.front()->review(
        asked, [this, done = std::move(done)](Expected<auth::Decision> decision) {
          auto kept = std::make_shared<const Expected<auth::Decision>>(std::move(decision));
          loop_.post([kept, done] {
            done(*kept ? Expected<auth::Decision>(**kept)
                       : Expected<auth::Decision>(fail(kept->error().clone())));
          });
        });
  };
  return {.groups = proxy::possible_groups(config_.topology.groups),
          .console = config_.ui.enabled,
          .wildcard = config_.wildcard != "deny",
          .own_root = config_.topology.source != "kcp",
          .info = config_.existence != "kcp",
          .mounts = {config_.external_url, config_.mount_hosts},
          .mapping =
              [this] {
                return proxy::ExplainSources::Mapping{routes_, config_.clusters};
              },
          .partition =
              [this](std::string_view cluster, std::string_view name) {
                return objects_->get(cluster, "topology.kcp.io", "partitions", name);
              },
          .slice =
              [this](std::string_view cluster, std::string_view name) {
                return objects_->get(cluster, "apis.kcp.io", "apiexportendpointslices", name);
              },
          .ask_groups = config_.topology.groups.any_auto()
                            ? decltype(proxy::ExplainSources::ask_groups)(ask)
                            : nullptr,
          .slice_shards =
              [this](const krm::Json& slice) {
                return controllers_ != nullptr ? controllers_->slices().explain(slice)
                                               : std::nullopt;
              },
          .reviewed = config_.wildcard == "reviewed",
          .review = review,
          .passed_groups =
              [this](const std::vector<std::string>& groups) {
                return auth::filter_groups(groups, config_.authentication.pass_groups,
                                           config_.authentication.drop_groups);
              }};
}

Expected<void> ProxyControl::open_admin() {
  if (!config_.ui.workers.empty()) {
    workers_ = std::make_unique<ConsoleWorkers>(loop_, config_.ui.workers);
  }
  admin_ = std::make_unique<proxy::AdminHandler>(proxy::AdminParams{
      .loop = loop_,
      .feed = *feed_,
      .collect =
          [this](proxy::ReportPart part, std::function<void(std::vector<proxy::LoopReport>)> done) {
            collect(part, std::move(done));
          },
      .topology = [this] { return topology_report(); },
      .explain = explain_sources(),
      .config_text = config_text_,
      .rotate_keys =
          [this](std::function<void(Expected<void>)> done) {
            // In a later turn: who asks is told on its way out.
            loop_.post([this, done = std::move(done)] {
              if (slots_ == nullptr) {
                done(fail(Errc::kUnavailable, "etcd has not answered yet"));
              } else {
                slots_->rotate_key(done);
              }
            });
          },
      .objects =
          [this](std::string_view group, std::string_view resource,
                 const std::function<void(const krm::Json&)>& visit) {
            objects_->list("*", group, resource, [&visit](const krm::Json& object) {
              visit(object);
              return true;
            });
          },
      .follow = [this](const std::function<void()>& changed) -> std::shared_ptr<void> {
        auto handles = std::make_shared<std::vector<std::shared_ptr<void>>>();
        for (const auto& [group, resource] : {std::pair("apis.kcp.io", "apiexportendpointslices"),
                                              std::pair("topology.kcp.io", "partitions"),
                                              std::pair("topology.kcp.io", "partitionsets")}) {
          handles->push_back(objects_->on_change(
              group, resource, [changed](const topology::Objects::Change&) { changed(); }));
        }
        return handles;
      },
      .workers = workers_ != nullptr ? [this] { return workers_->rows(); }
                                     : decltype(proxy::AdminParams::workers)(),
      .ask_workers = workers_ != nullptr
                         ? [this](std::function<void()> done) { workers_->ask(std::move(done)); }
                         : decltype(proxy::AdminParams::ask_workers)()});
  const auto add = [this](net::ListenerParams params, http::Handler& handler) -> Expected<void> {
    auto listener = net::Listener::open(loop_, std::move(params), handler);
    if (!listener) {
      return fail(std::move(listener.error()).at("admin listener"));
    }
    log_info("admin listener", {{"port", static_cast<int>((*listener)->port())}});
    admin_listeners_.push_back(std::move(*listener));
    return {};
  };
  if (!config_.admin.socket.empty()) {
    net::ListenerParams params;
    params.address = config_.admin.socket;
    ::unlink(config_.admin.socket.c_str());
    if (auto result = add(std::move(params), *admin_); !result) {
      return result;
    }
  }
  if (!config_.admin.bind.empty()) {
    const std::size_t colon = config_.admin.bind.rfind(':');
    net::ListenerParams params;
    params.address = config_.admin.bind.substr(0, colon);
    const auto port =
        colon == std::string::npos
            ? std::nullopt
            : parse_decimal<std::uint16_t>(std::string_view(config_.admin.bind).substr(colon + 1));
    if (!port) {
      return fail(Errc::kConfig,
                  "admin.bind: \"" + config_.admin.bind + "\" is not <address>:<port>");
    }
    params.port = *port;
    params.tls = shared_->serving_tls;
    admin_identities_ = std::make_unique<auth::CertificateProofs>(loop_, verifier_,
                                                                  auth::CertificateProofs::plain());
    admin_identities_->serve(params);
    Secret token;
    if (!config_.admin.token_file.empty()) {
      auto text = read_secret_file(config_.admin.token_file);
      if (!text) {
        return fail(std::move(text.error()).at("admin.token_file"));
      }
      const std::string_view all = text->view();
      const auto* const end = std::find_if(all.begin(), all.end(), [](char c) { return c <= ' '; });
      token = Secret::copy_of({all.begin(), end});
    }
    admin_gate_ = std::make_unique<proxy::AdminGate>(token.view(), *admin_);
    return add(std::move(params), *admin_gate_);
  }
  return {};
}

void ProxyControl::tell_loops() {
  const auto at_control = [this](auto make) {
    return [this, make](std::function<void(std::string)> done) {
      loop_.post([make, done = std::move(done)] { make(done); });
    };
  };
  shared_->metrics = at_control([this](const std::function<void(std::string)>& done) {
    if (feed_ == nullptr) {
      done({});
      return;
    }
    collect(proxy::ReportPart::kFigures, [this, done](const std::vector<proxy::LoopReport>& loops) {
      done(proxy::render_metrics(*feed_, loops, topology_report()));
    });
  });
  shared_->console = {.ask =
                          [this](std::shared_ptr<proxy::ConsoleAsked> asked) {
                            loop_.post([this, asked] {
                              if (admin_ != nullptr) {
                                admin_->console().ask(std::move(*asked));
                              } else {
                                proxy::LinkStream(asked->link).send_head(503, {}, true);
                              }
                            });
                          },
                      .left =
                          [this](const std::shared_ptr<proxy::ConsoleLink>& link, Errc cause) {
                            loop_.post([this, link, cause] {
                              if (admin_ != nullptr) {
                                admin_->console().left(*link, cause);
                              }
                            });
                          },
                      .drained =
                          [this](const std::shared_ptr<proxy::ConsoleLink>& link) {
                            loop_.post([this, link] {
                              if (admin_ != nullptr) {
                                admin_->console().drained(*link);
                              }
                            });
                          }};
  shared_->why_not_ready =
      at_control([this](const std::function<void(std::string)>& done) { done(why_not_ready()); });
}

std::string ProxyControl::own_name_at(const std::string& server) const {
  const auto& tls = server == "root" ? root_tls_ : admin_tls_.of(server);
  return tls != nullptr && server != "peers" ? own_name(*tls) : "";
}

void ProxyControl::collect(proxy::ReportPart part,
                           std::function<void(std::vector<proxy::LoopReport>)> done) {
  struct Gather {
    std::vector<proxy::LoopReport> reports;
    std::size_t missing;
    std::function<void(std::vector<proxy::LoopReport>)> done;
  };
  auto gather = std::make_shared<Gather>(
      Gather{std::vector<proxy::LoopReport>(loops_.size()), loops_.size(), std::move(done)});
  for (std::size_t i = 0; i < loops_.size(); ++i) {
    loops_[i]->report(part, [this, gather, i](proxy::LoopReport report) {
      loop_.post([gather, i, report = std::move(report)]() mutable {
        gather->reports[i] = std::move(report);
        if (--gather->missing == 0) {
          gather->done(std::move(gather->reports));
        }
      });
    });
  }
}

proxy::TopologyReport ProxyControl::topology_report() const {
  proxy::TopologyReport report;
  report.reloads = reloads_;
  report.draining = stopping_;
  report.limits = shared_ != nullptr ? shared_->limits : nullptr;
  report.pressure = shared_ != nullptr ? shared_->pressure : nullptr;
  report.certificates = certificates_;
  if (fleet_ != nullptr) {
    report.fleet = fleet_->report();
  }
  if (controllers_ == nullptr) {
    return report;
  }
  std::size_t partitions = 0;
  objects_->list("*", "topology.kcp.io", "partitions", [&](const krm::Json& /*object*/) {
    ++partitions;
    return true;
  });
  objects_->list("*", "topology.kcp.io", "partitionsets", [&](const krm::Json& set) {
    const krm::Json* count = set.at({"status", "count"});
    report.partitions_of_sets.push_back(
        count != nullptr ? static_cast<std::size_t>(count->as_integer()) : 0);
    return true;
  });
  const topology::PartitionController& sets = controllers_->partitions();
  const endpointslice::SliceController& slices = controllers_->slices();
  report.slices = slices.census();
  report.kinds = {{"PartitionSet", sets.times()}, {"APIExportEndpointSlice", slices.times()}};
  report.resources = {
      {"partitionsets", "PartitionSet", report.partitions_of_sets.size(), sets.stats().sets},
      {"partitions", "PartitionSet", partitions, sets.stats().partitions},
      {"apiexportendpointslices", "APIExportEndpointSlice", report.slices.slices,
       slices.stats().slices}};
  return report;
}

}  // namespace kintsugi::server
