#include <string>
#include <string_view>

#include "net/upstream.h"
#include "workers/eventing/contract/contract.h"

namespace kintsugi::workers {
namespace {

Expected<void> judge_url(std::string_view field, std::string_view url) {
  const auto parsed = net::Url::parse(url.substr(0, url.find('?')));
  if (!parsed) {
    return fail(Errc::kInvalid, std::string(field) + ": " + std::string(parsed.error().message()));
  }
  return {};
}

Expected<void> judge_filter(const DialectedFilter& filter, const std::string& at) {
  using Kind = DialectedFilter::Kind;
  const auto empty = [&](std::string_view what) {
    return fail(Errc::kInvalid, at + ": " + std::string(what));
  };
  const bool by_attributes =
      filter.kind == Kind::kExact || filter.kind == Kind::kPrefix || filter.kind == Kind::kSuffix;
  if (filter.kind == Kind::kCesql) {
    return fail(Errc::kNotAcceptable, at + ": cesql is not supported");
  }
  if (filter.kind == Kind::kNone) {
    return filter.unknown.empty() ? empty("says nothing")
                                  : fail(Errc::kNotAcceptable, at + ": is of an unknown dialect");
  }
  if (by_attributes && filter.attributes.empty()) {
    return empty("names no attribute");
  }
  if (!by_attributes && filter.filters.empty()) {
    return empty("has no filter inside");
  }
  for (const DialectedFilter& inner : filter.filters) {
    if (auto judged = judge_filter(inner, at); !judged) {
      return judged;
    }
  }
  return {};
}

}  // namespace

Expected<void> judge_egress(const ContractResource& resource, const Egress& egress) {
  if (resource.topics.empty()) {
    return fail(Errc::kInvalid, "topics: there is none");
  }
  if (resource.bootstrap_servers.empty()) {
    return fail(Errc::kInvalid, "bootstrapServers: there is none");
  }
  if (egress.uid.empty()) {
    return fail(Errc::kInvalid, "uid: there is none");
  }
  if (egress.consumer_group.empty()) {
    return fail(Errc::kInvalid, "consumerGroup: there is none");
  }
  if (egress.vreplicas < 1 || egress.vreplicas > kMaxVReplicas) {
    return fail(Errc::kInvalid, "vReplicas: must be from 1 to " + std::to_string(kMaxVReplicas));
  }
  if (auto judged = judge_url("destination", egress.destination); !judged) {
    return judged;
  }
  if (egress.reply_strategy == ReplyStrategy::kUrl) {
    if (auto judged = judge_url("replyUrl", egress.reply_url); !judged) {
      return judged;
    }
  }
  const EgressConfig* const config = egress.egress_config     ? &*egress.egress_config
                                     : resource.egress_config ? &*resource.egress_config
                                                              : nullptr;
  if (config != nullptr && !config->dead_letter.empty()) {
    if (auto judged = judge_url("egressConfig.deadLetter", config->dead_letter); !judged) {
      return judged;
    }
  }
  for (std::size_t i = 0; i < egress.dialected_filter.size(); ++i) {
    const std::string at = "dialectedFilter[" + std::to_string(i) + "]";
    if (auto judged = judge_filter(egress.dialected_filter[i], at); !judged) {
      return judged;
    }
  }
  return {};
}

}  // namespace kintsugi::workers
