#include "server/internal/proxy_tokens.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "auth/border_tokens.h"
#include "auth/service_account_tokens.h"
#include "base/secret_file.h"
#include "server/files.h"
#include "server/internal/proxy_issuers.h"
#include "server/internal/webhook_server.h"
#include "topology/resolver.h"

namespace kintsugi::server {
namespace {

constexpr Duration kMostCached = seconds(10);  // SE-046

using Source = auth::BorderTokens::Source;

std::shared_ptr<auth::TokenAuthenticator> bordered(std::shared_ptr<auth::TokenAuthenticator> tokens,
                                                   Source source, const auth::BorderRules& rules) {
  return std::make_shared<auth::BorderTokens>(std::move(tokens), source, rules);
}

Expected<proxy::TokenWebhookConfig> load_webhook(const proxy::AuthenticationConfig& config) {
  auto server = load_webhook_server(config.webhook.kubeconfig);
  if (!server) {
    return fail(std::move(server.error()));
  }
  proxy::TokenWebhookConfig webhook;
  webhook.server = std::move(server->upstream);
  webhook.authorization = std::move(server->authorization);
  webhook.version = config.webhook.version;
  webhook.cache = std::min<Duration>(config.webhook.cache, kMostCached);
  return webhook;
}

}  // namespace

Expected<TokenFiles> load_token_files(const proxy::AuthenticationConfig& config) {
  TokenFiles files;
  if (!config.token_file.empty()) {
    auto text = read_secret_file(config.token_file);
    if (!text) {
      return fail(std::move(text.error()));
    }
    auto parsed = auth::TokenFile::parse(text->view());
    if (!parsed) {
      return fail(std::move(parsed.error()).at(config.token_file));
    }
    files.file = std::move(*parsed);
  }
  for (const std::string& file : config.service_accounts.key_files) {
    auto text = read_file(file);
    if (!text) {
      return fail(std::move(text.error()));
    }
    auto keys = auth::JwtKey::parse_pem(*text);
    if (!keys) {
      return fail(std::move(keys.error()).at(file));
    }
    files.account_keys.insert(files.account_keys.end(), keys->begin(), keys->end());
  }
  auto issuers = load_issuers(config);
  if (!issuers) {
    return fail(std::move(issuers.error()));
  }
  files.issuers = std::move(*issuers);
  files.has_webhook = !config.webhook.kubeconfig.empty();
  if (files.has_webhook) {
    auto webhook = load_webhook(config);
    if (!webhook) {
      return fail(std::move(webhook.error()));
    }
    files.webhook = std::move(*webhook);
  }
  return files;
}

ProxyTokens::ProxyTokens(net::Loop& loop, std::shared_ptr<topology::SnapshotView> view,
                         proxy::FindReviewTarget find,
                         std::shared_ptr<const net::OutgoingPolicy> outgoing)
    : loop_(loop),
      accounts_(loop, std::move(find),
                [view](std::string_view cluster) {
                  const topology::Resolution found = topology::resolve(view->current(), cluster);
                  return found.kind == topology::Resolution::Kind::kNotFound;
                }),
      view_(std::move(view)),
      outgoing_(std::move(outgoing)) {}

void ProxyTokens::set_workspace_issuers(proxy::WorkspaceIssuersPtr issuers) {
  if (workspaces_ != nullptr) {
    workspaces_->set_issuers(std::move(issuers));
  }
}

void ProxyTokens::take(const proxy::AuthenticationConfig& config, const TokenFiles& files,
                       proxy::TokenGate& gate) {
  std::vector<std::shared_ptr<auth::TokenAuthenticator>> members;
  if (files.file != nullptr) {
    members.push_back(bordered(files.file, Source::kOthers, config.border));
  }
  if (!files.account_keys.empty()) {
    auth::ServiceAccountAuthenticator::Params params;
    params.tokens = std::make_shared<const auth::ServiceAccountTokens>(
        auth::ServiceAccountTokenConfig{files.account_keys, config.service_accounts.issuers,
                                        config.service_accounts.audiences});
    std::shared_ptr<auth::TokenAuthenticator> accounts =
        std::make_shared<auth::ServiceAccountAuthenticator>(std::move(params));
    if (config.service_accounts.lookup) {
      accounts = std::make_shared<proxy::CheckedAccounts>(std::move(accounts), accounts_);
    }
    members.push_back(bordered(std::move(accounts), Source::kOurs, config.border));
  }
  const bool same = std::equal(
      files.issuers.begin(), files.issuers.end(), known_issuers_.begin(), known_issuers_.end(),
      [](const auto& a, const auto& b) { return a->config() == b->config(); });
  if (!same) {
    known_issuers_ = files.issuers;
    issuers_ = std::make_shared<auth::IssuerTokens>(loop_, files.issuers, true,
                                                    auth::IssuerTokens::Limits(), issuers_.get());
  }
  if (!known_issuers_.empty()) {
    members.push_back(bordered(issuers_, Source::kOthers, config.border));
  }
  if (files.has_webhook) {
    members.push_back(bordered(std::make_shared<proxy::TokenWebhook>(loop_, files.webhook),
                               Source::kServer, config.border));
  }
  proxy::TokenGate::Methods methods;
  methods.border = config.border;
  methods.tokens = !members.empty();
  methods.request_header = !config.request_header.client_ca_file.empty();
  methods.must_have = methods.tokens && !config.pass_failed;
  using Authenticator = auth::RequestAuthenticator;
  Authenticator::Params params;
  params.request_header = config.request_header.names;
  params.pass_failed_tokens = config.pass_failed;
  params.pass_groups = config.pass_groups;
  params.drop_groups = config.drop_groups;
  params.filter = true;
  if (config.workspaces) {
    if (workspaces_ == nullptr) {
      workspaces_ = std::make_shared<proxy::WorkspaceTokens>(loop_, view_, seconds(2), outgoing_);
    }
    auto all = members;
    all.push_back(bordered(workspaces_, Source::kOurs, config.border));
    params.tokens = std::make_shared<auth::TokenUnion>(std::move(all));
    params.no_credentials = config.pass_failed ? Authenticator::NoCredentials::kPass
                                               : Authenticator::NoCredentials::kReject;
    methods.workspaces = workspaces_;
    methods.in_workspaces = std::make_shared<Authenticator>(params);
  }
  if (methods.tokens || methods.request_header) {
    params.tokens =
        methods.tokens ? std::make_shared<auth::TokenUnion>(std::move(members)) : nullptr;
    params.no_credentials = methods.must_have ? Authenticator::NoCredentials::kReject
                                              : Authenticator::NoCredentials::kPass;
    methods.authenticator = std::make_shared<Authenticator>(std::move(params));
  }
  gate.set_methods(std::move(methods));
}

}  // namespace kintsugi::server
