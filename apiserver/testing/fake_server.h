#pragma once

#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apiserver/server.h"
#include "http/handler.h"
#include "kinds/registry.h"
#include "krm/json.h"
#include "net/loop.h"
#include "store/encryption/encrypted_store.h"
#include "store/forwarding_store.h"
#include "store/memory/memory_store.h"

/// Test helper: an ApiServer driven without sockets. Only for *_test.cc files.
namespace kintsugi::apiserver::testing {

/// What a client would have received on one stream.
class FakeStream final : public http::ResponseStream {
 public:
  void send_head(int status, const http::HeaderList& headers, bool end) noexcept override;
  void send_data(std::string_view bytes, bool end) noexcept override;
  void send_data(SharedBytes bytes, bool end) noexcept override;
  void send_trailers(const http::HeaderList&) noexcept override { ended = true; }
  void reset(Errc cause) noexcept override;
  void consume(std::size_t bytes) noexcept override { consumed += bytes; }
  [[nodiscard]] std::size_t unsent_bytes() const noexcept override {
    return stuck ? body.size() : 0;
  }
  [[nodiscard]] const http::PeerInfo& peer() const noexcept override { return peer_; }
  void close_connection_after() noexcept override {}

  int status = 0;
  http::HeaderList headers;
  std::string body;
  std::size_t consumed = 0;
  std::size_t data_calls = 0;
  std::vector<const char*> shared_payloads;  ///< addresses, to see what is shared
  bool ended = false;
  bool was_reset = false;
  bool stuck = false;  ///< the client reads nothing: everything counts as unsent

 private:
  http::PeerInfo peer_;
};

/// One exchange; closes its stream when it goes.
class Exchange {
 public:
  Exchange(ApiServer& server, http::RequestHead head, std::string_view body);
  ~Exchange();
  Exchange(Exchange&& other) noexcept = default;
  Exchange& operator=(Exchange&&) = delete;

  [[nodiscard]] FakeStream& stream() { return *stream_; }
  [[nodiscard]] int status() const { return stream_->status; }
  [[nodiscard]] const std::string& body() const { return stream_->body; }
  [[nodiscard]] std::string_view header(std::string_view name) const {
    return stream_->headers.get(name);
  }
  /// The body as JSON, null when it is none.
  [[nodiscard]] krm::Json json() const;
  /// Whole lines of a watch so far, as JSON.
  [[nodiscard]] std::vector<krm::Json> events() const;
  [[nodiscard]] http::RequestHandler& handler() { return *handler_; }
  void close();

 private:
  std::unique_ptr<FakeStream> stream_;
  std::unique_ptr<http::RequestHandler> handler_;
};

/// Header fields of a request, name and value.
using Fields = std::vector<std::pair<std::string, std::string>>;

/// A server over a MemoryStore where everybody may do everything, user "admin" unless X-User says
/// otherwise. "alice" may do nothing, "patcher" may patch only, "master" is in system:masters.
class FakeServer {
 public:
  /// @param kinds what the registry serves.
  explicit FakeServer(std::vector<ResourcePtr> kinds, std::string cluster = "",
                      ConcurrencyLimits limits = {});
  ~FakeServer();

  /// Sends a request and runs the loop until the answer is complete (or, for watches, has begun).
  [[nodiscard]] Exchange send(std::string_view method, std::string_view target,
                              std::string_view body = {}, const Fields& fields = {});
  /// The same with a JSON body.
  [[nodiscard]] Exchange send(std::string_view method, std::string_view target,
                              const krm::Json& body, const Fields& fields = {});
  /// Runs the loop until nothing is left to do at once.
  void settle();
  /// Runs the loop until `done` holds; false after five seconds.
  [[nodiscard]] bool run_until(const std::function<bool()>& done);

  /// From now on others write the store, too, and it cannot tell what is newest.
  void lose_store() { front_.is_lost = true; }
  /// From now on this user is denied the verb, or everything.
  void deny(std::string user, std::string verb = {});
  /// Targets "/view/clusters/<cluster>/…" go through it from now on.
  void look_through(std::shared_ptr<View> view) { view_ = std::move(view); }
  using Prepare = std::function<Expected<void>(const WriteContext&, const ResourceDef&,
                                               krm::Json& object, const krm::Json* old)>;
  /// AdmissionStep::prepare of a step from now on.
  void prepare_with(Prepare prepare) { prepare_ = std::move(prepare); }
  /// From now on decisions wait for give_decisions().
  void hold_decisions();
  /// How many decisions wait.
  [[nodiscard]] std::size_t held() const;
  void give_decisions();
  /// Subject of the token that the newest watch rests on; "": none.
  [[nodiscard]] const std::string& proved_by() const { return proved_by_; }
  /// Lines of the audit log so far.
  [[nodiscard]] const std::vector<std::string>& audit() const { return audit_; }
  [[nodiscard]] ApiServer& server() { return *server_; }
  [[nodiscard]] store::MemoryStore& store() { return store_; }
  /// What the server sees of it; nothing is encrypted until a codec is set.
  [[nodiscard]] store::EncryptedStore& encrypted_store() { return encrypted_store_; }
  [[nodiscard]] kinds::StaticPlusCrdRegistry& registry() { return *registry_; }
  [[nodiscard]] net::Loop& loop() { return loop_; }

 private:
  class Authenticator;
  class Authorizer;
  class Preparing;

  struct Front final : store::ForwardingStore {
    explicit Front(store::Store& inner) : ForwardingStore(inner) {}
    [[nodiscard]] bool is_shared() const noexcept override { return is_lost; }
    void synchronize(store::SynchronizeCallback done) override {
      if (is_lost) {
        done(fail(Errc::kDeadline));
      } else {
        inner().synchronize(std::move(done));
      }
    }
    [[nodiscard]] Expected<void> health() const override {
      return is_lost ? Expected<void>(fail(Errc::kUnavailable)) : inner().health();
    }
    bool is_lost = false;
  };

  net::Loop loop_{"test"};
  store::MemoryStore store_;
  Front front_{store_};
  store::EncryptedStore encrypted_store_{front_};
  std::vector<std::string> audit_;
  std::string proved_by_;
  std::shared_ptr<View> view_;
  Prepare prepare_;
  std::unique_ptr<kinds::StaticPlusCrdRegistry> registry_;
  std::unique_ptr<Authenticator> authenticator_;
  std::unique_ptr<Authorizer> authorizer_;
  std::unique_ptr<ApiServer> server_;
};

/// Changes a stored object as another writer would, straight in the store: sets deletionTimestamp.
void mark_deleted(store::Store& store, const std::string& key);

/// ConfigMap as JSON; data from pairs.
[[nodiscard]] krm::Json config_map(
    std::string_view name, std::initializer_list<std::pair<std::string_view, krm::Json>> data = {},
    std::initializer_list<std::pair<std::string_view, krm::Json>> labels = {});
/// A namespaced custom kind Widget of ex.io/v1 with status and scale, and a free-form schema.
[[nodiscard]] ResourcePtr widget_kind();

}  // namespace kintsugi::apiserver::testing
