#include <array>
#include <memory>
#include <string>
#include <utility>

#include "cel/internal/authorizer.h"
#include "cel/internal/functions.h"
#include "krm/names.h"

namespace kintsugi::cel {

namespace {

/// Authorizer, PathCheck, GroupCheck and ResourceCheck: a question that is being put together.
struct Check final : Opaque {
  Check(std::string_view name, AccessOracle& who, AccessQuestion what)
      : Opaque(name), oracle(who), question(std::move(what)) {}
  [[nodiscard]] bool equals(const Opaque& other) const override { return this == &other; }
  AccessOracle& oracle;
  AccessQuestion question;
};

struct DecisionValue final : Opaque {
  explicit DecisionValue(AccessAnswer given) : Opaque(kDecisionType), answer(std::move(given)) {}
  [[nodiscard]] bool equals(const Opaque& other) const override { return this == &other; }
  AccessAnswer answer;
};

const Check& check_of(const Args& args) { return static_cast<const Check&>(*args[0].opaque()); }

Value make(std::string_view type, AccessOracle& oracle, AccessQuestion question) {
  return Value::opaque(std::make_shared<const Check>(type, oracle, std::move(question)));
}

bool is_blank(std::string_view text) {
  return text.find_first_not_of(" \t\r\n\v\f") == std::string_view::npos;
}

/// The receiver's question with one more member, as a check of the given type.
template <std::string AccessQuestion::*kMember>
Value with(const Args& args, std::string_view type) {
  AccessQuestion question = check_of(args).question;
  question.*kMember = std::string(args[1].text());
  return make(type, check_of(args).oracle, std::move(question));
}

Value path(const Args& args) {
  return is_blank(args[1].text()) ? Value::error("path must not be empty")
                                  : with<&AccessQuestion::path>(args, kPathCheckType);
}
Value group(const Args& args) { return with<&AccessQuestion::group>(args, kGroupCheckType); }
Value service_account(const Args& args) {
  if (!krm::check_dns1123_subdomain(args[2].text()).empty()) {
    return Value::error("Invalid service account name");
  }
  if (!krm::check_dns1123_label(args[1].text()).empty()) {
    return Value::error("Invalid service account namespace");
  }
  AccessQuestion question;
  question.account_namespace = args[1].text();
  question.account = args[2].text();
  return make(kAuthorizerType, check_of(args).oracle, std::move(question));
}
Value resource(const Args& args) {
  return is_blank(args[1].text()) ? Value::error("resource must not be empty")
                                  : with<&AccessQuestion::resource>(args, kResourceCheckType);
}
template <std::string AccessQuestion::*kMember>
Value refine(const Args& args) {
  return with<kMember>(args, kResourceCheckType);
}

Value check(const Args& args) {
  AccessQuestion question = check_of(args).question;
  question.verb = args[1].text();
  std::optional<AccessAnswer> answer = check_of(args).oracle.ask(question);
  return answer ? Value::opaque(std::make_shared<const DecisionValue>(std::move(*answer)))
                : Value::error("the authorizer has not answered yet");
}

const AccessAnswer& answer_of(const Args& args) {
  return static_cast<const DecisionValue&>(*args[0].opaque()).answer;
}
Value allowed(const Args& args) { return Value::boolean(answer_of(args).allowed); }
Value errored(const Args& args) { return Value::boolean(!answer_of(args).error.empty()); }
Value error(const Args& args) { return Value::string(answer_of(args).error); }
Value reason(const Args& args) { return Value::string(answer_of(args).reason); }

constexpr auto kRows = std::array{
    OverloadRow{"path", "authorizer_path", "#authorizer.(string) -> #path", path},
    OverloadRow{"group", "authorizer_group", "#authorizer.(string) -> #group", group},
    OverloadRow{"serviceAccount", "authorizer_serviceaccount",
                "#authorizer.(string, string) -> #authorizer", service_account},
    OverloadRow{"resource", "groupcheck_resource", "#group.(string) -> #resource", resource},
    OverloadRow{"subresource", "resourcecheck_subresource", "#resource.(string) -> #resource",
                refine<&AccessQuestion::subresource>},
    OverloadRow{"namespace", "resourcecheck_namespace", "#resource.(string) -> #resource",
                refine<&AccessQuestion::ns>},
    OverloadRow{"name", "resourcecheck_name", "#resource.(string) -> #resource",
                refine<&AccessQuestion::name>},
    OverloadRow{"fieldSelector", "authorizer_fieldselector", "#resource.(string) -> #resource",
                refine<&AccessQuestion::field_selector>},
    OverloadRow{"labelSelector", "authorizer_labelselector", "#resource.(string) -> #resource",
                refine<&AccessQuestion::label_selector>},
    OverloadRow{"check", "pathcheck_check", "#path.(string) -> #decision", check},
    OverloadRow{"check", "resourcecheck_check", "#resource.(string) -> #decision", check},
    OverloadRow{"errored", "decision_errored", "#decision.() -> bool", errored},
    OverloadRow{"error", "decision_error", "#decision.() -> string", error},
    OverloadRow{"allowed", "decision_allowed", "#decision.() -> bool", allowed},
    OverloadRow{"reason", "decision_reason", "#decision.() -> string", reason},
};

}  // namespace

Value authorizer_value(AccessOracle& oracle) { return make(kAuthorizerType, oracle, {}); }

Value resource_check_value(AccessOracle& oracle, AccessQuestion question) {
  return make(kResourceCheckType, oracle, std::move(question));
}

std::span<const OverloadRow> authorizer_rows() { return kRows; }

}  // namespace kintsugi::cel
