#include "workers/delivery/agent/client_agent.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/digest.h"
#include "base/log.h"
#include "workers/delivery/protocol/topics.h"

namespace kintsugi::workers {
namespace {

constexpr JournalTable kTable = 0;
constexpr std::string_view kRecordRow = "s/", kManifestRow = "m/", kRefusalRow = "r/";
constexpr Duration kLeastRest = seconds(1), kMostRest = seconds(60), kCredentialsRest = seconds(30),
                   kTakenOverRest = seconds(15);
constexpr std::uint64_t kEpochFactor = std::uint64_t{1} << 32U;

DeliveryStatus status_of(const RefusalRecord& refusal) {
  return reconciled_status(false, refusal.reason, refusal.message, nullptr);
}

}  // namespace

DeliveryClient parse_delivery_client(const std::string& text) {
  const std::size_t equals = text.rfind('=');
  if (equals == std::string::npos) {
    return {};
  }
  return {text.substr(0, equals), text.substr(equals + 1)};
}

ClientAgent::ClientAgent(net::Loop& loop, JournalKeeper& journal, Params params, Hooks hooks)
    : loop_(loop),
      journal_(journal),
      params_(std::move(params)),
      hooks_(std::move(hooks)),
      outbox_({.per_second = params_.config.status_rate}),
      reconnect_(loop),
      pump_(loop),
      random_(static_cast<std::minstd_rand::result_type>(params_.seed | 1U)) {
  if (params_.config.resync) {
    AgentResync::Hooks own;
    own.orders = [this] { return orders(); };
    own.send = [this](const std::string& batch) { send_list(batch); };
    own.tell_again = [this](const std::string& uid) { tell_again(uid); };
    own.statuses = [this](std::string_view prefix) { return statuses(prefix); };
    resync_ = std::make_unique<AgentResync>(loop, std::move(own));
  }
}

ClientAgent::~ClientAgent() { close(); }

JournalKey ClientAgent::key(const std::string& name) const {
  return {params_.client.cluster, params_.client.id, name};
}

bool ClientAgent::is_kept(std::string_view row) noexcept {
  return row.starts_with(kRecordRow) || row.starts_with(kRefusalRow);
}

void ClientAgent::open(std::uint32_t epoch, bool journal_holds, const Rows& rows) {
  if (open_) {
    return;
  }
  open_ = true;
  epoch_ = epoch;
  sequence_ = 0;
  asked_ = false;
  for (const auto& [row, text] : rows) {
    const std::string uid = row.substr(kRecordRow.size());
    if (row.starts_with(kRefusalRow)) {
      if (auto refusal = RefusalRecord::decode(text); refusal && journal_holds) {
        refusals_[uid] = std::move(*refusal);
      } else {
        (void)erase(uid);
      }
      continue;
    }
    auto record = ManifestRecord::decode(text);
    if (!record || !journal_holds) {
      (void)erase(uid);  // another process went on with it, and what is retained comes again
      continue;
    }
    const ManifestRecord& kept = records_[uid] = std::move(*record);
    hooks_.changed(uid, nullptr, &kept);
    hooks_.look(uid);
  }
  for (const auto& [uid, refusal] : refusals_) {
    if (!refusal.told) {
      give_out(uid, refusal);
    }
  }
  connect();
}

void ClientAgent::close() {
  open_ = false;
  alive_.renew();
  reconnect_.cancel();
  pump_.cancel();
  if (session_ != nullptr) {
    session_->close();
    loop_.defer([gone = std::shared_ptr<MqttSession>(std::move(session_))] {});
  }
  outbox_.lost();
  for (const auto& [uid, record] : records_) {
    hooks_.changed(uid, &record, nullptr);
  }
  records_.clear();
  refusals_.clear();
  if (resync_ != nullptr) {
    resync_->stop();
  }
}

void ClientAgent::connect() {
  unwritten_ = false;
  MqttParams params;
  params.broker = params_.broker.url;
  params.tls = params_.broker.tls;
  params.client_id = params_.client.id;
  params.user = params_.broker.user;
  params.password = Secret(std::string(params_.broker.password));
  params.max_packet = static_cast<std::uint32_t>(params_.config.max_packet_bytes);
  params.folder = params_.folder;
  params.may_acknowledge = [this] {
    return !unwritten_ && journal_.use().state() == JournalState::kReady;
  };
  MqttSession::Callbacks callbacks;
  callbacks.on_connected = [this](bool present) { on_connected(present); };
  callbacks.on_subscribed = [this] {
    if (unsubscribed_ > 0 && --unsubscribed_ == 0) {
      trouble_.clear();
      if (resync_ != nullptr) {
        resync_->begin();
      }
    }
  };
  callbacks.on_message = [this](const MqttMessage& message) { on_message(message); };
  callbacks.on_acknowledged = [this](int id, int reason) {
    const bool accepted = reason < 128;
    counts_.published += accepted ? 1 : 0;
    counts_.refused_by_broker += accepted ? 0 : 1;
    if (!accepted) {
      refusal_ = "the broker refuses statuses: reason " + std::to_string(reason);
    }
    on_acknowledged(outbox_.acknowledged(id, accepted, loop_.now()));
    pump();
  };
  callbacks.on_ended = [this](const MqttEnd& end) { on_ended(end); };
  session_ = std::make_unique<MqttSession>(loop_, std::move(params), std::move(callbacks));
}

void ClientAgent::on_connected(bool present) {
  failures_ = 0;
  trouble_.clear();
  ++counts_.connects;
  log_info("connected to the broker",
           {{"client", params_.client.id}, {"session", present ? "kept" : "new"}});
  // What was retained while another process had the session is not in it.
  if (!present || !asked_) {
    asked_ = true;
    unsubscribed_ = params_.config.prefixes.size();
    trouble_ = "the broker has not confirmed the subscription";
    for (const std::string& prefix : params_.config.prefixes) {
      session_->subscribe(content_filter(prefix, params_.client.id));
    }
  }
  pump();
}

void ClientAgent::on_ended(const MqttEnd& end) {
  trouble_ = end.why;
  asked_ = asked_ && unsubscribed_ == 0;
  outbox_.lost();
  if (resync_ != nullptr) {
    resync_->stop();
  }
  log_warn("no connection to the broker", {{"client", params_.client.id}, {"err", end.why}});
  std::shared_ptr<MqttSession> gone(std::move(session_));
  loop_.defer([gone = std::move(gone)] {});
  Duration rest = std::min(kLeastRest * (1U << std::min(failures_, 6U)), kMostRest);
  ++failures_;
  if (end.refused_credentials()) {
    rest = std::max(rest, kCredentialsRest);
  } else if (end.taken_over()) {
    rest = std::max(rest, kTakenOverRest);
  }
  const auto jitter = static_cast<double>(random_() % 1'000) / 1'000.0;
  rest += std::chrono::duration_cast<Duration>(rest * (jitter / 2));
  reconnect_.start(std::min(rest, kMostRest), [this] { connect(); });
}

void ClientAgent::on_message(const MqttMessage& message) {
  const auto topic = parse_delivery_topic(message.topic, params_.config.prefixes);
  if (!topic || topic->client != params_.client.id || topic->leaf != "content") {
    ++counts_.ignored;
    return;
  }
  if (delivery_codec(message.content_type) == DeliveryCodec::kJsonGzip) {
    hub_packs_ = true;
  }
  if (is_reserved_uid(topic->uid)) {
    return take_list(*topic, message);
  }
  if (resync_ != nullptr) {
    resync_->heard();
  }
  if (message.payload.empty()) {
    if (records_.find(topic->uid) != records_.end() ||
        refusals_.find(topic->uid) != refusals_.end()) {
      forget(std::string(topic->uid));
    }
    return;
  }
  order(*topic, message);
}

void ClientAgent::order(const DeliveryTopic& topic, const MqttMessage& message) {
  ResourceMessageBounds bounds;
  bounds.manifest_bytes = params_.config.max_manifest_bytes;
  auto parsed = parse_resource_message(message.content_type, message.payload, topic.uid, bounds);
  std::string hash = sha256_hex(message.payload);
  if (!parsed) {
    return refuse(topic, parsed.error(), std::move(hash));
  }
  const std::string uid(topic.uid);
  const auto known = records_.find(uid);
  const ManifestRecord* const before = known == records_.end() ? nullptr : &known->second;
  if (parsed->bare) {
    if (before == nullptr) {
      return refuse(topic,
                    {DeliveryRefusal::kInvalidManifest, "no object of that uid is known",
                     parsed->resource_generation_id, parsed->generation},
                    std::move(hash));
    }
    parsed->api_version = before->api_version;
    parsed->kind = before->kind;
    parsed->ns = before->ns;
    parsed->name = before->name;
  }
  counts_.without_id += parsed->id_missing ? 1 : 0;
  switch (judge_manifest(before, *parsed, hash)) {
    case ManifestVerdict::kOlder:
      ++counts_.older;
      return;
    case ManifestVerdict::kSame:
      ++counts_.same;
      return;
    case ManifestVerdict::kTaken:
      break;
  }
  ManifestRecord record = ordered(before, *parsed, topic.prefix, std::move(hash));
  if (!write(uid, record, &parsed->manifest)) {
    unwritten_ = true;  // it is not acknowledged, and comes again
    return;
  }
  ++counts_.taken;
  if (refusals_.erase(uid) > 0) {
    (void)journal_.use().erase(kTable, key(std::string(kRefusalRow) + uid));
  }
  hooks_.changed(uid, before, &record);
  records_[uid] = std::move(record);
  hooks_.look(uid);
}

void ClientAgent::refuse(const DeliveryTopic& topic, const RefusedMessage& refused,
                         std::string hash) {
  const std::string uid(topic.uid);
  const auto known = records_.find(uid);
  const auto last = refusals_.find(uid);
  if (known != records_.end() && refused.generation > 0 &&
      refused.generation < known->second.generation) {
    ++counts_.older;
    return;
  }
  if (last != refusals_.end() && last->second.hash == hash) {
    ++counts_.same;
    return;
  }
  RefusalRecord refusal;
  refusal.generation = refused.generation;
  refusal.id = refused.resource_generation_id;
  refusal.prefix = topic.prefix;
  refusal.hash = std::move(hash);
  refusal.reason = refusal_reason(refused.refusal);
  refusal.message = refused.message;
  const bool kept = uid.size() <= kMaxDeliveryUid;  // what is longer is no order's, ever
  if (kept && !write(uid, refusal)) {
    unwritten_ = true;
    return;
  }
  ++counts_.refused;
  if (kept) {
    refusals_[uid] = refusal;
  }
  give_out(uid, refusal);
}

void ClientAgent::give_out(const std::string& uid, const RefusalRecord& refusal) {
  give_out(uid, refusal.prefix, refusal.id, refusal.generation, status_of(refusal), true);
}

bool ClientAgent::write(const std::string& uid, const RefusalRecord& refusal) {
  const std::string text = refusal.encode();
  const JournalRow row{epoch_, {}, text};
  return journal_.use().put(kTable, key(std::string(kRefusalRow) + uid), row).has_value();
}

void ClientAgent::forget(const std::string& uid) {
  unwritten_ = !erase(uid) || unwritten_;
  ++counts_.forgotten;
  refusals_.erase(uid);
  const auto known = records_.find(uid);
  if (known == records_.end()) {
    return;
  }
  hooks_.changed(uid, &known->second, nullptr);
  records_.erase(known);
}

bool ClientAgent::erase(const std::string& uid) {
  Journal& journal = journal_.use();
  bool done = true;
  for (const std::string_view row : {kRecordRow, kManifestRow, kRefusalRow}) {
    done = journal.erase(kTable, key(std::string(row) + uid)).has_value() && done;
  }
  return done;
}

void ClientAgent::take_list(const DeliveryTopic& topic, const MqttMessage& message) {
  if (resync_ == nullptr || topic.uid != kResyncLevel) {
    ++counts_.ignored;
    return;
  }
  if (message.payload.empty()) {
    return;
  }
  const auto taken =
      unpack(message.content_type, message.payload).and_then([&](const std::string& text) {
        return resync_->take(text, topic.prefix);
      });
  if (!taken) {
    ++counts_.ignored;
    log_warn("a list of the hub is none",
             {{"client", params_.client.id}, {"err", std::string(taken.error().message())}});
  }
}

std::vector<ResyncItem> ClientAgent::orders() const {
  std::vector<ResyncItem> out;
  for (const auto& [uid, record] : records_) {
    const auto refusal = refusals_.find(uid);
    const std::int64_t refused = refusal == refusals_.end() ? 0 : refusal->second.generation;
    out.push_back({uid, std::max(record.generation, refused), record.deleting, ""});
  }
  for (const auto& [uid, refusal] : refusals_) {
    if (records_.find(uid) == records_.end()) {
      out.push_back({uid, refusal.generation, false, ""});
    }
  }
  return out;
}

std::vector<ResyncItem> ClientAgent::statuses(std::string_view prefix) const {
  std::vector<ResyncItem> out;
  for (const auto& [uid, record] : records_) {
    if (record.prefix == prefix && refusals_.find(uid) == refusals_.end()) {
      out.push_back({uid, 0, false, record.status_hash});
    }
  }
  for (const auto& [uid, refusal] : refusals_) {
    if (refusal.prefix == prefix) {
      out.push_back({uid, 0, false, status_hash(status_of(refusal))});
    }
  }
  return out;
}

void ClientAgent::send_list(const std::string& batch) {
  for (const std::string& prefix : params_.config.prefixes) {
    if (is_connected()) {
      const DeliveryCodec codec = hub_packs_ ? DeliveryCodec::kJsonGzip : DeliveryCodec::kJson;
      (void)session_->publish({delivery_topic(prefix, params_.client.id, kResyncLevel, "status"),
                               std::string(hub_packs_ ? kGzipContentType : kJsonContentType),
                               pack(codec, batch),
                               false,
                               {}});
    }
  }
}

void ClientAgent::tell_again(const std::string& uid) {
  if (const auto refusal = refusals_.find(uid); refusal != refusals_.end()) {
    return give_out(uid, refusal->second);
  }
  if (const auto known = records_.find(uid); known != records_.end()) {
    known->second.answered = false;
    hooks_.look(uid);
  }
}

/// Given out is what the broker has: until then a restart says it again.
void ClientAgent::on_acknowledged(const std::optional<std::string>& uid) {
  if (!uid || outbox_.has(*uid)) {
    return;
  }
  if (const auto known = records_.find(*uid); known != records_.end()) {
    (void)write(*uid, known->second, nullptr);  // else it is said again
  }
  if (const auto refusal = refusals_.find(*uid);
      refusal != refusals_.end() && !std::exchange(refusal->second.told, true)) {
    (void)write(*uid, refusal->second);  // likewise
  }
}

bool ClientAgent::write(const std::string& uid, const ManifestRecord& record,
                        const krm::Json* manifest) {
  Journal& journal = journal_.use();
  std::string record_text;
  if (outbox_.has(uid)) {
    ManifestRecord unsaid = record;
    unsaid.answered = false;
    unsaid.status_hash.clear();
    record_text = unsaid.encode();
  } else {
    record_text = record.encode();
  }
  JournalRow row{epoch_, {}, record_text};
  auto done = journal.put(kTable, key(std::string(kRecordRow) + uid), row);
  if (done && manifest != nullptr) {
    const std::string text = manifest->dump();
    row.payload = text;
    done = journal.put(kTable, key(std::string(kManifestRow) + uid), row);
  }
  if (!done) {
    log_warn("the journal does not take an order",
             {{"client", params_.client.id}, {"err", std::string(done.error().message())}});
  }
  return done.has_value();
}

const ManifestRecord* ClientAgent::find(std::string_view uid) const {
  const auto known = records_.find(uid);
  return known == records_.end() ? nullptr : &known->second;
}

void ClientAgent::each(
    const std::function<void(const std::string&, const ManifestRecord&)>& visit) const {
  for (const auto& [uid, record] : records_) {
    visit(uid, record);
  }
}

std::optional<krm::Json> ClientAgent::manifest(const std::string& uid) {
  auto row = journal_.use().get(kTable, key(std::string(kManifestRow) + uid));
  if (!row || !*row) {
    return std::nullopt;
  }
  auto json = krm::Json::parse((*row)->payload);
  return json ? std::optional(std::move(*json)) : std::nullopt;
}

bool ClientAgent::update(const std::string& uid, const ManifestRecord& record) {
  const auto known = records_.find(uid);
  if (known == records_.end() || known->second.generation != record.generation ||
      known->second.hash != record.hash) {
    return false;
  }
  known->second = record;
  return write(uid, record, nullptr);
}

void ClientAgent::tell(const std::string& uid, ManifestRecord record,
                       const DeliveryStatus& status) {
  std::string hash = status_hash(status);
  const bool first = !record.answered;
  if (!first && hash == record.status_hash) {
    if (const ManifestRecord* const known = find(uid); known != nullptr && *known != record) {
      (void)update(uid, record);
    }
    return;
  }
  record.answered = true;
  record.status_hash = std::move(hash);
  const bool deleted = record.state == ManifestState::kDeleted;
  const ManifestRecord* const order = find(uid);
  if (order == nullptr || order->generation != record.generation || order->hash != record.hash) {
    return;  // another one came meanwhile
  }
  give_out(uid, record.prefix, record.id, record.generation, status, first || deleted);
  (void)update(uid, record);
}

void ClientAgent::give_out(const std::string& uid, const std::string& prefix, const std::string& id,
                           std::int64_t generation, const DeliveryStatus& status, bool must) {
  StatusOutbox::Item item;
  const std::string json = encode_status(status, id, unix_seconds());
  const bool packs = hub_packs_ && json.size() >= params_.config.gzip_min_bytes;
  item.topic = delivery_topic(prefix, params_.client.id, uid, "status");
  item.prefix = prefix;
  item.payload = pack(packs ? DeliveryCodec::kJsonGzip : DeliveryCodec::kJson, json);
  item.content_type = packs ? kGzipContentType : kJsonContentType;
  item.hash = status_hash(status);
  item.generation = generation;
  item.must = must;
  outbox_.put(uid, std::move(item));
  pump();
}

void ClientAgent::pump() {
  while (is_connected()) {
    const auto sending = outbox_.next(loop_.now());
    if (!sending) {
      break;
    }
    MqttPublication message;
    message.topic = sending->item->topic;
    message.content_type = sending->item->content_type;
    message.payload = sending->item->payload;
    message.retain = params_.config.status_retain;
    const std::uint64_t sequence = epoch_ * kEpochFactor + ++sequence_;
    message.user = {{"kintsugi-seq", std::to_string(sequence)},
                    {"kintsugi-generation", std::to_string(sending->item->generation)},
                    {"kintsugi-hash", sending->item->hash}};
    const auto id = session_->publish(message);
    if (!id) {
      outbox_.lost();
      break;
    }
    outbox_.sent(sending->uid, *id);
  }
  if (const auto at = outbox_.next_time(); at && is_connected()) {
    pump_.start(std::max<Duration>(*at - loop_.now(), milliseconds(1)), [this] { pump(); });
  }
}

std::string ClientAgent::trouble() const {
  if (!open_) {
    return {};
  }
  return trouble_.empty() && outbox_.refused() > 0 ? refusal_ : trouble_;
}

}  // namespace kintsugi::workers
