#include "server/internal/ready_probe.h"

#include <utility>

namespace kintsugi::server {
namespace {

constexpr Duration kProbePause = milliseconds(20);
constexpr Duration kProbePatience = seconds(1);

}  // namespace

ReadyProbe::ReadyProbe(net::Loop& loop, std::shared_ptr<net::TlsContext> tls,
                       std::vector<Target> targets, std::function<void()> ready)
    : loop_(loop),
      tls_(std::move(tls)),
      targets_(std::move(targets)),
      ready_(std::move(ready)),
      timer_(loop) {
  timer_.start(Duration(0), [this] { probe(); });
}

void ReadyProbe::probe() {
  if (next_ == targets_.size()) {
    const std::function<void()> ready = ready_;
    ready();
    return;
  }
  const Target& target = targets_[next_];
  why_ = why_.empty() ? "it does not listen yet" : why_;
  if (const std::uint16_t port = target.port(); port != 0) {
    ask(target.host, port);
  } else {
    timer_.start(kProbePause, [this] { probe(); });
  }
}

std::pair<std::string, std::string> ReadyProbe::waits() const {
  return {next_ < targets_.size() ? targets_[next_].name : "", why_};
}

void ReadyProbe::ask(const std::string& host, std::uint16_t port) {
  net::UpstreamParams params;
  params.url = {"https", host, port, ""};
  params.tls = tls_;
  params.connect_timeout = kProbePatience;
  call_.reset();
  upstream_ = net::Upstream::make(loop_, std::move(params));
  net::FetchRequest request;
  request.target = "/readyz";
  request.timeout = kProbePatience;
  call_ = net::fetch(loop_, *upstream_, std::move(request),
                     [this](const Expected<net::FetchResponse>& response) {
                       const bool is_ready = response && response->status == 200;
                       next_ += is_ready ? 1 : 0;
                       why_ = is_ready   ? ""
                              : response ? "it answers " + std::to_string(response->status)
                                         : std::string(response.error().message());
                       timer_.start(is_ready ? Duration(0) : kProbePause, [this] { probe(); });
                     });
}

}  // namespace kintsugi::server
