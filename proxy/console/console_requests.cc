#include "proxy/console/console_requests.h"

#include <algorithm>
#include <utility>

#include "auth/impersonation.h"
#include "krm/request_info.h"
#include "krm/status.h"
#include "proxy/console/console_answer.h"
#include "proxy/console/internal/console_page.h"
#include "proxy/console/internal/view_rows.h"
#include "serving/answer.h"
#include "serving/identity.h"
#include "serving/waiting_request.h"
#include "topology/resolver.h"

namespace kintsugi::proxy {
namespace {

constexpr std::string_view kLive = "live";

auth::Attributes path_right(const auth::UserInfo& user, std::string_view name) {
  auth::Attributes asked;
  asked.user = user;
  asked.cluster = "root";
  asked.is_resource = false;
  asked.verb = "get";
  asked.path = "/ui/api/v1/" + std::string(name);
  return asked;
}

auth::Attributes list_right(const auth::UserInfo& user, std::string_view cluster,
                            std::string_view group, std::string_view resource) {
  auth::Attributes asked;
  asked.user = user;
  asked.cluster = cluster;
  asked.verb = "list";
  asked.group = group;
  asked.version = "v1alpha1";
  asked.resource = resource;
  return asked;
}

/// What a question is about. Names that are none are left out: the console refuses them.
std::vector<std::string_view> names_of(std::string_view name, std::string_view views) {
  std::vector<std::string_view> out;
  if (name == "overview" || (name == kLive && views.empty())) {
    out.assign(std::begin(kConsoleNames), std::end(kConsoleNames));
    return out;
  }
  if (name != kLive) {
    views = name;
  }
  for (const std::string_view known : kConsoleNames) {
    const std::string wanted = "," + std::string(known) + ",";
    if (("," + std::string(views) + ",").find(wanted) != std::string::npos) {
      out.push_back(known);
    }
  }
  return out;
}

bool is_known(std::string_view name) {
  return name == kLive || std::find(std::begin(kConsoleNames), std::end(kConsoleNames), name) !=
                              std::end(kConsoleNames);
}

/// `live` of the views that he sees anything of.
std::string live_target(const ViewerScope& scope) {
  std::string out = "/ui/api/v1/live?views=";
  std::string_view between;
  for (const std::string_view view : kViews) {
    if (scope.sight(view) != Sight::kNothing) {
      out.append(between).append(view);
      between = ",";
    }
  }
  return out;
}

}  // namespace

/// A question on its way: the client's end.
class ConsoleRequests::Linked final : public http::RequestHandler, public LinkedRequest {
 public:
  struct Asks {
    auth::UserInfo user;
    std::vector<std::string_view> names;
    std::string cluster;
    bool is_live;
    auth::BearerPtr token;  ///< null: his connection says who he is
  };
  Linked(ConsoleRequests& owner, http::RequestHead head, http::ResponseStream& stream,
         ViewerScope scope, Asks asks)
      : owner_(owner),
        stream_(stream),
        scope_(std::move(scope)),
        asks_(std::move(asks)),
        link_(std::make_shared<ConsoleLink>(owner.params_.loop)),
        timer_(owner.params_.loop) {
    link_->request = this;
    link_->address = stream.peer().address;
    if (asks_.is_live) {
      owner_.live_.push_back(this);
    }
    timer_.start(kPatience, [this] { finish(); });
    owner_.params_.door.ask(
        std::make_shared<ConsoleAsked>(ConsoleAsked{std::move(head), scope_, link_}));
  }
  ~Linked() override {
    leave(Errc::kClosed);
    *alive_ = nullptr;
  }
  void on_data(std::string_view bytes, bool /*end*/) noexcept override {
    stream_.consume(bytes.size());
  }
  void on_drained() noexcept override {
    link_->unsent = stream_.unsent_bytes();
    owner_.params_.door.drained(link_);
  }
  void on_close(Errc cause) noexcept override { leave(cause); }

  void take_head(int status, const http::HeaderList& headers, bool end) noexcept override {
    if (std::exchange(begun_, true)) {
      return;
    }
    timer_.cancel();
    stream_.send_head(status, headers, end);
    if (asks_.is_live && status == 200) {
      look_again();
    }
  }
  void take_data(const std::string& bytes, bool end) noexcept override {
    stream_.send_data(std::string_view(bytes), end);
    link_->unsent = stream_.unsent_bytes();
  }
  void take_reset(Errc cause) noexcept override {
    leave(cause);
    stream_.reset(cause);
  }

  /// In order: the answer is over, or there will be none.
  void finish() {
    leave(Errc::kClosed);
    if (begun_) {
      stream_.send_data(std::string_view(), true);
    } else {
      begun_ = true;
      serving::AnswerForm form;
      serving::send_error(stream_, form, serving::not_known_yet());
    }
  }

 private:
  /// The console is told, once.
  void leave(Errc cause) {
    timer_.cancel();
    std::erase(owner_.live_, this);
    if (std::exchange(link_->request, nullptr) != nullptr) {
      owner_.params_.door.left(link_, cause);
    }
  }
  void look_again() {
    timer_.start(owner_.params_.recheck,
                 [this] { asks_.token != nullptr ? ask_who_it_is() : ask_rights(); });
  }
  void ask_who_it_is() {
    owner_.params_.token_reviews->authenticate(
        {}, asks_.token, stream_.peer(), "root",
        [alive = alive_](const Expected<std::optional<auth::UserInfo>>& who) {
          if (Linked* const self = *alive; self != nullptr && self->link_->request != nullptr) {
            self->take_user(who);
          }
        });
  }
  void take_user(const Expected<std::optional<auth::UserInfo>>& who) {
    const bool is_nobody = who ? *who != asks_.user : who.error().code() == Errc::kUnauthorized;
    if (is_nobody) {
      finish();
    } else if (!who) {
      take_rights(fail(who.error().clone()));
    } else {
      ask_rights();
    }
  }
  void ask_rights() {
    owner_.judge(asks_.user, asks_.names, asks_.cluster,
                 [alive = alive_](Expected<ViewerScope> now) {
                   if (Linked* const self = *alive; self != nullptr) {
                     self->take_rights(now);
                   }
                 });
  }
  void take_rights(const Expected<ViewerScope>& now) {
    if (link_->request == nullptr) {
      return;
    }
    unknown_ = now ? 0 : unknown_ + 1;
    if ((now && !(*now == scope_)) || unknown_ > kMostUnknown) {
      finish();
    } else {
      look_again();
    }
  }

  ConsoleRequests& owner_;
  http::ResponseStream& stream_;
  const ViewerScope scope_;
  const Asks asks_;
  std::shared_ptr<ConsoleLink> link_;
  net::Timer timer_;  ///< until the answer begins; then until rights are asked for again
  bool begun_ = false;
  int unknown_ = 0;
  std::shared_ptr<Linked*> alive_ = std::make_shared<Linked*>(this);
};

ConsoleRequests::ConsoleRequests(Params params) : params_(std::move(params)) {}

ConsoleRequests::~ConsoleRequests() = default;

void ConsoleRequests::judge(const auth::UserInfo& user, const std::vector<std::string_view>& names,
                            const std::string& cluster, Judged done) {
  struct Gather {
    ViewerScope scope;
    std::size_t left = 1;
    std::shared_ptr<const Error> error;
    Judged done;
    void end_one() {
      if (--left == 0) {
        done(error == nullptr ? Expected<ViewerScope>(std::move(scope)) : fail(error->clone()));
      }
    }
  };
  auto gather = std::make_shared<Gather>();
  gather->scope.user = user.name;
  gather->scope.groups = user.groups;
  gather->done = std::move(done);
  const auto ask = [&](const auth::Attributes& asked, auto grant) {
    ++gather->left;
    params_.authorizer.authorize(asked, [gather, grant](const Expected<auth::Decision>& decision) {
      if (!decision && decision.error().code() != Errc::kForbidden) {
        gather->error = std::make_shared<const Error>(decision.error().clone());
      } else if (decision && decision->allowed) {
        grant(gather->scope);
      }
      gather->end_one();
    });
  };
  const topology::Resolution found = cluster.empty()
                                         ? topology::Resolution()
                                         : topology::resolve(params_.view->current(), cluster);
  for (const std::string_view name : names) {
    ask(path_right(user, name), [name](ViewerScope& scope) { scope.full.emplace(name); });
    if (name == "shards") {
      ask(list_right(user, "root", "core.kcp.io", "shards"),
          [](ViewerScope& scope) { scope.lists_shards = true; });
    }
    const ObjectsOfView objects = objects_of_view(name);
    if (!objects.group.empty() && !cluster.empty() && found.resolved()) {
      ask(list_right(user, found.cluster, objects.group, objects.resource),
          [name, of = std::string(found.cluster)](ViewerScope& scope) {
            scope.cluster_of.emplace(name, of);
          });
    }
  }
  gather->end_one();
}

std::unique_ptr<http::RequestHandler> ConsoleRequests::on_request(Request&& request,
                                                                  http::ResponseStream& stream) {
  const http::RequestHead& head = request.head;
  const std::string target = head.target;
  const std::size_t question = std::min(target.find('?'), target.size());
  const std::string path = target.substr(0, question);
  if (auto page = answer_page(head, stream, path)) {
    return page;
  }
  const serving::ConnectionIdentity* identity = serving::identity_of(stream.peer());
  if (identity != nullptr && identity->refusal != nullptr) {
    return serving::answer_error(head, stream, *identity->refusal);
  }
  if (identity != nullptr && identity->user) {
    return show(*identity->user, nullptr, std::move(request), stream);
  }
  const auth::BearerPtr token = request.bearer();
  if (token == nullptr || params_.token_reviews == nullptr) {
    return serving::answer_error(head, stream, krm::unauthorized());
  }
  auto waiting = std::make_unique<serving::WaitingRequest>();
  auto held = std::make_shared<Request>(std::move(request));
  // Of the head nothing is shown: who it says that asks has not been stamped by anybody.
  params_.token_reviews->authenticate(
      {}, token, stream.peer(), "root",
      [this, alive = alive_.weak(), weak = waiting->weak(), held, token,
       &stream](const Expected<std::optional<auth::UserInfo>>& who) {
        serving::WaitingRequest* const self = *weak;
        if (!alive || self == nullptr || self->closed()) {
          return;
        }
        if (who && *who) {
          self->go_on(show(**who, token, std::move(*held), stream));
        } else {
          self->go_on(serving::answer_error(held->head, stream,
                                            who ? krm::unauthorized() : who.error().clone()));
        }
      });
  return waiting;
}

std::unique_ptr<http::RequestHandler> ConsoleRequests::show(const auth::UserInfo& user,
                                                            auth::BearerPtr token,
                                                            Request&& request,
                                                            http::ResponseStream& stream) {
  const http::RequestHead& head = request.head;
  const std::string target = head.target;
  const std::size_t question = std::min(target.find('?'), target.size());
  const std::string path = target.substr(0, question);
  if (auth::has_impersonation(head.headers)) {
    return serving::answer_error(
        head, stream, Error(Errc::kForbidden, "the console shows nothing to somebody else"));
  }
  const std::string name(console_name(path));
  if (!is_known(name) || !request.target.cluster.empty()) {
    return console_error(head, stream, 404, "there is no such part of the console");
  }
  const krm::Query query(std::string_view(target).substr(std::min(question + 1, target.size())));
  const std::string views(query.get("views").value_or(""));
  Linked::Asks asks{user, names_of(name, views), std::string(query.get("cluster").value_or("")),
                    name == kLive, std::move(token)};
  auto waiting = std::make_unique<serving::WaitingRequest>();
  auto held = std::make_shared<http::RequestHead>(std::move(request.head));
  judge(asks.user, asks.names, asks.cluster,
        [this, alive = alive_.weak(), weak = waiting->weak(), held, &stream, asks, views,
         name](Expected<ViewerScope> scope) {
          serving::WaitingRequest* const self = *weak;
          if (!alive || self == nullptr || self->closed()) {
            return;
          }
          if (!scope) {
            self->go_on(serving::answer_error(*held, stream, scope.error()));
            return;
          }
          const bool picks = name == kLive && views.empty();
          const auto hidden = std::find_if(
              asks.names.begin(), asks.names.end(),
              [&](std::string_view one) { return scope->sight(one) == Sight::kNothing; });
          if (name != "overview" && !picks && hidden != asks.names.end()) {
            self->go_on(serving::answer_error(*held, stream,
                                              auth::denied(path_right(asks.user, *hidden), {})));
            return;
          }
          if (picks) {
            held->target = live_target(*scope);
          }
          self->go_on(
              std::make_unique<Linked>(*this, std::move(*held), stream, std::move(*scope), asks));
        });
  return waiting;
}

void ConsoleRequests::end() {
  for (Linked* const one : std::vector<Linked*>(live_)) {
    one->finish();
  }
}

}  // namespace kintsugi::proxy
