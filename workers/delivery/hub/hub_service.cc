#include "workers/delivery/hub/hub_service.h"

#include <dirent.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <utility>

#include "base/secret_file.h"
#include "base/strings.h"
#include "workers/delivery/protocol/content_type.h"
#include "workers/delivery/protocol/topics.h"

namespace kintsugi::workers {
namespace {

constexpr Duration kLook = seconds(1), kPump = milliseconds(10), kQuiet = seconds(1),
                   kMostRest = seconds(30);
constexpr unsigned kSaveTicks = 5;
constexpr std::string_view kBook = "/.hub.json";

}  // namespace

std::string status_line(std::string_view client, std::string_view uid,
                        const ReceivedStatus& status) {
  std::string out(client);
  out.append("/").append(uid);
  for (const DeliveryCondition& one : status.conditions) {
    out.append(" ").append(one.type).append(one.holds ? "=True " : "=False ").append(one.reason);
    if (status.generation > 0) {
      out.append(" generation=").append(std::to_string(status.generation));
    }
    if (!one.message.empty()) {
      out.append(" ").append(one.message);
    }
  }
  return out;
}

HubService::HubService(net::Loop& loop, Params params, Tell tell)
    : loop_(loop),
      params_(std::move(params)),
      tell_(std::move(tell)),
      look_(loop),
      reconnect_(loop),
      pump_(loop),
      hashes_(loop) {}

HubService::~HubService() = default;

Expected<void> HubService::start() {
  if (auto found = find_clients(); !found) {
    return found;
  }
  look();
  connect();
  return {};
}

void HubService::stop() {
  for (auto& [id, client] : clients_) {
    (void)(client.book.dirty() && save(client));
  }
  look_.cancel();
  reconnect_.cancel();
  pump_.cancel();
  hashes_.cancel();
  if (session_ != nullptr) {
    session_->close();
  }
}

/// Folders that are new.
Expected<void> HubService::find_clients() {
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir(params_.dir.c_str()), &::closedir);
  if (folder == nullptr) {
    return fail(Errc::kIo, params_.dir + ": " + std::strerror(errno));  // NOLINT: one thread's
  }
  while (const dirent* const entry = ::readdir(folder.get())) {  // NOLINT: one thread's
    const std::string id = entry->d_name;
    struct stat facts {};
    if (id.starts_with('.') || !is_topic_level(id) || clients_.count(id) > 0 ||
        ::stat((params_.dir + "/" + id).c_str(), &facts) != 0 || !S_ISDIR(facts.st_mode)) {
      continue;
    }
    if (auto added = add(id); !added) {
      return added;
    }
  }
  return {};
}

Expected<void> HubService::add(const std::string& id) {
  HubBook::Params book = params_.book;
  book.client = id;
  const std::string path = params_.dir + "/" + id;
  Client& client = clients_.try_emplace(id, std::move(book), path).first->second;
  std::ifstream in(path + std::string(kBook), std::ios::binary);
  if (in.is_open()) {
    const std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
    const auto json = krm::Json::parse(text);
    if (!json || !client.book.decode(*json)) {
      clients_.erase(id);
      return fail(Errc::kConfig, path + std::string(kBook) +
                                     ": is not what a hub wrote; without it generations "
                                     "begin above those that the client knows");
    }
  }
  if (session_ != nullptr && session_->is_connected()) {
    subscribe(id);
  }
  return {};
}

bool HubService::save(Client& client) {
  const std::string path = client.path + std::string(kBook);
  auto saved = replace_file(path, client.book.encode().dump(), 0600);
  if (!saved) {
    tell_(std::string(saved.error().message()));
  }
  return saved.has_value();
}

void HubService::look() {
  if (auto found = find_clients(); !found) {
    tell_(std::string(found.error().message()));
  }
  ++ticks_;
  for (auto& [id, client] : clients_) {
    look(client);
    if (ticks_ % kSaveTicks == 0 && client.book.dirty()) {
      (void)save(client);
    }
  }
  pump();
  look_.start(kLook, [this] { look(); });
}

void HubService::look(Client& client) {
  auto seen = client.folder.look();
  if (!seen) {
    std::string what(seen.error().message());
    if (what != client.told) {
      tell_(what + "; its objects stay as they are");
      client.told = std::move(what);
    }
    return;
  }
  client.told.clear();
  if (!seen->changed) {
    return;
  }
  for (const std::string& fault : seen->faults) {
    tell_(fault + "; its objects stay as they are");
  }
  for (const std::string& fault : client.book.wish(seen->wishes, seen->unreadable)) {
    tell_(client.path + "/" + fault);
  }
}

void HubService::connect() {
  MqttParams params;
  params.broker = params_.broker.url;
  params.tls = params_.broker.tls;
  params.client_id = params_.id;
  params.user = params_.broker.user;
  params.password = Secret(std::string(params_.broker.password));
  params.folder = params_.folder;
  MqttSession::Callbacks callbacks;
  callbacks.on_connected = [this](bool) {
    failures_ = 0;
    for (auto& [id, client] : clients_) {
      client.book.begin_anew();
      subscribe(id);
    }
  };
  callbacks.on_subscribed = [this] { on_subscribed(); };
  callbacks.on_message = [this](const MqttMessage& message) { on_message(message); };
  callbacks.on_acknowledged = [this](int, int reason) {
    if (reason >= 128) {
      tell_("the broker does not take a message: reason " + std::to_string(reason));
    }
  };
  callbacks.on_ended = [this](const MqttEnd& end) { on_ended(end); };
  session_ = std::make_unique<MqttSession>(loop_, std::move(params), std::move(callbacks));
}

void HubService::subscribe(const std::string& id) {
  session_->subscribe(delivery_topic(params_.book.prefix, id, "+", "status"));
}

void HubService::on_subscribed() {
  pump();
  if (params_.resync) {  // when what is retained has come
    hashes_.start(kQuiet, [this] { tell_hashes(); });
  }
}

void HubService::on_ended(const MqttEnd& end) {
  tell_("no connection to the broker: " + end.why);
  std::shared_ptr<MqttSession> gone(std::move(session_));
  loop_.defer([gone = std::move(gone)] {});
  const Duration rest = std::min<Duration>(seconds(1) * (1U << std::min(failures_, 5U)), kMostRest);
  ++failures_;
  reconnect_.start(rest, [this] { connect(); });
}

void HubService::on_message(const MqttMessage& message) {
  const auto topic = parse_delivery_topic(message.topic, {params_.book.prefix});
  const auto at = topic ? clients_.find(topic->client) : clients_.end();
  if (at == clients_.end() || topic->leaf != "status" || message.payload.empty()) {
    return;
  }
  Client& client = at->second;
  if (topic->uid == kResyncLevel) {
    auto batch =
        unpack(message.content_type, message.payload).and_then([](const std::string& text) {
          return parse_resync(text);
        });
    if (!batch || batch->kind != ResyncKind::kVersions) {
      tell_(at->first + ": a list that is none");
    } else if (const auto items = client.list.take(std::move(*batch))) {
      client.book.take_versions(*items);
    }
  } else {
    const auto status = parse_status(message.content_type, message.payload, message.user);
    if (!status) {
      return tell_(at->first + "/" + std::string(topic->uid) +
                   ": a status that is none: " + std::string(status.error().message()));
    }
    if (client.book.take_status(std::string(topic->uid), *status)) {
      tell_(status_line(at->first, topic->uid, *status));
    }
  }
  if (!std::exchange(pumping_, true)) {
    pump_.start(kPump, [this] { pump(); });
  }
}

void HubService::tell_hashes() {
  for (const auto& [id, client] : clients_) {
    for (const std::string& text :
         encode_resync(ResyncKind::kStatusHashes, random_suffix(8), client.book.status_hashes())) {
      if (session_ != nullptr) {
        (void)session_->publish({delivery_topic(params_.book.prefix, id, kResyncLevel, "content"),
                                 std::string(params_.gzip ? kGzipContentType : kJsonContentType),
                                 params_.gzip ? pack(DeliveryCodec::kJsonGzip, text) : text,
                                 false,
                                 {}});
      }
    }
  }
}

void HubService::pump() {
  pumping_ = false;
  if (session_ == nullptr || !session_->is_connected()) {
    return;
  }
  for (auto& [id, client] : clients_) {
    if (client.book.ordered() && !save(client)) {
      continue;  // a generation that nobody knows after a crash is not told
    }
    for (HubBook::Publication& one : client.book.due(loop_.now(), unix_seconds())) {
      const bool packs = params_.gzip && !one.payload.empty();
      MqttPublication message;
      message.topic = std::move(one.topic);
      message.retain = true;
      message.payload =
          packs ? pack(DeliveryCodec::kJsonGzip, one.payload) : std::move(one.payload);
      if (!message.payload.empty()) {
        message.content_type = packs ? kGzipContentType : kJsonContentType;
      }
      (void)session_->publish(message);  // else it is sent again
    }
  }
}

}  // namespace kintsugi::workers
