#pragma once

#include "apiserver/internal/request.h"
#include "apiserver/served_kind.h"

/// What route() sends requests to. Each answers, at once or later.
namespace kintsugi::apiserver::internal {

/// A request on a resource, understood.
struct Target {
  ServedKindPtr kind;
  std::string ns, name, subresource;
  const ResourceDef::ExtraSubresource* extra = nullptr;  ///< of *kind->def
};

void handle_get(const RequestPtr& request, const Target& target);
void handle_list(const RequestPtr& request, const Target& target);
void handle_watch(const RequestPtr& request, const Target& target);
void handle_create(const RequestPtr& request, const Target& target);
void handle_update(const RequestPtr& request, const Target& target);
void handle_patch(const RequestPtr& request, const Target& target);
void handle_delete(const RequestPtr& request, const Target& target);
void handle_delete_collection(const RequestPtr& request, const Target& target);
/// Virtual kinds and subresources with answers of their own.
void handle_answer(const RequestPtr& request, const Target& target);

/// /, /api, /apis and below, without a resource.
void handle_discovery(const RequestPtr& request);

/// Settles the form of the answer; answers 406 itself and returns false.
[[nodiscard]] bool negotiate_form(Request& request, const ServedKind& kind, bool is_list);

}  // namespace kintsugi::apiserver::internal
