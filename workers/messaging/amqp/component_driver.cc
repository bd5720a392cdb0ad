#include "workers/messaging/amqp/component_driver.h"

#include <algorithm>
#include <string>

namespace kintsugi::workers {

ComponentDriver::ComponentDriver(net::Loop& loop, ComponentPipeline& pipeline,
                                 ComponentLink::Params link, std::function<bool()> may_act)
    : loop_(loop),
      pipeline_(pipeline),
      may_act_(std::move(may_act)),
      timer_(loop),
      link_(loop, std::move(link),
            {[this](const AmqpPeer& peer) {
               pipeline_.on_ready(peer.product, peer.version, loop_.now());
               wake();
             },
             [this](std::uint64_t id, const ManagementReply* reply) { on_answer(id, reply); },
             [this](const std::string& why, bool unauthorized) { on_lost(why, unauthorized); },
             [this] { wake(); }}) {
  arm();
}

void ComponentDriver::wake() {
  if (!stopped_) {
    loop_.mark_dirty(*this);
  }
}

ComponentDriver::~ComponentDriver() { stop(); }

void ComponentDriver::stop() {
  stopped_ = true;
  timer_.cancel();
  loop_.unmark_dirty(*this);
  link_.stop();
}

void ComponentDriver::on_answer(std::uint64_t id, const ManagementReply* reply) {
  const auto found =
      std::find_if(tags_.begin(), tags_.end(), [id](const Tag& each) { return each.id == id; });
  if (found == tags_.end()) {
    return;
  }
  const std::uint64_t tag = found->tag;
  durations_[static_cast<std::size_t>(found->step)].add(loop_.now() - found->sent);
  *found = tags_.back();
  tags_.pop_back();
  pipeline_.on_answer(tag, reply, loop_.now());
  wake();
}

void ComponentDriver::on_lost(const std::string& why, bool unauthorized) {
  tags_.clear();
  pipeline_.on_lost(unauthorized ? "not authorized: " + why : why, loop_.now());
  wake();
}

void ComponentDriver::flush() noexcept {
  if (stopped_) {
    return;
  }
  if (pipeline_.wants_reset() && link_.is_ready()) {
    link_.reset("requests are not answered");
  } else if (pipeline_.wants_reconnect() && link_.is_ready()) {
    link_.renew("everything is looked at anew");
  }
  while (link_.room() > 0 && (!may_act_ || may_act_())) {
    const auto send = pipeline_.next(loop_.now());
    if (!send) {
      break;
    }
    tags_.push_back(
        {link_.submit(send->request, send->deadline), send->tag, loop_.now(), send->step});
  }
  link_.flush_now();
  arm();
}

void ComponentDriver::arm() {
  const auto next = pipeline_.next_timer();
  if (!next || (armed_ && *armed_ <= *next)) {
    return;
  }
  armed_ = next;
  timer_.start(std::max<Duration>(*next - loop_.now(), Duration::zero()), [this] {
    armed_.reset();
    pipeline_.on_timer(loop_.now());
    wake();
  });
}

}  // namespace kintsugi::workers
