#include "auth/user_document.h"

#include <string>

namespace kintsugi::auth {

using krm::Json;

Json user_document(const UserInfo& user) {
  Json document = Json::object({{"username", Json(user.name)}});
  if (!user.uid.empty()) {
    document["uid"] = user.uid;
  }
  for (const std::string& group : user.groups) {
    document["groups"].push_back(Json(group));
  }
  for (const auto& [key, values] : user.extra) {
    Json& list = document.make({"extra", key});
    for (const std::string& value : values) {
      list.push_back(Json(value));
    }
  }
  return document;
}

}  // namespace kintsugi::auth
