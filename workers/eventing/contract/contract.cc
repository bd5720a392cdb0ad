#include "workers/eventing/contract/contract.h"

#include <algorithm>
#include <utility>

#include "workers/eventing/contract/internal/field_readers.h"
#include "workers/eventing/contract/internal/field_writers.h"

namespace kintsugi::workers {
namespace {

/// Above the deepest filter a contract has no more levels than this.
constexpr std::size_t kMaxJsonDepth = 16 + 4 * kMaxFilterDepth;

void sort_by_uid(Contract& contract) {
  const auto by_uid = [](const auto& a, const auto& b) { return a.uid < b.uid; };
  for (ContractResource& resource : contract.resources) {
    std::stable_sort(resource.egresses.begin(), resource.egresses.end(), by_uid);
  }
  std::stable_sort(contract.resources.begin(), contract.resources.end(), by_uid);
}

void keep(UnknownFields& fresh, const UnknownFields& old) {
  if (fresh.empty()) {
    fresh = old;
  }
}

template <class M>
void keep(std::optional<M>& fresh, const std::optional<M>& old) {
  if (fresh && old) {
    keep(fresh->unknown, old->unknown);
  }
}

template <class M>
const M* find_uid(const std::vector<M>& list, std::string_view uid) {
  const auto at = std::find_if(list.begin(), list.end(), [&](const M& m) { return m.uid == uid; });
  return at == list.end() ? nullptr : &*at;
}

void keep(Egress& fresh, const Egress& old) {
  keep(fresh.unknown, old.unknown);
  keep(fresh.egress_config, old.egress_config);
  keep(fresh.reference, old.reference);
  keep(fresh.feature_flags, old.feature_flags);
}

}  // namespace

std::string encode_contract(const Contract& contract, ContractFormat format) {
  Contract sorted = contract;
  sort_by_uid(sorted);
  return format == ContractFormat::kJson ? JsonFieldWriter::encode(sorted).dump()
                                         : WireFieldWriter::encode(sorted);
}

std::size_t encoded_size(const ContractResource& resource, ContractFormat format) {
  ContractResource copy = resource;
  if (format == ContractFormat::kJson) {
    return JsonFieldWriter::encode(copy).dump().size() + 1;
  }
  std::string field;
  krm::put_bytes(field, 2, WireFieldWriter::encode(copy));
  return field.size();
}

Expected<Contract> parse_contract(std::string_view bytes, ContractFormat* format) {
  if (bytes.size() > kMaxContractBytes) {
    return fail(Errc::kRequestEntityTooLarge,
                "a contract has at most " + std::to_string(kMaxContractBytes) +
                    " bytes, this has " + std::to_string(bytes.size()));
  }
  const bool json = bytes.starts_with('{');
  if (format != nullptr) {
    *format = json ? ContractFormat::kJson : ContractFormat::kProtobuf;
  }
  Contract out;
  ReadingPlace place;
  if (json) {
    krm::Json::ParseOptions options;
    options.max_depth = kMaxJsonDepth;
    const auto parsed = krm::Json::parse(bytes, options);
    if (!parsed) {
      return fail(Errc::kBadRequest, std::string(parsed.error().message()));
    }
    JsonFieldReader::parse(place, *parsed, out);
  } else {
    WireFieldReader::parse(place, bytes, out);
  }
  if (place.failed()) {
    return fail(Errc::kBadRequest, place.take_error());
  }
  sort_by_uid(out);
  return out;
}

bool same_content(const Contract& a, const Contract& b) {
  const auto content = [](const Contract& contract) {
    Contract out = contract;
    out.generation = out.epoch = 0;
    sort_by_uid(out);
    return out;
  };
  return content(a) == content(b);
}

void keep_unknown_fields(Contract& fresh, const Contract& old) {
  keep(fresh.unknown, old.unknown);
  for (ContractResource& resource : fresh.resources) {
    const ContractResource* const before = find_uid(old.resources, resource.uid);
    if (before == nullptr) {
      continue;
    }
    keep(resource.unknown, before->unknown);
    keep(resource.ingress, before->ingress);
    keep(resource.egress_config, before->egress_config);
    keep(resource.reference, before->reference);
    for (Egress& egress : resource.egresses) {
      if (const Egress* const was = find_uid(before->egresses, egress.uid)) {
        keep(egress, *was);
      }
    }
  }
}

}  // namespace kintsugi::workers
