#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "auth/authorizer.h"
#include "auth/user.h"

/// Constrained impersonation (KEP-5284): what has to be allowed so that a user can act as another
/// one, by the kind of user that is wanted.
namespace kintsugi::auth {

/// In the order in which they are tried.
enum class ModeName : std::uint8_t {
  kAssociatedNode,  ///< a ServiceAccount the node that it runs on
  kArbitraryNode,
  kServiceAccount,
  kUserInfo,  ///< other users, with groups, uid and extras
  kClassic    ///< the verb `impersonate`, whatever the request does
};

/// One question.
struct ModeStep {
  Attributes attributes;
  /// Allowed: so many of the steps behind it need not be asked. A denial counts for steps without.
  std::size_t spares = 0;
  /// Not asked but denied, for this reason.
  std::optional<std::string> fault = std::nullopt;
};

struct Mode {
  ModeName name;
  UserInfo user;                ///< the effective one
  std::vector<ModeStep> steps;  ///< all have to be allowed
  std::string constraint;       ///< the verb "impersonate:<mode>"; "" of the classic one
};

/// The modes that can give `wanted`; the classic one is always the last.
/// @param request what is to be done; its user is the requester.
[[nodiscard]] std::vector<Mode> impersonation_modes(const UserInfo& wanted,
                                                    const Attributes& request);

/// Which mode each of many users was allowed last; forgets those unused for longest.
class ModeMemory {
 public:
  static constexpr std::size_t kUsers = 10'000;
  explicit ModeMemory(std::size_t users = kUsers) : users_(users) {}
  [[nodiscard]] std::optional<ModeName> get(std::string_view user);
  void set(std::string_view user, ModeName mode);

 private:
  // By hash: another user's entry makes for another order only.
  struct Entry {
    std::size_t user;
    ModeName mode;
  };
  std::size_t users_;
  std::list<Entry> entries_;  // the last used one first
  std::unordered_map<std::size_t, std::list<Entry>::iterator> places_;
};

}  // namespace kintsugi::auth
