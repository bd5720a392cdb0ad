#include "controlplane/controllers/owner_annotation.h"

#include "auth/user_document.h"
#include "controlplane/clusters/trust.h"
#include "krm/json.h"

namespace kintsugi::controlplane {

using krm::Json;

std::string owner_annotation(const auth::UserInfo& user) {
  const Json owner = clean_owner(auth::user_document(user));
  std::string out = "{\"username\":" + Json(owner.text({"username"})).dump();
  for (const char* member : {"uid", "groups", "extra"}) {
    if (const Json* value = owner.find(member)) {
      out.append(",\"").append(member).append("\":") += value->dump();
    }
  }
  return out + "}";
}

}  // namespace kintsugi::controlplane
