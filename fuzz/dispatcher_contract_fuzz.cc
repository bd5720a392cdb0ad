// Contracts of dispatchers. What is read is the same when it is written and read again, and equal
// contracts have equal bytes.
#include <cstdint>
#include <string>
#include <string_view>

#include "fuzz/pieces.h"
#include "workers/eventing/contract/contract.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace kintsugi;           // NOLINT
  using namespace kintsugi::workers;  // NOLINT
  using fuzz::check;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  ContractFormat format = ContractFormat::kJson;
  const auto contract = parse_contract(bytes, &format);
  if (!contract) {
    check(!contract.error().message().empty());
    return 0;
  }
  const std::string written = encode_contract(*contract, format);
  if (written.size() <= kMaxContractBytes) {
    const auto again = parse_contract(written);
    check(again.has_value() && *again == *contract);
    check(encode_contract(*again, format) == written);
  }
  check(same_content(*contract, *contract));
  for (const ContractResource& resource : contract->resources) {
    check(encoded_size(resource, format) > 0);
    for (const Egress& egress : resource.egresses) {
      const auto judged = judge_egress(resource, egress);
      check(judged || !judged.error().message().empty());
    }
  }
  return 0;
}
