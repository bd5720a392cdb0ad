#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cmd/kintsugi/commands.h"
#include "cmd/kintsugi/flags.h"
#include "cmd/kintsugi/span.h"
#include "net/loop.h"
#include "net/signals.h"
#include "server/files.h"
#include "workers/delivery/hub/hub_call.h"
#include "workers/delivery/hub/hub_service.h"
#include "workers/delivery/protocol/topics.h"

namespace kintsugi::cmd {
namespace {

using workers::HubBook;
using workers::HubCall;

constexpr const char* kCommand = "delivery-hub";
constexpr int kOutOfTime = 3;

struct Options {
  workers::BrokerAccessSettings broker;
  std::string client, prefix, dir, id = "kintsugi-hub", output = "line";
  std::uint32_t generation = 0;
  std::int64_t wait = 0, resend = 600;
  bool follow = false, resync = false, authoritative = false, gzip = false;
};

FlagTable flag_table(Options& options) {
  workers::BrokerAccessSettings& broker = options.broker;
  return {
      {"Broker",
       {{"broker", "URL", "$CONCERTMASTER_BROKER_URL",
         "mqtt:// or tcp:// on this machine, mqtts:// or ssl://", into(broker.url)},
        {"prefix", "PREFIX", "$CONCERTMASTER_TOPIC_PREFIX, or v1/", "of all topics",
         into(options.prefix)},
        {"user", "NAME", "$CONCERTMASTER_BROKER_USERNAME", "as whom to sign in at the broker",
         into(broker.user)},
        {"password-file", "FILE", "", "else $CONCERTMASTER_BROKER_PASSWORD",
         into(broker.password_file)},
        {"ca-file", "FILE", "", "of the broker's certificate; required by mqtts://",
         into(broker.ca_file)},
        {"certificate-file", "FILE", "", "of this hub", into(broker.certificate_file)},
        {"key-file", "FILE", "", "its key", into(broker.key_file)},
        {"server-name", "NAME", "host of the URL", "that the broker's certificate has",
         into(broker.server_name)}}},
      {"send, delete, cleanup, status",
       {{"client", "ID", "$CONCERTMASTER_CLIENT_ID", "client id of the agent",
         into(options.client)},
        {"generation", "N", "that of the file, or of the time",
         "orders are taken in the order of their generations", into(options.generation)},
        {"wait", "TIME", "0s", "send, delete: for the agent's answer", into_span(options.wait)},
        {"follow", "", "", "status: go on with what comes", into(options.follow)},
        {"output", "line|json", "line", "of statuses",
         [&options](std::string_view value) {
           return take_choice(value, {"true", "line", "json"}, options.output);
         }}}},
      {"serve",
       {{"dir", "DIR", "", "<client id>/*.yaml and *.json in it: what that client is to have",
         into(options.dir)},
        {"id", "ID", "kintsugi-hub", "of the hub's own connection", into(options.id)},
        {"resync", "", "", "ask agents for what they know otherwise; theirs has it, too",
         into(options.resync)},
        {"authoritative", "", "", "with --resync of agents: what they have besides is deleted",
         into(options.authoritative)},
        {"resend-after", "TIME", "10m", "orders that are not answered", into_span(options.resend)},
        {"gzip", "", "", "send v1/json+gzip", into(options.gzip)}}}};
}

std::string environment(const char* name, std::string otherwise = "") {
  const char* const value = std::getenv(name);  // NOLINT: before any thread
  return value == nullptr || *value == '\0' ? std::move(otherwise) : value;
}

/// What stands in variables, and the files. @error kConfig, kIo
Expected<workers::BrokerAccess> understood(Options& options) {
  workers::BrokerAccessSettings& broker = options.broker;
  broker.url = broker.url.empty() ? environment("CONCERTMASTER_BROKER_URL") : broker.url;
  broker.user = broker.user.empty() ? environment("CONCERTMASTER_BROKER_USERNAME") : broker.user;
  options.client = options.client.empty() ? environment("CONCERTMASTER_CLIENT_ID") : options.client;
  options.prefix =
      options.prefix.empty() ? environment("CONCERTMASTER_TOPIC_PREFIX", "v1/") : options.prefix;
  if (!workers::is_topic_prefix(options.prefix)) {
    return fail(Errc::kConfig, "--prefix: must be levels of a topic with a slash behind each");
  }
  if (broker.url.empty()) {
    return fail(Errc::kConfig, "--broker: which broker? Give its URL");
  }
  auto access = workers::read_broker_access(broker);
  if (!access) {
    return fail(std::move(access.error()).at("--broker"));
  }
  if (!access->url.tls && !workers::is_loopback(access->url)) {
    return fail(Errc::kConfig, "--broker: must be mqtts:// or ssl:// outside of this machine");
  }
  if (broker.password_file.empty()) {
    access->password = environment("CONCERTMASTER_BROKER_PASSWORD");
  }
  return access;
}

/// Where the MQTT library's socket stands, in a folder of its own.
std::string socket_folder() { return std::filesystem::temp_directory_path().string(); }

void show(const std::string& line) {
  std::puts(line.c_str());
  std::fflush(stdout);
}

int call(HubCall::Params params) {
  params.folder = socket_folder();
  net::Loop loop("hub");
  int status = 0;
  const net::Signals signals(loop, {SIGINT, SIGTERM}, [&loop](int) { loop.stop(); });
  const HubCall running(
      loop, std::move(params), show, [&](HubCall::End end, const std::string& why) {
        if (!why.empty()) {
          complain(kCommand, why);
        }
        status = end == HubCall::End::kTimeout ? kOutOfTime
                                               : static_cast<int>(end != HubCall::End::kDone);
        loop.stop();
      });
  loop.run();
  return status;
}

int serve(const Options& options, workers::BrokerAccess access) {
  if (options.dir.empty()) {
    return complain(kCommand, "--dir: which folder? It has one for each client", 2);
  }
  net::Loop loop("hub");
  workers::HubService::Params params;
  params.broker = std::move(access);
  params.id = options.id;
  params.dir = options.dir;
  params.folder = socket_folder();
  params.book.prefix = options.prefix;
  params.book.resend = seconds(options.resend);
  params.book.authoritative = options.authoritative;
  params.resync = options.resync;
  params.gzip = options.gzip;
  workers::HubService hub(loop, std::move(params), show);
  const net::Signals signals(loop, {SIGINT, SIGTERM}, [&](int) {
    hub.stop();
    loop.stop();
  });
  if (auto started = hub.start(); !started) {
    return complain(kCommand, started.error());
  }
  loop.run();
  return 0;
}

enum class Order : std::uint8_t { kSend, kDelete, kCleanup };

/// What a file's objects mean for the broker.
int order(Order what, const std::string& path, const Options& options,
          workers::BrokerAccess access) {
  const auto text = server::read_file(path);
  if (!text) {
    return complain(kCommand, text.error());
  }
  const auto objects = workers::parse_manifests(*text);
  if (!objects) {
    return complain(kCommand, path + ": " + std::string(objects.error().message()));
  }
  HubCall::Params params;
  params.broker = std::move(access);
  params.client = options.client;
  params.prefix = options.prefix;
  params.patience = seconds(options.wait);
  params.as_json = options.output == "json";
  for (krm::Json object : *objects) {
    const auto uid = workers::hub_uid(options.client, object);
    if (!uid) {
      return complain(kCommand, path + ": metadata.uid is none that a topic can have");
    }
    const auto topic = [&](std::string_view leaf) {
      return workers::delivery_topic(options.prefix, options.client, *uid, leaf);
    };
    if (what == Order::kCleanup) {
      params.publications.push_back({topic("status"), ""});
      params.publications.push_back({topic("content"), ""});
      continue;
    }
    const krm::Json* const given = object.at({"metadata", "generation"});
    const std::int64_t generation = options.generation > 0 ? std::int64_t{options.generation}
                                    : given != nullptr     ? given->as_integer()
                                                           : unix_microseconds();
    const std::int64_t now = unix_seconds();
    const std::string deletion = what == Order::kDelete ? rfc3339(now) : "";
    params.publications.push_back(
        {topic("content"), workers::hub_order(std::move(object), *uid, generation, deletion, now)});
    if (options.wait > 0) {
      params.awaited[*uid] = {generation, what == Order::kDelete};
    }
  }
  return call(std::move(params));
}

}  // namespace

CommandAbout delivery_hub_about() {
  Options options;
  return {
      "kintsugi delivery-hub send|delete|cleanup|status|serve [FILE] [options]",
      "The hub of workers of the role delivery: publishes manifests to an MQTT broker, and shows "
      "what became of\nthem (docs/workers/delivery.md).\n\n"
      "send FILE     the objects of a file, JSON or YAML, are to be as it says\n"
      "delete FILE   they are to be deleted\n"
      "cleanup FILE  nothing of them stays retained at the broker; objects that live stay\n"
      "status        the last word on every object of a client\n"
      "serve         keeps clients as the files of a folder say, until it is stopped\n\n"
      "Exit status: 1 an agent has not done it, or no broker; 2 wrong usage; 3 no answer in time.",
      {"send", "delete", "cleanup", "status", "serve"},
      without_setters(flag_table(options))};
}

int run_delivery_hub(const std::vector<std::string>& arguments) {
  Options options;
  const auto words = take_arguments(kCommand, flag_table(options), delivery_hub_about, arguments);
  if (!words) {
    return words.error();
  }
  const std::string action = words->empty() ? "" : words->front();
  const bool has_file = action == "send" || action == "delete" || action == "cleanup";
  if ((!has_file && action != "status" && action != "serve") ||
      words->size() != (has_file ? 2U : 1U)) {
    return wrong_usage(kCommand, "say one of send FILE, delete FILE, cleanup FILE, status, serve");
  }
  auto access = understood(options);
  if (!access) {
    return complain(kCommand, access.error(), 2);
  }
  if (action == "serve") {
    return serve(options, std::move(*access));
  }
  if (!workers::is_topic_level(options.client)) {
    return complain(kCommand, "--client: which client id? That of an agent", 2);
  }
  if (has_file) {
    const Order what = action == "send"     ? Order::kSend
                       : action == "delete" ? Order::kDelete
                                            : Order::kCleanup;
    return order(what, words->back(), options, std::move(*access));
  }
  HubCall::Params params;
  params.broker = std::move(*access);
  params.client = options.client;
  params.prefix = options.prefix;
  params.shows = true;
  params.follows = options.follow;
  params.as_json = options.output == "json";
  return call(std::move(params));
}

}  // namespace kintsugi::cmd
