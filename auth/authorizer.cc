#include "auth/authorizer.h"

#include <string>
#include <utility>

#include "krm/go_text.h"

namespace kintsugi::auth {
namespace {

/// Messages may end in a browser.
std::string without_markup(const std::string& text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

}  // namespace

Error denied(const Attributes& attributes, const Decision& decision) {
  std::string text = "User " + krm::go_quote(attributes.user.name) + " cannot " + attributes.verb;
  if (!attributes.is_resource) {
    text += " path " + krm::go_quote(attributes.path);
  } else {
    std::string resource = attributes.resource;
    if (!attributes.subresource.empty()) {
      resource += "/" + attributes.subresource;
    }
    text +=
        " resource " + krm::go_quote(resource) + " in API group " + krm::go_quote(attributes.group);
    text += attributes.ns.empty() ? " at the cluster scope"
                                  : " in the namespace " + krm::go_quote(attributes.ns);
  }
  text = without_markup(text);
  if (!decision.reason.empty()) {
    text += ": " + decision.reason;
  }

  ErrorDetail detail;
  if (!attributes.is_resource) {
    detail.message = "forbidden: " + text;
    return Error(Errc::kForbidden, std::move(detail));
  }
  detail.kind = attributes.resource;
  detail.group = attributes.group;
  detail.name = attributes.name;
  detail.message = attributes.resource;
  if (!attributes.group.empty()) {
    detail.message += "." + attributes.group;
  }
  if (!attributes.name.empty()) {
    detail.message += " " + krm::go_quote(attributes.name);
  }
  detail.message += " is forbidden: " + text;
  return Error(Errc::kForbidden, std::move(detail));
}

}  // namespace kintsugi::auth
