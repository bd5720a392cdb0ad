#include "apiserver/testing/fake_server.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "auth/bearer.h"
#include "auth/x509_identity.h"
#include "base/strings.h"
#include "kinds/builtin_admission.h"
#include "krm/request_info.h"
#include "krm/structural.h"

namespace kintsugi::apiserver::testing {

void FakeStream::send_head(int code, const http::HeaderList& fields, bool end) noexcept {
  EXPECT_EQ(status, 0) << "a second head";
  status = code;
  headers = fields;
  ended = end;
}

void FakeStream::send_data(std::string_view bytes, bool end) noexcept {
  EXPECT_NE(status, 0) << "data before the head";
  EXPECT_FALSE(ended) << "data after the end";
  body.append(bytes);
  ++data_calls;
  ended = ended || end;
}

void FakeStream::send_data(SharedBytes bytes, bool end) noexcept {
  shared_payloads.push_back(bytes.view().data());
  send_data(bytes.view(), end);
}

void FakeStream::reset(Errc) noexcept {
  was_reset = true;
  ended = true;
}

Exchange::Exchange(ApiServer& server, http::RequestHead head, std::string_view body)
    : stream_(std::make_unique<FakeStream>()) {
  head.end_stream = body.empty();
  handler_ = server.on_request(std::move(head), *stream_);
  if (!body.empty()) {
    handler_->on_data(body, true);
  }
}

Exchange::~Exchange() { close(); }

void Exchange::close() {
  if (handler_ != nullptr) {
    handler_->on_close(Errc::kOk);
    handler_.reset();
  }
}

krm::Json Exchange::json() const {
  Expected<krm::Json> parsed = krm::Json::parse(stream_->body);
  return parsed ? std::move(*parsed) : krm::Json();
}

std::vector<krm::Json> Exchange::events() const {
  std::vector<krm::Json> out;
  for (const std::string_view line : split(stream_->body, '\n')) {
    if (Expected<krm::Json> event = krm::Json::parse(line)) {
      out.push_back(std::move(*event));
    }
  }
  return out;
}

class FakeServer::Authenticator final : public auth::Authenticator {
 public:
  void authenticate(const http::RequestHead& head, const auth::BearerPtr& token,
                    const http::PeerInfo&, std::string_view, Done done) override {
    if (token != nullptr) {
      (void)token->jwt();  // as one does that judges it
    }
    const std::string_view user = head.headers.get("x-user");
    if (user == "bad") {
      done(fail(Errc::kUnauthorized));
      return;
    }
    auth::UserInfo info;
    info.name = user.empty() ? "admin" : std::string(user);
    info.groups = {user == "master" ? "system:masters" : std::string(auth::kGroupAuthenticated)};
    done(std::optional<auth::UserInfo>(info));
  }
};

class FakeServer::Preparing final : public AdmissionStep {
 public:
  explicit Preparing(const Prepare& prepare) : prepare_(prepare) {}
  Expected<void> prepare(const WriteContext& context, const ResourceDef& def, krm::Json& object,
                         const krm::Json* old) override {
    return prepare_ ? prepare_(context, def, object, old) : Expected<void>();
  }

 private:
  const Prepare& prepare_;
};

class FakeServer::Authorizer final : public auth::Authorizer {
 public:
  void authorize(const auth::Attributes& attributes, Done done) override {
    auth::Decision decision;
    const bool patcher = attributes.user.name == "patcher";
    const bool refused = std::any_of(denied.begin(), denied.end(), [&](const auto& one) {
      return one.first == attributes.user.name &&
             (one.second.empty() || one.second == attributes.verb);
    });
    decision.allowed = !refused && !(patcher && attributes.verb != "patch");
    if (holding) {
      held.push_back([done = std::move(done), decision] { done(decision); });
      return;
    }
    done(decision);
  }
  bool holding = false;
  std::vector<std::function<void()>> held;
  std::vector<std::pair<std::string, std::string>> denied{{"alice", ""}};  ///< user, verb
};

FakeServer::FakeServer(std::vector<ResourcePtr> kinds, std::string cluster,
                       ConcurrencyLimits limits) {
  std::vector<kinds::StaticPlusCrdRegistry::StaticKind> fixed;
  for (ResourcePtr& kind : kinds) {
    fixed.push_back({std::move(kind), {}});
  }
  registry_ = std::make_unique<kinds::StaticPlusCrdRegistry>(std::move(fixed));
  registry_->set_ready();
  authenticator_ = std::make_unique<Authenticator>();
  authorizer_ = std::make_unique<Authorizer>();
  ClusterResolver resolve = [this, cluster](
                                const http::RequestHead& head,
                                const auth::UserInfo&) -> Expected<std::optional<ClusterTarget>> {
    constexpr std::string_view kView = "/view";
    if (const std::string_view target = head.target; target.starts_with(kView)) {
      if (const auto path = krm::split_cluster_path(target.substr(kView.size()))) {
        return ClusterTarget{path->segment, "/view/clusters/" + path->segment, path->rest, view_};
      }
    }
    if (const auto path = krm::split_cluster_path(head.target)) {
      return ClusterTarget{path->segment, "/clusters/" + path->segment, path->rest};
    }
    if (head.target.starts_with("/outside")) {
      return std::optional<ClusterTarget>();
    }
    return ClusterTarget{cluster, "", head.target};
  };
  ServerParams params{loop_,        encrypted_store_,   *registry_, *authenticator_,
                      *authorizer_, std::move(resolve), {}};
  params.admission.push_back(std::make_unique<Preparing>(prepare_));
  kinds::install_builtin_admission(params);
  params.review_delay = Duration(0);
  params.concurrency = limits;
  params.watch_lag = milliseconds(500);
  params.audit = [this](std::string line) { audit_.push_back(std::move(line)); };
  params.proof = [this](const http::RequestHead&, const auth::BearerPtr& token,
                        const http::PeerInfo& peer, std::string_view, const auth::UserInfo&) {
    proved_by_ = token == nullptr ? std::string() : std::string(token->claim({"sub"}));
    return auth::proof_of(peer);
  };
  params.document = [](std::string_view api_root,
                       std::string_view path) -> std::optional<krm::Json> {
    if (path != "/documents/one") {
      return std::nullopt;
    }
    return krm::Json::object({{"root", krm::Json(api_root)}});
  };
  server_ = ApiServer::make(std::move(params));
}

void FakeServer::deny(std::string user, std::string verb) {
  authorizer_->denied.emplace_back(std::move(user), std::move(verb));
}

void FakeServer::hold_decisions() { authorizer_->holding = true; }

std::size_t FakeServer::held() const { return authorizer_->held.size(); }

void FakeServer::give_decisions() {
  for (const std::function<void()>& give : std::exchange(authorizer_->held, {})) {
    give();
  }
}

FakeServer::~FakeServer() {
  settle();
  registry_->stop();
}

Exchange FakeServer::send(std::string_view method, std::string_view target, std::string_view body,
                          const Fields& fields) {
  http::RequestHead head;
  head.method = method;
  head.scheme = "https";
  head.target = target;
  for (const auto& [name, value] : fields) {
    head.headers.add(name, value);
  }
  Exchange exchange(*server_, std::move(head), body);
  FakeStream& stream = exchange.stream();
  EXPECT_TRUE(run_until([&] {
    const bool is_watch =
        stream.status == 200 && !stream.ended && !stream.headers.contains("content-length");
    return stream.ended || is_watch;
  })) << method
      << ' ' << target;
  settle();
  return exchange;
}

Exchange FakeServer::send(std::string_view method, std::string_view target, const krm::Json& body,
                          const Fields& fields) {
  return send(method, target, std::string_view(body.dump()), fields);
}

void FakeServer::settle() {
  // Work in progress posts its next step; a few rounds reach the end of every chain in these tests.
  for (int round = 0; round < 8; ++round) {
    loop_.post([this] { loop_.stop(); });
    loop_.run();
  }
}

bool FakeServer::run_until(const std::function<bool()>& done) {
  const TimePoint limit = Clock::now() + seconds(5);
  while (!done()) {
    if (Clock::now() > limit) {
      return false;
    }
    settle();
  }
  return true;
}

void mark_deleted(store::Store& store, const std::string& key) {
  const Expected<store::Entry> entry = store.get(key);
  ASSERT_TRUE(entry) << key;
  Expected<krm::Json> object = decode_stored(entry->value.view(), "", "", 0);
  ASSERT_TRUE(object);
  object->make({"metadata", "deletionTimestamp"}) = "2026-01-01T00:00:00Z";
  ASSERT_TRUE(store.commit_wait(
      {{store::EventType::kPut, key, encode_stored(*object), entry->modified, {}}}));
}

krm::Json config_map(std::string_view name,
                     std::initializer_list<std::pair<std::string_view, krm::Json>> data,
                     std::initializer_list<std::pair<std::string_view, krm::Json>> labels) {
  krm::Json object = krm::Json::object({{"apiVersion", "v1"}, {"kind", "ConfigMap"}});
  object["metadata"]["name"] = name;
  if (labels.size() != 0) {
    object["metadata"]["labels"] = krm::Json::object(labels);
  }
  if (data.size() != 0) {
    object["data"] = krm::Json::object(data);
  }
  return object;
}

ResourcePtr widget_kind() {
  auto def = std::make_shared<ResourceDef>();
  def->group = "ex.io";
  def->plural = "widgets";
  def->singular = "widget";
  def->kind = "Widget";
  def->list_kind = "WidgetList";
  def->short_names = {"wd"};
  def->categories = {"all"};
  def->generation = true;
  ResourceVersion version;
  version.name = "v1";
  version.status = true;
  version.scale = {".spec.replicas", ".status.replicas", ".status.sel"};
  version.selectable_fields = {".spec.color"};
  const Expected<krm::Json> schema = krm::Json::parse(R"({"type":"object","properties":{
    "spec":{"type":"object","properties":{"size":{"type":"integer","minimum":1,"default":3},
      "color":{"type":"string"},"replicas":{"type":"integer"}}},
    "status":{"type":"object","properties":{"phase":{"type":"string"},
      "replicas":{"type":"integer"},"sel":{"type":"string"}}}}})");
  version.schema = krm::structural_schema(*schema, true);
  Column size;
  size.name = "Size";
  size.type = "integer";
  size.json_path = ".spec.size";
  version.columns = {size};
  def->versions = {version};
  return def;
}

}  // namespace kintsugi::apiserver::testing
