#include "workers/eventing/control/internal/member_asker.h"

#include <utility>

#include "krm/json.h"

namespace kintsugi::workers {
namespace {

constexpr Duration kAgain = milliseconds(500), kPatience = seconds(5);
constexpr std::size_t kMostStatus = std::size_t{8} << 20U;

}  // namespace

std::optional<DispatcherMembers> members_of_status(std::string_view body, std::string_view pod) {
  if (body.size() > kMostStatus) {
    return std::nullopt;
  }
  const auto status = krm::Json::parse(body);
  if (!status || !status->is_object() || status->text({"pod"}) != pod) {
    return std::nullopt;
  }
  DispatcherMembers out;
  if (const krm::Json* const egresses = status->find("egresses")) {
    for (const krm::JsonMember& one : egresses->members()) {
      if (const krm::Json* const members = one.value.find("members")) {
        out.emplace(one.key, members->as_integer());
      }
    }
  }
  return out;
}

MemberAsker::MemberAsker(net::Loop& loop, Answered answered)
    : loop_(loop), answered_(std::move(answered)) {}

void MemberAsker::ask(const std::map<std::string, std::string>& pods) {
  std::erase_if(pods_, [&](const auto& one) {
    const auto at = pods.find(one.first);
    return at == pods.end() || at->second != one.second->url;
  });
  for (const auto& [name, url] : pods) {
    const auto parsed = net::Url::parse(url);
    if (!parsed || pods_.contains(name)) {
      continue;
    }
    auto pod = std::make_unique<Pod>(loop_);
    pod->url = url;
    net::UpstreamParams params;
    params.url = *parsed;
    params.max_connections = 1;
    pod->origin = std::shared_ptr<net::Upstream>(
        net::Upstream::make(loop_, std::move(params)).release(),
        [&loop = loop_](net::Upstream* one) {
          loop.defer([ended = std::shared_ptr<net::Upstream>(one)] {});
        });
    question(name, *pods_.emplace(name, std::move(pod)).first->second);
  }
}

void MemberAsker::question(const std::string& name, Pod& pod) {
  net::FetchRequest request;
  request.target = "/status";
  request.timeout = kPatience;
  pod.call = net::fetch(loop_, *pod.origin, std::move(request),
                        [this, name, &pod](Expected<net::FetchResponse> answer) {
                          pod.again.start(kAgain, [this, name, &pod] { question(name, pod); });
                          if (!answer || answer->status != 200) {
                            return;
                          }
                          if (const auto members = members_of_status(answer->body, name)) {
                            answered_(name, *members);  // may end the questions to this pod
                          }
                        });
}

}  // namespace kintsugi::workers
