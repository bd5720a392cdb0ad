#include "proxy/forwarding/admission.h"

#include <optional>
#include <utility>

#include "auth/impersonation.h"
#include "base/strings.h"
#include "http/wire.h"
#include "krm/status.h"
#include "proxy/gates/impersonation_gate.h"
#include "serving/answer.h"
#include "serving/identity.h"
#include "serving/waiting_request.h"

namespace kintsugi::proxy {

Admission::Answer Admission::identify(Request& request, http::ResponseStream& stream,
                                      const MappingEntry* entry, std::string_view leads_to) const {
  http::RequestHead& head = request.head;
  if (params_.trusted && !params_.trusted()) {
    return serving::answer_error(head, stream, serving::not_known_yet());
  }
  const serving::ConnectionIdentity* identity = serving::identity_of(stream.peer());
  if (identity != nullptr && identity->refusal != nullptr) {
    return serving::answer_error(head, stream, *identity->refusal);
  }
  if (identity != nullptr && !identity->user) {
    stream.close_connection_after();
    return serving::answer_error(head, stream, krm::unauthorized());
  }
  if (!http::is_known_method(head.method)) {
    return serving::answer_error(head, stream, krm::method_not_allowed());
  }
  if (auth::has_impersonation(head.headers)) {
    if (serving::is_nobody(head, stream.peer())) {
      return serving::answer_error(head, stream, krm::unauthorized());  // AGG-1705
    }
    if (const auto error =
            judge_impersonation_of(request, identity, params_.view->current(), leads_to)) {
      return serving::answer_error(head, stream, *error);
    }
    auth::spell_impersonation(head.headers);
  }
  strip_internal_headers(head.headers);
  params_.stripped += auth::strip_identity_headers(
      head.headers, entry != nullptr ? entry->identity : params_.identity_headers);
  if (identity != nullptr && entry != nullptr && entry->own_names) {
    if (!auth::stamp_identity(head.headers, *identity->user, entry->identity)) {
      return serving::answer_error(head, stream, krm::unauthorized());
    }
  } else if (identity != nullptr) {
    for (std::size_t i = 0; i < identity->stamp.size(); ++i) {
      const http::HeaderView field = identity->stamp[i];
      head.headers.add(field.name, field.value);
    }
  }
  return nullptr;
}

Admission::Answer Admission::refuse_loop(const http::RequestHead& head,
                                         http::ResponseStream& stream, std::size_t most) const {
  std::size_t passes = 0;
  for (std::size_t i = 0; i < head.headers.size(); ++i) {
    const http::HeaderView field = head.headers[i];
    if (field.name == "via") {
      for (const std::string_view stop : split(field.value, ',')) {
        passes += trim(stop) == params_.via ? 1U : 0U;
      }
    }
  }
  return passes > most ? serving::answer_error(head, stream, serving::loop_detected()) : nullptr;
}

void Admission::add_forwarding_headers(http::RequestHead& head, const http::PeerInfo& peer) const {
  const std::string_view before = head.headers.get("x-forwarded-for");
  if (before.data() == nullptr) {
    head.headers.add("x-forwarded-for", peer.address);
  } else {
    head.headers.set("x-forwarded-for", std::string(before) + ", " + peer.address);
  }
  head.headers.add("via", params_.via);
}

Admission::Answer Admission::with_right_to(Request&& request, http::ResponseStream& stream,
                                           std::string path, Then then,
                                           std::optional<auth::UserInfo> who) const {
  auth::Attributes attributes;
  attributes.cluster = "root";
  attributes.is_resource = false;
  attributes.verb = to_lower(request.head.method);
  attributes.path = std::move(path);
  return with_right(std::move(request), stream, std::move(attributes), std::move(then),
                    std::move(who));
}

Admission::Answer Admission::with_right(Request&& request, http::ResponseStream& stream,
                                        auth::Attributes attributes, Then then,
                                        std::optional<auth::UserInfo> who) const {
  const serving::ConnectionIdentity* identity = serving::identity_of(stream.peer());
  attributes.user = who                                     ? std::move(*who)
                    : identity != nullptr && identity->user ? *identity->user
                                                            : auth::anonymous_user();
  auto waiting = std::make_unique<serving::WaitingRequest>();
  auto held = std::make_shared<Request>(std::move(request));
  params_.authorizer.authorize(attributes, [weak = waiting->weak(), held, attributes, &stream,
                                            then = std::move(then)](
                                               Expected<auth::Decision> decision) {
    serving::WaitingRequest* self = *weak;
    if (self == nullptr || self->closed()) {
      return;
    }
    if (!decision) {
      self->go_on(serving::answer_error(held->head, stream, decision.error()));
    } else if (!decision->allowed) {
      self->go_on(serving::answer_error(held->head, stream, auth::denied(attributes, *decision)));
    } else {
      self->go_on(then(std::move(*held)));
    }
  });
  return waiting;
}

}  // namespace kintsugi::proxy
