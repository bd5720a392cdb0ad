#include <algorithm>
#include <memory>
#include <utility>

#include "apiserver/internal/continue_token.h"
#include "apiserver/internal/encode.h"
#include "apiserver/internal/handlers.h"
#include "apiserver/internal/options.h"
#include "apiserver/internal/respond.h"
#include "apiserver/internal/selection.h"
#include "apiserver/internal/server_impl.h"
#include "apiserver/internal/versions.h"
#include "apiserver/keys.h"
#include "base/log.h"
#include "http/gzip.h"
#include "krm/status.h"

namespace kintsugi::apiserver::internal {
namespace {

constexpr std::size_t kBufferBytes = 256 * 1024;  ///< collected before a list is streamed
constexpr std::size_t kChunkBytes = 64 * 1024;    ///< read from the store at a time
constexpr std::size_t kQueueBytes = 256 * 1024;   ///< unsent before reading stops
constexpr std::size_t kScanBudget = 2'048;        ///< entries looked at in one step
constexpr std::size_t kConvertedAtOnce = 200;     ///< objects in one review of a webhook

constexpr std::string_view kInconsistent =
    "The provided continue parameter is too old to display a consistent list result. You can start "
    "a new list without the continue parameter, or use the continue token in this response to "
    "retrieve the remainder of the results. Continuing with the provided token results in an "
    "inconsistent list - objects that were created, modified, or deleted between the time the "
    "first chunk was returned and now may show up in the list.";

/// Everything about one list that does not change while it is read.
struct ListPlan {
  ListPlan(ObjectEncoder object_encoder, SelectionPtr what)
      : encoder(std::move(object_encoder)), selection(std::move(what)) {}
  ObjectEncoder encoder;
  SelectionPtr selection;
  std::string prefix;
  bool one_key = false;  ///< `prefix` is a whole key
  std::string start;
  store::Revision at = 0;
  std::size_t limit = 0;  ///< 0: none
  bool from_token = false;
  std::int64_t following = -1;  ///< objects from `start` on, if the token told
  std::string bound;            ///< bound_list(); "" where no token is made or was brought
  [[nodiscard]] std::string seal(const Server& server, const ContinueToken& token) const {
    return token.encode(server.token_keys(), bound);
  }
  /// Items of other versions are converted by a webhook before they are encoded.
  [[nodiscard]] bool converts() const noexcept { return encoder.kind()->def->webhook != nullptr; }
};

/// This turn of the loop has time for one more step of a list that takes many: others do not wait
/// for all of them (SE-005). The first that asks in a turn is always told so.
bool has_time(const net::Loop& loop) noexcept {
  constexpr Duration kSteps = milliseconds(1);
  thread_local TimePoint stepped_in{};
  const TimePoint turn = loop.now();
  return std::exchange(stepped_in, turn) != turn || Clock::now() - turn < kSteps;
}

/// Reads a list step by step: items into `out`.
class ListCursor {
 public:
  ListCursor(const store::Store& store, std::shared_ptr<const ListPlan> plan)
      : store_(store), plan_(std::move(plan)), next_(plan_->start) {}

  /// Appends items until `bytes` are in `out`, the budget is used up, or the page is full.
  Expected<void> read(std::string& out, std::size_t bytes) { return scan(&out, bytes); }
  /// Appends objects until there are `most`, the budget is used up, or the page is full.
  Expected<void> take(std::vector<krm::Json>& objects, std::size_t most) {
    return visit_page([&] { return objects.size() >= most; },
                      [&](const store::EntryView& entry) -> Expected<void> {
                        Expected<krm::Json> object =
                            plan_->encoder.kind()->decode(entry.value, entry.modified);
                        if (!object) {
                          return fail(std::move(object.error()));
                        }
                        objects.push_back(std::move(*object));
                        return {};
                      });
  }
  /// Only finds where the page ends.
  Expected<void> skip() { return scan(nullptr, 0); }

  [[nodiscard]] bool is_done() const noexcept { return done_; }
  /// The page is full and at least one more match follows.
  [[nodiscard]] bool has_more() const noexcept { return has_more_; }
  [[nodiscard]] std::size_t count() const noexcept { return count_; }
  /// First key after the last one that was taken.
  [[nodiscard]] const std::string& after_last() const noexcept { return after_last_; }

 private:
  Expected<void> scan(std::string* out, std::size_t bytes) {
    return visit_page([&] { return out != nullptr && out->size() >= bytes; },
                      [&](const store::EntryView& entry) -> Expected<void> {
                        if (out == nullptr) {
                          return {};
                        }
                        if (count_ != 0) {
                          *out += ',';
                        }
                        return plan_->encoder.append_item(*out, entry.value, entry.modified);
                      });
  }

  template <class Full, class Take>
  Expected<void> visit_page(Full is_full, Take take) {
    std::size_t budget = kScanBudget;
    Expected<void> failure;
    bool stopped = false;
    const auto visit = [&](const store::EntryView& entry) {
      if (plan_->one_key && entry.key != plan_->prefix) {
        return false;  // it would have come first
      }
      if (is_full() || budget == 0) {
        next_ = entry.key;
        stopped = true;
        return false;
      }
      --budget;
      Candidate candidate(entry.key, entry.value, entry.modified);
      if (!plan_->selection->matches(candidate)) {
        return true;
      }
      if (plan_->limit != 0 && count_ == plan_->limit) {
        has_more_ = true;
        return false;
      }
      failure = take(entry);
      if (!failure) {
        return false;
      }
      ++count_;
      after_last_.assign(entry.key);
      after_last_ += '\0';
      return true;
    };
    const Expected<store::Revision> read = store_.range({plan_->prefix, next_, plan_->at}, visit);
    if (!read) {
      return fail(read.error().clone());
    }
    done_ = !stopped;
    return failure;
  }

  const store::Store& store_;
  std::shared_ptr<const ListPlan> plan_;
  std::string next_;
  std::string after_last_;
  std::size_t count_ = 0;
  bool done_ = false;
  bool has_more_ = false;
};

/// Sends a list that is larger than the buffer, chunk by chunk at one revision.
class ListProducer final : public Producer {
 public:
  ListProducer(Exchange& exchange, Server& server, ListCursor cursor, std::string begun,
               std::string_view tail, bool gzip)
      : exchange_(exchange),
        server_(server),
        cursor_(std::move(cursor)),
        pending_(std::move(begun)),
        tail_(tail),
        alive_(std::make_shared<char>()) {
    if (gzip) {
      gzip_ = std::make_unique<http::Gzip>();
    }
  }

  void on_drained() noexcept override { produce(); }

  void produce() noexcept {
    http::ResponseStream& stream = exchange_.stream();
    while (!ended_ && stream.unsent_bytes() < kQueueBytes) {
      const bool had_bytes = !pending_.empty();
      if (!had_bytes) {
        if (const Expected<void> read = cursor_.read(pending_, kChunkBytes); !read) {
          log_warn("list ends early", {{"errc", errc_name(read.error().code())}});
          ended_ = true;
          stream.reset(Errc::kInternal);
          return;
        }
      }
      ended_ = !had_bytes && cursor_.is_done();
      if (ended_) {
        pending_ += tail_;
        pending_ += '\n';
      }
      send(stream);
      if (!ended_ && pending_.empty() && !had_bytes) {
        yield();
        return;
      }
    }
  }

 private:
  void send(http::ResponseStream& stream) {
    if (gzip_ != nullptr) {
      std::string packed;
      gzip_->write(pending_, ended_, packed);
      pending_ = std::move(packed);
    }
    if (!pending_.empty() || ended_) {
      stream.send_data(pending_, ended_);
    }
    pending_.clear();
  }

  /// Lets others in between two chunks; on_drained does not come when the queue never filled.
  void yield() {
    server_.loop().post([this, alive = std::weak_ptr<char>(alive_)] {
      if (alive.expired()) {
        return;
      }
      if (has_time(server_.loop())) {
        produce();
      } else {
        yield();
      }
    });
  }

  Exchange& exchange_;
  Server& server_;
  ListCursor cursor_;
  std::string pending_;
  std::string_view tail_;
  std::unique_ptr<http::Gzip> gzip_;
  std::shared_ptr<char> alive_;
  bool ended_ = false;
};

/// One list request while its beginning is collected.
struct ListJob : std::enable_shared_from_this<ListJob> {
  ListJob(RequestPtr for_request, std::shared_ptr<const ListPlan> what, ListCursor from)
      : request(std::move(for_request)), plan(std::move(what)), cursor(std::move(from)) {}

  RequestPtr request;
  std::shared_ptr<const ListPlan> plan;
  ListCursor cursor;
  std::string items;
  std::unique_ptr<ListCursor> ahead;  ///< looks for the page's end when the buffer is full
  std::string count_from;             ///< what follows the page is counted from here on
  std::int64_t remaining = -1;        ///< so far; -1: it is not counted
  CollectionSizes::Count counting;    ///< others are told what is counted here

  /// Formats other than JSON need the whole document.
  [[nodiscard]] bool needs_all() const {
    return request->form.format != Format::kJson || request->form.pretty || plan->converts();
  }

  void fail_with(const Error& error) {
    if (error.code() != Errc::kCompacted) {
      send_error(*request, error);
      return;
    }
    ErrorDetail detail;
    if (plan->from_token) {
      ContinueToken token;
      token.revision = -1;
      token.start = position_in(plan->encoder.kind()->storage_name,
                                std::string_view(plan->start).substr(0, plan->start.size() - 1));
      token.start += '\0';
      detail.message = kInconsistent;
      detail.continue_token = plan->seal(request->server, token);
    } else {
      detail.message = "The resourceVersion for the provided list is too old.";
    }
    send_error(*request, Error(Errc::kExpired, std::move(detail)));
  }

  void step() {
    if (request->is_gone()) {
      return;
    }
    if (plan->converts()) {
      collect_converted();
      return;
    }
    const Expected<void> done = ahead != nullptr ? ahead->skip() : collect();
    if (!done) {
      fail_with(done.error());
      return;
    }
    if (end().is_done()) {
      end_page();
    } else if (ahead == nullptr && items.size() >= kBufferBytes && !needs_all()) {
      if (plan->limit == 0) {
        stream(plan->encoder.list_head(plan->at, "", -1));
        return;
      }
      ahead = std::make_unique<ListCursor>(cursor);
      again();
    } else {
      again();
    }
  }

  Expected<void> collect() {
    return cursor.read(items, needs_all() ? items.size() + kChunkBytes : kBufferBytes);
  }

  /// One review per batch of the page.
  void collect_converted() {
    std::vector<krm::Json> objects;
    if (const Expected<void> done = cursor.take(objects, kConvertedAtOnce); !done) {
      fail_with(done.error());
      return;
    }
    request->server.conversions().convert(
        request->cluster, plan->encoder.kind(), std::move(objects),
        [self = shared_from_this()](Expected<std::vector<krm::Json>> converted) {
          if (self->request->is_gone()) {
            return;
          }
          if (!converted) {
            send_error(*self->request, converted.error());
            return;
          }
          for (krm::Json& object : *converted) {
            if (!self->items.empty()) {
              self->items += ',';
            }
            self->plan->encoder.append_item_object(self->items, std::move(object));
          }
          if (self->cursor.is_done()) {
            self->end_page();
          } else {
            self->collect_converted();
          }
        });
  }

  /// Where the page ends, once it is known.
  [[nodiscard]] const ListCursor& end() const noexcept {
    return ahead != nullptr ? *ahead : cursor;
  }

  void again() { in_a_later_turn(&ListJob::step); }

  /// In one that has time for it.
  void in_a_later_turn(void (ListJob::*go_on)()) {
    request->server.loop().post([self = shared_from_this(), go_on] {
      if (self->request->is_gone()) {
        return;
      }
      if (has_time(self->request->server.loop())) {
        (self.get()->*go_on)();
      } else {
        self->in_a_later_turn(go_on);
      }
    });
  }

  void end_page() {
    if (!end().has_more() || !plan->selection->is_all()) {
      finish();
      return;
    }
    CollectionSizes& sizes = hub().sizes();
    if (!plan->from_token && plan->at > hub().applied() && sizes.knows(plan->prefix)) {
      in_a_later_turn(&ListJob::end_page);  // until the changes are told
      return;
    }
    if (const std::optional<std::int64_t> size = known_size()) {
      remaining = std::max<std::int64_t>(0, *size - static_cast<std::int64_t>(end().count()));
      finish();
      return;
    }
    if (!plan->from_token && plan->at >= hub().applied()) {
      counting = sizes.begin(plan->prefix, plan->at);
    }
    remaining = 0;
    count_from = end().after_last();
    count();
  }

  [[nodiscard]] WatchHub& hub() noexcept { return request->server.hub(); }

  /// Of what this page begins; nullopt: it is to be counted.
  [[nodiscard]] std::optional<std::int64_t> known_size() {
    if (plan->from_token) {
      return plan->following < 0 ? std::nullopt : std::optional(plan->following);
    }
    return hub().sizes().at(plan->prefix, plan->at);
  }

  /// What follows may be a million objects.
  void count() {
    std::size_t budget = kScanBudget;
    bool stopped = false;
    const auto visit = [&](const store::EntryView& entry) {
      stopped = budget == 0;
      if (stopped) {
        count_from = entry.key;
        return false;
      }
      --budget;
      ++remaining;
      return true;
    };
    if (!request->server.store().range({plan->prefix, count_from, plan->at}, visit)) {
      remaining = -1;
      finish();
    } else if (stopped) {
      in_a_later_turn(&ListJob::count);
    } else {
      hub().sizes().end(plan->prefix, counting,
                        remaining + static_cast<std::int64_t>(end().count()));
      finish();
    }
  }

  void finish() {
    std::string token_text;
    if (end().has_more()) {
      ContinueToken token;
      token.revision = static_cast<std::int64_t>(plan->at);
      const std::string& next = end().after_last();
      token.start = position_in(plan->encoder.kind()->storage_name,
                                std::string_view(next).substr(0, next.size() - 1));
      token.start += '\0';
      token.following = remaining;
      token_text = plan->seal(request->server, token);
    }
    std::string text = plan->encoder.list_head(plan->at, token_text, remaining);
    if (ahead != nullptr) {
      stream(std::move(text));
      return;
    }
    if (cursor.count() != 0) {
      text += '[';
      text += items;
    }
    text += plan->encoder.list_tail(cursor.count() == 0);
    send_json(*request, 200, std::move(text));
  }

  void stream(std::string head) {
    http::HeaderList headers = answer_headers(*request, content_type(Format::kJson));
    const bool gzip = http::accepts_gzip(request->header("accept-encoding"));
    if (gzip) {
      headers.add("content-encoding", "gzip");
      headers.add("vary", "Accept-Encoding");
    }
    head += '[';
    head += items;
    Exchange& exchange = *request->exchange;
    auto producer = std::make_unique<ListProducer>(exchange, request->server, std::move(cursor),
                                                   std::move(head), "]}", gzip);
    ListProducer& running = *producer;
    send_stream(*request, std::move(headers), std::move(producer));
    running.produce();
  }
};

/// The revision that the list shows (AM-264).
Expected<store::Revision> list_revision(const ListOptions& options, const store::Store& store) {
  const store::Revision current = store.current();
  if (options.revision > current) {
    return fail(version_too_large(options.revision, current));
  }
  const bool exact =
      options.match == VersionMatch::kExact ||
      (options.match == VersionMatch::kUnset && options.revision != 0 && options.limit != 0);
  return exact ? options.revision : current;
}

/// Position and revision of a continue token.
Expected<void> apply_token(const ListOptions& options, const ServedKind& kind, Server& server,
                           ListPlan& plan) {
  const store::Store& store = server.store();
  Expected<ContinueToken> token =
      ContinueToken::decode(options.continue_token, server.token_keys(), plan.bound);
  if (!token) {
    return fail(std::move(token.error()));
  }
  if (token->start.back() == '\0') {
    token->start.pop_back();
  }
  std::optional<std::string> key = key_at(kind.storage_name, token->start);
  if (!key) {
    return fail(krm::bad_request("invalid continue token: continue key is not valid: start"));
  }
  *key += '\0';
  plan.start = std::max(plan.prefix, *key);
  plan.from_token = true;
  plan.at = store.current();
  plan.following = token->following;
  if (token->revision > 0) {
    const auto asked = static_cast<store::Revision>(token->revision);
    if (asked > plan.at) {
      return fail(version_too_large(asked, plan.at));
    }
    plan.at = asked;
  }
  return {};
}

}  // namespace

void handle_list(const RequestPtr& request, const Target& target) {
  if (!negotiate_form(*request, *target.kind, true)) {
    return;
  }
  const Expected<ListOptions> options = parse_list_options(request->info.query, false);
  if (!options) {
    send_error(*request, options.error());
    return;
  }
  const Expected<IncludeObject> include =
      parse_include_object(request->info.query.get("includeObject"));
  if (!include) {
    send_error(*request, include.error());
    return;
  }
  const bool wildcard = request->cluster == "*";
  Shown shown = shown_by(request->view, request->cluster, *target.kind->def);
  const std::string key_name(shown.key_name(target.name).value_or(std::string_view()));
  Expected<SelectionPtr> selection = Selection::make(
      target.kind, *options, wildcard ? std::string_view(target.ns) : std::string_view(), "",
      std::move(shown));
  if (!selection) {
    send_error(*request, selection.error());
    return;
  }
  store::Store& store = request->server.store();
  auto plan = std::make_shared<ListPlan>(ObjectEncoder(target.kind, request->form, *include),
                                         std::move(*selection));
  plan->prefix = collection_prefix(target.kind->storage_name, request->cluster, target.ns);
  if (!key_name.empty() && !wildcard && (!target.kind->def->namespaced || !target.ns.empty())) {
    if (auto key = object_key(target.kind->storage_name, request->cluster, target.ns, key_name)) {
      plan->prefix = std::move(*key);
      plan->one_key = true;
    }
  }
  if (options->resource_version != "0") {
    plan->limit = static_cast<std::size_t>(options->limit);
  }
  if (plan->limit != 0 || !options->continue_token.empty()) {
    plan->bound = bound_list(*request, target.ns, *options);
  }
  if (options->continue_token.empty()) {
    const Expected<store::Revision> at = list_revision(*options, store);
    if (!at) {
      send_error(*request, at.error());
      return;
    }
    plan->at = *at;
  } else if (Expected<void> done = apply_token(*options, *target.kind, request->server, *plan);
             !done) {
    send_error(*request, done.error());
    return;
  }
  std::make_shared<ListJob>(request, plan, ListCursor(store, plan))->step();
}

}  // namespace kintsugi::apiserver::internal
