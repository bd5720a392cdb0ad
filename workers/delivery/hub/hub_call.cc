#include "workers/delivery/hub/hub_call.h"

#include <algorithm>
#include <utility>

#include "base/strings.h"
#include "workers/delivery/hub/hub_service.h"
#include "workers/delivery/protocol/content_type.h"
#include "workers/delivery/protocol/topics.h"

namespace kintsugi::workers {
namespace {

constexpr Duration kQuiet = seconds(1), kConnect = seconds(20);

bool answers(const ReceivedStatus& status, const HubCall::Awaited& awaited) {
  const std::string current = "\"" + std::to_string(awaited.generation) + "\"";
  return (status.generation == awaited.generation || status.resource_generation_id == current) &&
         (!awaited.deletion || status.is_deleted());
}

}  // namespace

HubCall::HubCall(net::Loop& loop, Params params, std::function<void(const std::string&)> show,
                 std::function<void(End, const std::string&)> done)
    : loop_(loop),
      params_(std::move(params)),
      show_(std::move(show)),
      done_(std::move(done)),
      patience_(loop),
      quiet_(loop) {
  MqttParams mqtt;
  mqtt.broker = params_.broker.url;
  mqtt.tls = params_.broker.tls;
  mqtt.client_id = "kintsugi-hub-" + random_suffix(8);
  mqtt.user = params_.broker.user;
  mqtt.password = Secret(std::string(params_.broker.password));
  mqtt.clean_start = true;
  mqtt.session_expiry = 0;
  mqtt.folder = params_.folder;
  MqttSession::Callbacks callbacks;
  callbacks.on_connected = [this](bool) {
    if (params_.shows || !params_.awaited.empty()) {
      session_->subscribe(delivery_topic(params_.prefix, params_.client, "+", "status"));
    } else {
      publish();
    }
  };
  callbacks.on_subscribed = [this] {
    publish();
    wait_for_quiet();
  };
  callbacks.on_message = [this](const MqttMessage& message) { on_message(message); };
  callbacks.on_acknowledged = [this](int, int reason) { on_acknowledged(reason); };
  callbacks.on_ended = [this](const MqttEnd& ended) {
    end(End::kBroker, "no connection to the broker: " + ended.why);
  };
  session_ = std::make_unique<MqttSession>(loop, std::move(mqtt), std::move(callbacks));
  patience_.start(params_.awaited.empty() ? kConnect : std::max(params_.patience, kQuiet), [this] {
    if (!published_) {
      end(End::kBroker, "the broker does not answer");
    } else if (!params_.awaited.empty()) {
      end(End::kTimeout, params_.client + "/" + params_.awaited.begin()->first + ": no answer");
    }
  });
}

HubCall::~HubCall() = default;

void HubCall::publish() {
  unacknowledged_ = params_.publications.size();
  for (HubBook::Publication& one : params_.publications) {
    const std::string type(one.payload.empty() ? std::string_view() : kJsonContentType);
    if (!session_->publish({std::move(one.topic), type, std::move(one.payload), true, {}})) {
      return end(End::kBroker, "the broker does not take a message");
    }
  }
  published_ = true;
  check();
}

void HubCall::on_acknowledged(int reason) {
  if (reason >= 128) {
    return end(End::kBroker,
               "the broker does not take a message: reason " + std::to_string(reason));
  }
  --unacknowledged_;
  check();
}

void HubCall::check() {
  if (published_ && unacknowledged_ == 0 && params_.awaited.empty() && !params_.shows) {
    end(refused_ ? End::kRefused : End::kDone, "");
  }
}

void HubCall::wait_for_quiet() {
  if (params_.shows && !params_.follows) {
    quiet_.start(kQuiet, [this] { end(End::kDone, ""); });
  }
}

void HubCall::on_message(const MqttMessage& message) {
  wait_for_quiet();
  const auto topic = parse_delivery_topic(message.topic, {params_.prefix});
  if (!topic || topic->leaf != "status" || is_reserved_uid(topic->uid) || message.payload.empty()) {
    return;
  }
  const auto awaited = params_.awaited.find(std::string(topic->uid));
  if (!params_.shows && awaited == params_.awaited.end()) {
    return;
  }
  const auto status = parse_status(message.content_type, message.payload, message.user);
  if (!status) {
    return show_(std::string(message.topic) + ": " + std::string(status.error().message()));
  }
  const bool answer = awaited != params_.awaited.end() && answers(*status, awaited->second);
  if (params_.shows || answer) {
    show_(params_.as_json ? status->json : status_line(params_.client, topic->uid, *status));
  }
  if (answer) {
    const DeliveryCondition* const reconciled = status->find("Reconciled");
    refused_ = refused_ || (reconciled != nullptr && !reconciled->holds);
    params_.awaited.erase(awaited);
    check();
  }
}

void HubCall::end(End end, const std::string& why) {
  if (std::exchange(ended_, true)) {
    return;
  }
  patience_.cancel();
  quiet_.cancel();
  session_->close();
  done_(end, why);
}

}  // namespace kintsugi::workers
