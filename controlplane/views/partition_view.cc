#include "controlplane/views/partition_view.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "controlplane/internal/names.h"
#include "krm/status.h"

namespace kintsugi::controlplane {
namespace {

using krm::Json;

constexpr std::string_view kTopologyGroup = "topology.kcp.io";
constexpr std::string_view kNotes = "partitionnotes";
constexpr std::size_t kLongestSelector = 256UL << 10U;
constexpr std::size_t kLongestName = 253, kLongestSource = 64;

/// "" or what is wrong with it.
std::string note_fault(const Json& spec) {
  const std::string_view name = spec.text({"partition"});
  const std::size_t source = spec.text({"source"}).size();
  const Json* selector = spec.find("selector");
  const bool is_name =
      !name.empty() && name.size() <= kLongestName &&
      std::all_of(name.begin(), name.end(), [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.';
      });
  if (!is_name || source == 0 || source > kLongestSource) {
    return "partition and source are required";
  }
  if (selector != nullptr && !selector->is_object()) {
    return "the selector is no object";
  }
  return selector != nullptr && selector->dump().size() > kLongestSelector
             ? "the selector is too long"
             : "";
}

bool is_named(const apiserver::ObjectReader& reader, std::string_view cluster,
              std::string_view partition) {
  bool found = false;
  reader.list(cluster, kCacheGroup, kCachedSlices, "", [&](const Json& slice) {
    found = slice.text({"spec", "partition"}) == partition;
    return !found;
  });
  return found;
}

}  // namespace

NoteOutcome judge_note(const Json& spec, const std::optional<Json>& before) {
  const Json* gone = spec.find("gone");
  if (gone != nullptr && gone->is_bool() && gone->as_bool()) {
    return {before && before->text({"source"}) == spec.text({"source"}), std::nullopt};
  }
  Json fact = Json::object({{"source", spec.text({"source"})}});
  if (const Json* selector = spec.find("selector")) {
    fact["selector"] = *selector;
  }
  const bool same =
      before && before->text({"source"}) == fact.text({"source"}) &&
      (before->find("selector") != nullptr) == (fact.find("selector") != nullptr) &&
      (fact.find("selector") == nullptr || *before->find("selector") == *fact.find("selector"));
  return {!same, std::move(fact)};
}

AnsweringView::Answer answer_notes(ServerFacts& facts) {
  return [&facts](const apiserver::WriteContext& context, Json object,
                  const apiserver::Hooks::CreateDone& done) {
    const Json spec = object.find("spec") == nullptr ? Json::object() : *object.find("spec");
    const std::string partition(spec.text({"partition"}));
    if (std::string fault = note_fault(spec); !fault.empty()) {
      done(fail(krm::bad_request(std::move(fault))));
      return;
    }
    if (!is_named(context.reader, context.cluster, partition)) {
      done(fail(krm::not_found(kTopologyGroup, kNotes, partition)));
      return;
    }
    const apiserver::ObjectKey key{std::string(context.cluster), "", std::string(kPartitionFacts),
                                   "", partition};
    NoteOutcome outcome = judge_note(spec, facts.get(key));
    object.erase("spec");
    if (!outcome.writes) {
      done(std::move(object));
    } else if (!outcome.fact) {
      facts.erase(key);
      done(std::move(object));
    } else {
      facts.put(key, std::move(*outcome.fact), [object, done](bool stored) {
        if (stored) {
          done(object);
        } else {
          done(fail(Errc::kUnavailable, "the note could not be stored"));
        }
      });
    }
  };
}

}  // namespace kintsugi::controlplane
