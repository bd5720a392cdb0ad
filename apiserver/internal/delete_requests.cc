#include <algorithm>
#include <utility>

#include "apiserver/internal/decode.h"
#include "apiserver/internal/encode.h"
#include "apiserver/internal/handlers.h"
#include "apiserver/internal/pipeline.h"
#include "apiserver/internal/respond.h"
#include "apiserver/internal/selection.h"
#include "apiserver/internal/server_impl.h"
#include "apiserver/internal/versions.h"
#include "apiserver/internal/write_request.h"
#include "apiserver/keys.h"
#include "krm/protobuf.h"
#include "krm/status.h"
#include "krm/yaml.h"

namespace kintsugi::apiserver::internal {
namespace {

constexpr std::size_t kParallelDeletes = 16;

/// One DELETE of a collection: the list as it was, deleted item by item.
struct CollectionDelete : std::enable_shared_from_this<CollectionDelete> {
  CollectionDelete(RequestPtr for_request, Target what, DeleteOptions how, ObjectEncoder encode)
      : request(std::move(for_request)),
        target(std::move(what)),
        options(std::move(how)),
        encoder(std::move(encode)) {}

  RequestPtr request;
  Target target;
  DeleteOptions options;
  ObjectEncoder encoder;
  std::vector<std::pair<std::string, std::string>> objects;  ///< namespace, name
  std::string items;
  std::size_t next = 0;
  std::size_t running = 0;
  std::optional<Error> failure;
  std::optional<krm::Json> status;  ///< of the failure, where somebody else has worded it

  Expected<void> collect(const Selection& selection, std::size_t limit) {
    Expected<void> failed;
    const std::string prefix =
        collection_prefix(target.kind->storage_name, request->cluster, target.ns);
    const auto visit = [&](const store::EntryView& entry) {
      Candidate candidate(entry.key, entry.value, entry.modified);
      if (!selection.matches(candidate)) {
        return true;
      }
      if (limit != 0 && objects.size() == limit) {
        return false;
      }
      if (!objects.empty()) {
        items += ',';
      }
      objects.emplace_back(candidate.ns(), candidate.name());
      failed = encoder.append_item(items, entry.value, entry.modified);
      return failed.has_value();
    };
    const Expected<store::Revision> read = request->server.store().range({prefix, "", 0}, visit);
    if (!read) {
      return fail(read.error().clone());
    }
    return failed;
  }

  void run() {
    while (running < kParallelDeletes && next < objects.size() && !failure) {
      Target item = target;
      item.ns = objects[next].first;
      item.name = objects[next].second;
      ++next;
      ++running;
      const WriteOpPtr op = make_write_op(request, item, Delete{options, true});
      op->done = [self = shared_from_this(), raw = op.get()](Expected<WriteResult> result) {
        --self->running;
        pass_notes(*self->request, *raw);
        if (!result && result.error().code() != Errc::kNotFound && !self->failure) {
          self->failure = std::move(result.error());
          self->status = std::move(raw->notes.status);
        }
        // Later, so that a row of immediate answers does not pile up on the stack.
        self->request->server.loop().post([self] { self->run(); });
      };
      run_write(op);
    }
    if (running == 0 && (failure || next == objects.size()) && !answered) {
      answered = true;
      answer();
    }
  }

  void answer() {
    if (failure && status) {
      send_status(*request, krm::http_status(*failure), *status);
      return;
    }
    if (failure) {
      send_error(*request, *failure);
      return;
    }
    std::string text = encoder.list_head(request->server.store().current(), "", -1);
    if (!objects.empty()) {
      text += '[';
      text += items;
    }
    text += encoder.list_tail(objects.empty());
    send_json(*request, 200, std::move(text));
  }

  bool answered = false;
};

void start_collection_delete(const RequestPtr& request, const Target& target) {
  const std::optional<DeleteOptions> options = read_delete_options(request);
  if (!options) {
    return;
  }
  const Expected<ListOptions> list = parse_list_options(request->info.query, false);
  if (!list) {
    send_error(*request, list.error());
    return;
  }
  const store::Revision current = request->server.store().current();
  if (list->revision > current) {
    send_error(*request, version_too_large(list->revision, current));
    return;
  }
  Expected<SelectionPtr> selection = Selection::make(
      target.kind, *list, "", "", shown_by(request->view, request->cluster, *target.kind->def));
  if (!selection) {
    send_error(*request, selection.error());
    return;
  }
  const auto job = std::make_shared<CollectionDelete>(
      request, target, *options,
      ObjectEncoder(target.kind, request->form, IncludeObject::kMetadata));
  if (Expected<void> done = job->collect(**selection, static_cast<std::size_t>(list->limit));
      !done) {
    send_error(*request, done.error());
    return;
  }
  job->run();
}

Expected<krm::Json> parse_delete_body(BodyType type, std::string_view text) {
  Expected<krm::Json> body =
      type == BodyType::kYaml ? krm::parse_yaml(text, nullptr) : krm::Json::parse(text);
  if (!body) {
    return fail(krm::bad_request("couldn't get version/kind; json parse error: " +
                                 std::string(body.error().message())));
  }
  if (body->is_null()) {
    return krm::Json::object();
  }
  if (Expected<void> kind = check_type_meta(*body); !kind) {
    return fail(krm::bad_request(std::string(kind.error().message())));
  }
  return body;
}

bool accept_delete_body(const RequestPtr& request) {
  if (request->head.end_stream) {
    return true;
  }
  const BodyType type = body_type(request->header("content-type"), true);
  if (type == BodyType::kJson || type == BodyType::kYaml || type == BodyType::kProtobuf) {
    return true;
  }
  send_error(*request,
             Error(Errc::kUnsupportedMediaType,
                   "the body of the request was in an unknown format - accepted media types "
                   "include: application/json, application/yaml, "
                   "application/vnd.kubernetes.protobuf"));
  return false;
}

}  // namespace

std::optional<DeleteOptions> read_delete_options(const RequestPtr& request) {
  Expected<DeleteOptions> options = fail(Errc::kBadRequest);
  if (request->body.empty()) {
    options = parse_delete_options(request->info.query, nullptr);
  } else {
    const BodyType type = body_type(request->header("content-type"), true);
    Expected<krm::Json> body = fail(Errc::kBadRequest);
    if (type == BodyType::kProtobuf) {
      body = krm::decode_protobuf(request->body, "v1", "DeleteOptions");
    } else {
      body = parse_delete_body(type, request->body);
    }
    options = body ? parse_delete_options(request->info.query, &*body)
                   : Expected<DeleteOptions>(fail(std::move(body.error())));
  }
  if (!options) {
    send_error(*request, options.error());
    return std::nullopt;
  }
  return std::move(*options);
}

void handle_delete(const RequestPtr& request, const Target& target) {
  if (!negotiate_form(*request, *target.kind, false) || !accept_delete_body(request)) {
    return;
  }
  with_body(request, [request, target] {
    const std::optional<DeleteOptions> options = read_delete_options(request);
    if (options) {
      run_write(make_write_op(request, target, Delete{*options}));
    }
  });
}

void handle_delete_collection(const RequestPtr& request, const Target& target) {
  if (!negotiate_form(*request, *target.kind, true) || !accept_delete_body(request)) {
    return;
  }
  with_body(request, [request, target] { start_collection_delete(request, target); });
}

}  // namespace kintsugi::apiserver::internal
