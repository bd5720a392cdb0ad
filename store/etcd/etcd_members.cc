#include "store/etcd/etcd_members.h"

#include <algorithm>
#include <utility>

#include "base/time.h"
#include "net/loop.h"
#include "store/etcd/internal/blocking.h"
#include "store/etcd/internal/connection.h"
#include "store/etcd/internal/introduction.h"
#include "store/etcd/internal/keys.h"
#include "store/etcd/internal/members.h"
#include "store/etcd/wire/messages.h"

namespace kintsugi::store {
namespace {

constexpr Duration kDefragmentTimeout = std::chrono::minutes(10);
constexpr const char* kNoPrefix = "/-";

}  // namespace

struct EtcdMembers::Parts {
  explicit Parts(EtcdParams given) : params(std::move(given)), loop("etcd-tool"), keys("/") {}

  EtcdParams params;
  net::Loop loop;
  const etcd::Keys keys;
  std::vector<std::string> urls;
  std::unique_ptr<etcd::Client> client;
  std::unique_ptr<etcd::MemberChoice> choice;
  std::unique_ptr<etcd::Introduction> introduction;

  Expected<std::string> call(std::size_t member, std::string_view method, Duration timeout) {
    etcd::CallRequest request = introduction->request_of(method, {});
    request.timeout = timeout;
    etcd::Reply reply = etcd::run_until_done(loop, introduction->ask(member, std::move(request)));
    return reply.ok() ? Expected<std::string>(std::move(reply.message))
                      : fail(Errc::kUnavailable, urls[member] + ": " + reply.text());
  }
};

EtcdMembers::EtcdMembers(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
EtcdMembers::~EtcdMembers() = default;

Expected<std::unique_ptr<EtcdMembers>> EtcdMembers::open(EtcdParams params) {
  params.prefix = kNoPrefix;
  auto connection = etcd::understood_connection(params);
  if (!connection) {
    return fail(std::move(connection).error());
  }
  auto parts = std::make_unique<Parts>(std::move(params));
  parts->urls = parts->params.endpoints;
  parts->client = std::make_unique<etcd::Client>(
      parts->loop, etcd::ClientParams{std::move(connection->urls), std::move(connection->tls)});
  parts->choice = std::make_unique<etcd::MemberChoice>(parts->client->members());
  parts->introduction = std::make_unique<etcd::Introduction>(
      parts->loop, *parts->client, *parts->choice, parts->params, parts->keys, std::string());
  auto known = etcd::run_until_done(parts->loop, parts->introduction->authenticate());
  if (!known) {
    return fail(std::move(known).error());
  }
  return std::unique_ptr<EtcdMembers>(new EtcdMembers(std::move(parts)));
}

Expected<std::vector<EtcdMembers::Member>> EtcdMembers::look() {
  std::vector<Member> members;
  std::uint64_t cluster = 0;
  for (std::size_t i = 0; i < parts_->urls.size(); ++i) {
    const auto answer = parts_->call(i, "Maintenance/Status", parts_->params.attempt_timeout);
    if (!answer) {
      return fail(answer.error().clone());
    }
    etcd::StatusResponse status;
    if (!etcd::decode(*answer, status)) {
      return fail(Errc::kUnavailable, parts_->urls[i] + ": the answer was not understood");
    }
    if (status.leader == 0) {
      return fail(Errc::kUnavailable, parts_->urls[i] + " knows of no leader");
    }
    if (i > 0 && cluster != status.header.cluster_id) {
      return fail(Errc::kConfig, "the endpoints are members of different clusters");
    }
    cluster = status.header.cluster_id;
    members.push_back({parts_->urls[i], status.db_size, status.leader == status.header.member_id});
  }
  std::stable_sort(members.begin(), members.end(),
                   [](const Member& a, const Member& b) { return a.is_leader < b.is_leader; });
  return members;
}

Expected<std::vector<std::string>> EtcdMembers::others() {
  const auto answer = parts_->call(0, "Cluster/MemberList", parts_->params.attempt_timeout);
  if (!answer) {
    return fail(answer.error().clone());
  }
  etcd::MemberListResponse list;
  if (!etcd::decode(*answer, list)) {
    return fail(Errc::kUnavailable, parts_->urls[0] + ": the answer was not understood");
  }
  if (list.members.size() <= parts_->urls.size()) {
    return std::vector<std::string>();
  }
  std::vector<std::string> out;
  for (const etcd::Member& member : list.members) {
    const bool named = std::any_of(
        member.client_urls.begin(), member.client_urls.end(), [this](std::string_view url) {
          return std::find(parts_->urls.begin(), parts_->urls.end(), url) != parts_->urls.end();
        });
    if (!named) {
      out.push_back(member.client_urls.empty() ? std::string(member.name)
                                               : std::string(member.client_urls.front()));
    }
  }
  return out;
}

Expected<void> EtcdMembers::defragment(const std::string& url) {
  const auto at = std::find(parts_->urls.begin(), parts_->urls.end(), url);
  const auto member = static_cast<std::size_t>(at - parts_->urls.begin());
  auto answer = parts_->call(member, "Maintenance/Defragment", kDefragmentTimeout);
  return std::move(answer).map([](const std::string& /*header*/) {});
}

}  // namespace kintsugi::store
