#include "workers/eventing/dispatcher/egress_config.h"

#include <utility>

namespace kintsugi::workers {
namespace {

bool has_auth(const ContractResource& resource) {
  return !std::holds_alternative<std::monostate>(resource.auth) &&
         !std::holds_alternative<AbsentAuth>(resource.auth);
}

}  // namespace

Expected<std::shared_ptr<KafkaProducer>> KafkaProducers::find(
    const std::string& bootstrap_servers) {
  std::erase_if(all_, [](const auto& one) { return one.second.expired(); });
  if (auto known = all_[bootstrap_servers].lock()) {
    return known;
  }
  auto made = std::make_shared<KafkaProducer>(loop_, bootstrap_servers, client_id_);
  if (auto started = made->start(); !started) {
    return fail(std::move(started.error()));
  }
  all_[bootstrap_servers] = made;
  return made;
}

Expected<std::shared_ptr<const EgressTerms>> make_terms(const ContractResource& resource,
                                                        const Egress& egress,
                                                        const std::string& trusted,
                                                        const DispatcherSettings& settings,
                                                        Sinks& sinks, KafkaProducers& producers) {
  if (auto judged = judge_egress(resource, egress); !judged) {
    return fail(std::move(judged.error()));
  }
  if (has_auth(resource)) {
    return fail(Errc::kConfig, "auth: secrets are not read by this dispatcher");
  }
  auto out = std::make_shared<EgressTerms>();
  out->resource = resource;
  out->resource.egresses.clear();
  out->egress = egress;
  const EgressConfig config =
      egress.egress_config.value_or(resource.egress_config.value_or(EgressConfig()));
  out->plan = RetryPlan::of(config, settings.request_timeout);
  const auto find = [&](std::shared_ptr<Sink>& to, const std::string& url,
                        const std::string& ca_pem, const char* field) -> Expected<void> {
    auto found = sinks.find(url, ca_pem.empty() ? trusted : ca_pem + "\n" + trusted);
    if (!found) {
      return fail(std::move(found.error()).at(field));
    }
    to = std::move(*found);
    return {};
  };
  auto found =
      find(out->destination, egress.destination, egress.destination_ca_certs, "destination");
  if (found && egress.reply_strategy == ReplyStrategy::kUrl) {
    found = find(out->reply, egress.reply_url, egress.reply_url_ca_certs, "replyUrl");
  }
  if (found && !config.dead_letter.empty()) {
    found = find(out->dead_letter, config.dead_letter, config.dead_letter_ca_certs,
                 "egressConfig.deadLetter");
  }
  if (!found) {
    return fail(std::move(found.error()));
  }
  if (egress.reply_strategy == ReplyStrategy::kOriginalTopic) {
    auto producer = producers.find(resource.bootstrap_servers);
    if (!producer) {
      return fail(std::move(producer.error()).at("bootstrapServers"));
    }
    out->producer = std::move(*producer);
  }
  return out;
}

bool needs_other_consumers(const EgressTerms& a, const EgressTerms& b) {
  return a.resource.topics != b.resource.topics ||
         a.resource.bootstrap_servers != b.resource.bootstrap_servers ||
         a.egress.consumer_group != b.egress.consumer_group ||
         a.egress.delivery_order != b.egress.delivery_order;
}

}  // namespace kintsugi::workers
