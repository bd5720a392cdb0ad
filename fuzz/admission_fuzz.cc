// An expression of an admission policy over a fixed request: whatever compiles also evaluates
// within its limits, twice the same.
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "cel/admission.h"

using kintsugi::cel::AdmissionEnvironment;
using kintsugi::cel::AdmissionEvaluation;
using kintsugi::cel::AdmissionInput;
using kintsugi::cel::AdmissionResult;
using kintsugi::krm::Json;

namespace {

constexpr std::string_view kObject = R"json({"apiVersion": "v1", "kind": "Thing",
  "metadata": {"name": "a", "labels": {"x": "1", "a/b-c": "2"}, "creationTimestamp": null},
  "spec": {"i": 5, "big": 123456789012345678901234567890, "d": 2.5, "b": true, "s": "hello",
           "l": [3, "1", null, {"k": []}], "m": {"k": "v"}, "namespace": "n"}})json";
constexpr std::string_view kRequest = R"json({"operation": "UPDATE", "name": "a", "namespace": "ns",
  "kind": {"group": "", "version": "v1", "kind": "Thing"}, "dryRun": false,
  "userInfo": {"username": "u", "groups": ["g", "h"], "extra": {"k": ["v"]}}})json";

class Oracle final : public kintsugi::cel::AccessOracle {
 public:
  std::optional<kintsugi::cel::AccessAnswer> ask(
      const kintsugi::cel::AccessQuestion& question) override {
    if (question.verb == "wait") {
      return std::nullopt;
    }
    return kintsugi::cel::AccessAnswer{question.verb == "get", "because", ""};
  }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Json object = *Json::parse(kObject);
  static const Json request = *Json::parse(kRequest);
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const kintsugi::cel::ExpressionScope scope{true, true};
  AdmissionEnvironment environment(true);
  (void)environment.add_variable("spec", "object.spec", scope);
  (void)environment.add_variable("twice", "[variables.spec.i, 2 * variables.spec.i]", scope);
  (void)environment.add_variable("bad", "object.none", scope);
  (void)environment.add_variable("own", text, scope);
  kintsugi::cel::ExpressionFault fault;
  const auto compiled = environment.compile(text, kintsugi::cel::ResultType::kAny, scope, fault);
  if (compiled == nullptr) {
    return 0;
  }
  Oracle oracle;
  AdmissionInput input;
  input.object = &object;
  input.request = &request;
  input.authorizer = &oracle;
  const AdmissionResult first = AdmissionEvaluation(environment, input).evaluate(*compiled);
  const AdmissionResult second = AdmissionEvaluation(environment, input).evaluate(*compiled);
  if (first.cost != second.cost || first.kind != second.kind) {
    std::abort();
  }
  return 0;
}
