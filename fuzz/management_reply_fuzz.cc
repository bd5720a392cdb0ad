// Answers of routers and brokers, as {"properties":…,"body":…}: whatever they say, readers give
// what their contracts allow.
#include <cstdint>
#include <string>
#include <string_view>

#include "base/strings.h"
#include "fuzz/pieces.h"
#include "workers/messaging/wire/management.h"

namespace {

using namespace kintsugi;           // NOLINT
using namespace kintsugi::workers;  // NOLINT

void check_text(std::string_view text) {
  fuzz::check(text.size() <= 512 && is_valid_utf8(text));
  for (const char each : text) {
    fuzz::check(static_cast<unsigned char>(each) >= 0x20 && each != 0x7F);
  }
}

DesiredEntity entity_of(EntityKind kind) {
  return {kind,
          "q",
          {{"address", std::string("q")},
           {"routing-type", std::string("ANYCAST")},
           {"max-consumers", std::int64_t{-1}},
           {"durable", true},
           {"hostname", std::string("h")},
           {"saslPassword", std::string("hush")},
           {"groups", Attributes{{"$default", Attributes{{"sources", std::string("*")}}}}}}};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  auto input = krm::Json::parse(std::string_view(reinterpret_cast<const char*>(data), size));
  if (!input) {
    return 0;
  }
  ManagementReply reply;
  if (krm::Json* properties = input->find("properties")) {
    reply.properties = std::move(*properties);
  }
  if (krm::Json* body = input->find("body")) {
    reply.body = std::move(*body);
  }
  for (int i = 0; i <= static_cast<int>(EntityKind::kDivert); ++i) {
    const DesiredEntity entity = entity_of(static_cast<EntityKind>(i));
    for (const Operation operation :
         {Operation::kCreate, Operation::kRead, Operation::kUpdate, Operation::kDelete}) {
      const EntityOutcome out = entity_outcome(operation, entity, reply);
      check_text(out.text);
      fuzz::check(out.body.is_null() || out.body.is_object());
      fuzz::check(out.body.find("saslPassword") == nullptr || router_type(entity.kind).empty());
      fuzz::check(out.verdict != Verdict::kMalformed || !out.text.empty());
      fuzz::check(out.verdict != Verdict::kExists || operation == Operation::kCreate);
      fuzz::check(out.verdict != Verdict::kMissing || operation != Operation::kCreate);
      fuzz::check(out.verdict != Verdict::kBlocked || operation == Operation::kDelete);
    }
    check_text(link_status(entity.kind, reply.body).message);
  }
  (void)queue_differs(entity_of(EntityKind::kQueue), reply.body);
  if (const auto page = query_page(reply)) {
    for (const krm::Json& row : page->rows) {
      fuzz::check(row.size() == page->columns.size());
    }
    fuzz::check(page->rows.size() <= 1 ||
                static_cast<std::int64_t>(page->rows.size()) <=
                    (60'000 / (1 + static_cast<std::int64_t>(page->columns.size()))));
  } else {
    fuzz::check(!page.error().message().empty());
  }
  if (const auto counters = router_counters(reply)) {
    check_text(counters->id);
    fuzz::check(counters->uptime_seconds >= 0);
  }
  if (const auto value = broker_value(reply); !value) {
    check_text(value.error().message());
  }
  if (const auto page = list_queues_page(reply)) {
    fuzz::check(page->count >= 0);
  }
  (void)is_supported_broker(reply.body.as_string());
  return 0;
}
