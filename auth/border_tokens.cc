#include "auth/border_tokens.h"

#include <utility>

namespace kintsugi::auth {

void BorderTokens::authenticate_token(const BearerPtr& token,
                                      const std::vector<std::string>& audiences,
                                      std::string_view cluster, Done done) {
  inner_->authenticate_token(token, audiences, cluster,
                             [source = source_, rules = rules_,
                              done = std::move(done)](Expected<std::optional<Result>> result) {
                               if (result && *result) {
                                 UserInfo& user = (*result)->user;
                                 if (source == Source::kOthers && !rules.may_be_named(user.name)) {
                                   count_refused_user();
                                   done(fail(Errc::kUnauthorized, "a user name of the system"));
                                   return;
                                 }
                                 drop_reserved(user,
                                               source == Source::kOurs ? IdentityOrigin::kOwnToken
                                                                       : IdentityOrigin::kToken,
                                               false);
                               }
                               done(std::move(result));
                             });
}

}  // namespace kintsugi::auth
