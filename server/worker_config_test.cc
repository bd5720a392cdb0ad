#include "server/worker_config.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "server/files.h"

namespace kintsugi::server {
namespace {

const std::vector<std::string> kKnown{"example", "other"};

const std::string kHead =
    "apiVersion: kintsugi.dev/v1alpha1\n"
    "kind: WorkerConfiguration\n"
    "kubeconfig: k\n";  // lines 1 to 3
const std::string kRole =
    "roles:\n"                                   // 4
    "  example:\n"                               // 5
    "    endpoints: {cluster: root, name: x}\n"  // 6
    "    lease_clusters: [root]\n";              // 7

std::string error_of(const std::string& text, const WorkerOverrides& overrides = {}) {
  const auto config = parse_worker_config(text, "/etc/w.yaml", kKnown, overrides);
  if (config) {
    return "none";
  }
  EXPECT_EQ(config.error().code(), Errc::kConfig);
  return std::string(config.error().message());
}

TEST(WorkerConfig, RT6_TheExampleIsReadAndSaysTheDefaults) {
  const std::string path = KINTSUGI_SOURCE_DIR "/configs/worker/worker.yaml";
  const auto text = read_file(path);
  ASSERT_TRUE(text);
  const auto config = parse_worker_config(*text, path, kKnown);
  ASSERT_TRUE(config) << config.error().message();
  const auto least = parse_worker_config(
      kHead +
          "roles:\n  example:\n    endpoints: {cluster: root, name: example.kintsugi.dev}\n    "
          "lease_clusters: [root]\n",
      KINTSUGI_SOURCE_DIR "/configs/worker/other.yaml", kKnown);
  ASSERT_TRUE(least) << least.error().message();
  WorkerConfig same = *least;
  same.kubeconfig = config->kubeconfig;
  EXPECT_EQ(render_worker_config(*config), render_worker_config(same));
  EXPECT_EQ(config->kubeconfig, KINTSUGI_SOURCE_DIR "/configs/worker/worker.kubeconfig");
}

TEST(WorkerConfig, RT6_WhatIsPrintedIsWholeAndReadsBackToTheSame) {
  const auto config = parse_worker_config(kHead + kRole, "/etc/w.yaml", kKnown);
  ASSERT_TRUE(config) << config.error().message();
  const std::string printed = render_worker_config(*config);
  EXPECT_EQ(printed,
            "apiVersion: kintsugi.dev/v1alpha1\n"
            "kind: WorkerConfiguration\n"
            "admin:\n"
            "  socket: \"\"\n"
            "data_dir: /etc/worker-data\n"
            "health_probe_bind_address: \"127.0.0.1:8081\"\n"
            "isolation: process\n"
            "kubeconfig: /etc/k\n"
            "metrics_bind_address: \"127.0.0.1:8080\"\n"
            "roles:\n"
            "  example:\n"
            "    allowed_endpoint_hosts: []\n"
            "    endpoints:\n"
            "      cluster: root\n"
            "      name: x\n"
            "    journal_max_bytes: 8589934592\n"
            "    lease:\n"
            "      duration: 15s\n"
            "      give_up: 10s\n"
            "      renew: 2s\n"
            "    lease_clusters: [\"root\"]\n"
            "    memory_limit_bytes: 1073741824\n"
            "    server: []\n"
            "    write_budget:\n"
            "      burst: 400\n"
            "      per_second: 200\n"
            "tracing:\n"
            "  ca_file: \"\"\n"
            "  endpoint: \"\"\n"
            "  headers_file: \"\"\n"
            "  sampling_per_million: 0\n");
  const auto again = parse_worker_config(printed, "/other/w.yaml", kKnown);
  ASSERT_TRUE(again) << again.error().message();
  EXPECT_EQ(render_worker_config(*again), printed);
}

TEST(WorkerConfig, RT6_EveryKeyIsTaken) {
  const auto config = parse_worker_config(
      kHead +
          "data_dir: d\nmetrics_bind_address: ':9'\nhealth_probe_bind_address: '[::1]:10'\n"
          "isolation: thread\nroles:\n  other:\n    server: https://a:6443/shards/root\n"
          "    allowed_endpoint_hosts: [b, c]\n    lease_clusters: [root, 'root:a']\n"
          "    memory_limit_bytes: 20000000\n    journal_max_bytes: 1048576\n"
          "    write_budget: {per_second: 0.5, burst: 3}\n"
          "    lease: {duration: 1m, renew: 500ms, give_up: 2s}\n",
      "/etc/w.yaml", kKnown);
  ASSERT_TRUE(config) << config.error().message();
  EXPECT_EQ(config->data_dir, "/etc/d");
  EXPECT_EQ(config->metrics, (WorkerAddress{"0.0.0.0", 9}));
  EXPECT_EQ(config->health, (WorkerAddress{"::1", 10}));
  EXPECT_EQ(config->isolation, WorkerIsolation::kThread);
  ASSERT_EQ(config->roles.size(), 1U);
  const WorkerRoleConfig& role = config->roles.front();
  EXPECT_EQ(role.name, "other");
  EXPECT_EQ(role.slice, "");
  EXPECT_EQ(role.servers, std::vector<std::string>{"https://a:6443/shards/root"});
  EXPECT_EQ(role.allowed_endpoint_hosts, (std::vector<std::string>{"b", "c"}));
  EXPECT_EQ(role.lease_clusters, (std::vector<std::string>{"root", "root:a"}));
  EXPECT_EQ(role.memory_limit, 20'000'000U);
  EXPECT_EQ(role.journal_max, 1'048'576U);
  EXPECT_EQ(role.writes_per_second, 0.5);
  EXPECT_EQ(role.burst, 3);
  EXPECT_EQ(role.lease_duration, std::chrono::minutes(1));
  EXPECT_EQ(role.lease_renew, milliseconds(500));
  EXPECT_EQ(role.lease_give_up, seconds(2));
}

TEST(WorkerConfig, RT_T006_EachFaultNamesLineAndPath) {
  struct Row {
    std::string text, error;
  };
  const std::string time = "must be a duration such as 500ms, 15s or 1m, from 10ms to 1h";
  const std::string clusters = "must be a list of logical clusters";
  const std::string address = "must be <IP address>:<port>, :<port>, /<socket> or 0";
  const Row rows[] = {
      {"", "/etc/w.yaml:1: kind: must be WorkerConfiguration"},
      {"apiVersion: kintsugi.dev/v1alpha1\nkind: ProxyConfiguration\n",
       "/etc/w.yaml:2: kind: must be WorkerConfiguration"},
      {"kind: WorkerConfiguration\napiVersion: v1\n",
       "/etc/w.yaml:2: apiVersion: must be kintsugi.dev/v1alpha1"},
      {"apiVersion: kintsugi.dev/v1alpha1\nkind: WorkerConfiguration\n" + kRole,
       "/etc/w.yaml:1: kubeconfig: is required"},
      {kHead, "/etc/w.yaml:1: roles: names no role; known: example, other"},
      {kHead + "roles: {}\n", "/etc/w.yaml:4: roles: names no role; known: example, other"},
      {kHead + kRole + "dataDir: x\n",
       "/etc/w.yaml:8: dataDir: unknown key \"dataDir\"; did you mean \"data_dir\"?"},
      {kHead + kRole + "data_dir: 1\n", "/etc/w.yaml:8: data_dir: must be a file name"},
      {kHead + kRole + "isolation: fork\n",
       "/etc/w.yaml:8: isolation: must be one of process, thread"},
      {kHead + kRole + "metrics_bind_address: localhost:1\n",
       "/etc/w.yaml:8: metrics_bind_address: " + address},
      {kHead + kRole + "health_probe_bind_address: 8081\n",
       "/etc/w.yaml:8: health_probe_bind_address: " + address},
      {kHead + kRole + "health_probe_bind_address: 127.0.0.1:8080\n",
       "/etc/w.yaml:8: health_probe_bind_address: is that of metrics_bind_address, "
       "127.0.0.1:8080"},
      {kHead + "roles: [example]\n", "/etc/w.yaml:4: roles: must be sections by name"},
      {kHead + "roles:\n  exampel: {}\n", "/etc/w.yaml:5: roles.exampel: unknown key \"exampel\""},
      {kHead + "roles:\n  example:\n", "/etc/w.yaml:5: roles.example: must be a section with keys"},
      {kHead + "roles:\n  example: {lease_clusters: [root]}\n",
       "/etc/w.yaml:5: roles.example: needs endpoints, or server"},
      {kHead + kRole + "    server: https://a\n",
       "/etc/w.yaml:5: roles.example: has both of endpoints and server"},
      {kHead + kRole + "    enpoints: {}\n",
       "/etc/w.yaml:8: roles.example.enpoints: unknown key \"enpoints\"; did you mean "
       "\"endpoints\"?"},
      {kHead + "roles:\n  example:\n    lease_clusters: [root]\n    endpoints:\n      name: x\n",
       "/etc/w.yaml:7: roles.example.endpoints: needs both of cluster and name"},
      {kHead + "roles:\n  example:\n    lease_clusters: [root]\n    endpoints:\n      name: x\n"
               "      cluster: a/b\n",
       "/etc/w.yaml:9: roles.example.endpoints.cluster: must be a logical cluster"},
      {kHead + "roles:\n  example:\n    endpoints: {cluster: root, name: x}\n",
       "/etc/w.yaml:5: roles.example.lease_clusters: is required"},
      {kHead + "roles:\n  example:\n    lease_clusters: root\n",
       "/etc/w.yaml:6: roles.example.lease_clusters: " + clusters},
      {kHead + "roles:\n  example:\n    lease_clusters: ['*']\n",
       "/etc/w.yaml:6: roles.example.lease_clusters: " + clusters},
      {kHead + "roles:\n  example:\n    lease_clusters: [a]\n    server: tcp://a\n",
       "/etc/w.yaml:7: roles.example.server: URL is malformed"},
      {kHead + "roles:\n  example:\n    lease_clusters: [a]\n    server: https://me:it@a\n",
       "/etc/w.yaml:7: roles.example.server: URL has user information"},
      {kHead + kRole + "    allowed_endpoint_hosts: [1]\n",
       "/etc/w.yaml:8: roles.example.allowed_endpoint_hosts: must be a list of texts"},
      {kHead + kRole + "    memory_limit_bytes: 1Gi\n",
       "/etc/w.yaml:8: roles.example.memory_limit_bytes: must be a number of bytes from 16777216 "
       "to 1125899906842624"},
      {kHead + kRole + "    journal_max_bytes: 0\n",
       "/etc/w.yaml:8: roles.example.journal_max_bytes: must be a number of bytes from 1048576 to "
       "1125899906842624"},
      {kHead + kRole + "    write_budget:\n      burst: 0\n",
       "/etc/w.yaml:9: roles.example.write_budget.burst: must be a number from 1 to 1000000"},
      {kHead + kRole + "    write_budget:\n      per_second: '200'\n",
       "/etc/w.yaml:9: roles.example.write_budget.per_second: must be a number from 0.1 to "
       "1000000"},
      {kHead + kRole + "    lease:\n      duration: 15\n",
       "/etc/w.yaml:9: roles.example.lease.duration: " + time},
      {kHead + kRole + "    lease:\n      duration: 15 parsecs\n",
       "/etc/w.yaml:9: roles.example.lease.duration: " + time},
      {kHead + kRole + "    lease:\n      renew: -1s\n",
       "/etc/w.yaml:9: roles.example.lease.renew: " + time},
      {kHead + kRole + "    lease:\n      renew: 2h\n",
       "/etc/w.yaml:9: roles.example.lease.renew: " + time},
      {kHead + kRole + "    lease:\n      duration: 15500ms\n",
       "/etc/w.yaml:9: roles.example.lease.duration: must be whole seconds"},
      {kHead + kRole + "    lease:\n      give_up: 15s\n",
       "/etc/w.yaml:9: roles.example.lease.give_up: must be less than duration, which is 15s"},
      {kHead + kRole + "    lease:\n      renew: 10s\n",
       "/etc/w.yaml:9: roles.example.lease.renew: must be less than give_up, which is 10s"},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(error_of(row.text), row.error) << row.text;
  }
  EXPECT_TRUE(error_of("a: [\n").starts_with("/etc/w.yaml: ")) << error_of("a: [\n");
  EXPECT_TRUE(error_of(kHead + "kind: WorkerConfiguration\n").find("line 4") != std::string::npos);
}

std::string delivery_error(const std::string& own) {
  const auto config = parse_worker_config(kHead +
                                              "roles:\n  delivery:\n    server: https://h:1\n    "
                                              "lease_clusters: [root]\n    delivery: {" +
                                              own + "}\n",
                                          "/etc/w.yaml", {"delivery"});
  return config ? "" : std::string(config.error().message());
}

TEST(WorkerConfig, CM_29_WhatARoleOfDeliveryNeeds) {
  const std::string good = "broker: {url: 'mqtt://127.0.0.1'}";
  EXPECT_EQ(delivery_error(good + ", clients: [a=root:a, 'b=c=root:b']"), "");
  const std::pair<const char*, const char*> wrong[] = {
      {"clients: [a=root]", "delivery.broker.url: must begin with"},
      {"broker: {url: 'mqtt://h'}, clients: [a=root]", "must be mqtts:// or ssl://"},
      {"broker: {url: 'mqtts://h'}, clients: [a=root]", "ca_file: is required by that url"},
      {"broker: {url: 'mqtt://127.0.0.1', user: u}, clients: [a=root]", "needs both of user"},
      {"broker: {url: 'mqtt://127.0.0.1'}", "delivery.clients: is required"},
      {"broker: {url: 'mqtt://127.0.0.1'}, clients: [a]", "is no <client id>=<logical cluster>"},
      {"broker: {url: 'mqtt://127.0.0.1'}, clients: [a/b=root]", "is no <client id>="},
      {"broker: {url: 'mqtt://127.0.0.1'}, clients: [a=r, a=s]", "has a twice"},
      {"broker: {url: 'mqtt://127.0.0.1'}, clients: [a=r], topic_prefixes: [v1]",
       "levels of a topic"},
      {"broker: {url: 'mqtt://127.0.0.1'}, clients: [a=r], adopt: yes", "delivery.adopt"},
  };
  for (const auto& [own, what] : wrong) {
    EXPECT_NE(delivery_error(own).find(what), std::string::npos)
        << own << ": " << delivery_error(own);
  }
}

const std::vector<std::string> kWithMessaging{"messaging"};
const std::string kMessaging = kHead +
                               "roles:\n"                                   // 4
                               "  messaging:\n"                             // 5
                               "    endpoints: {cluster: root, name: x}\n"  // 6
                               "    lease_clusters: [root]\n";              // 7

TEST(WorkerConfig, RT6_WhatIsPrintedOfMessagingHasEveryKeyAndReadsBack) {
  const auto config = parse_worker_config(kMessaging, "/etc/w.yaml", kWithMessaging);
  ASSERT_TRUE(config) << config.error().message();
  const std::string printed = render_worker_config(*config);
  EXPECT_NE(printed.find("    messaging:\n"
                         "      allow_local_connectors: false\n"
                         "      certificates:\n"
                         "        cert_propagation_delay: 90s\n"
                         "        directory: /etc/enmasse-certs\n"
                         "      checks:\n"
                         "        counters: 30s\n"
                         "        links: 600s\n"
                         "        resync_by_reconnect: false\n"
                         "        secrets: 60s\n"
                         "        sweep: 1800s\n"
                         "      components:\n"
                         "        ca_file: \"\"\n"
                         "        certificate_file: \"\"\n"
                         "        key_file: \"\"\n"
                         "        password_file: \"\"\n"
                         "        user: \"\"\n"
                         "        window: 100\n"
                         "      infra_clusters: []\n"
                         "      reconciles: 100\n"),
            std::string::npos)
      << printed;
  const auto again = parse_worker_config(printed, "/other/w.yaml", kWithMessaging);
  ASSERT_TRUE(again) << again.error().message();
  EXPECT_EQ(render_worker_config(*again), printed);
}

TEST(WorkerConfig, RT6_EveryKeyOfMessagingIsTaken) {
  const auto config = parse_worker_config(
      kMessaging +
          "    messaging:\n"
          "      infra_clusters: ['root:infra']\n"
          "      allow_local_connectors: true\n"
          "      certificates: {directory: /certs, cert_propagation_delay: 0s}\n"
          "      components: {ca_file: ca, certificate_file: /c, key_file: k, user: u, "
          "password_file: p, window: 7}\n"
          "      checks: {counters: 1s, sweep: 2s, links: 3s, secrets: 4s, "
          "resync_by_reconnect: true}\n"
          "      reconciles: 9\n",
      "/etc/w.yaml", kWithMessaging);
  ASSERT_TRUE(config) << config.error().message();
  const workers::MessagingConfig& messaging = config->roles.front().messaging;
  EXPECT_EQ(messaging.infra_clusters, std::vector<std::string>{"root:infra"});
  EXPECT_TRUE(messaging.allow_local_connectors);
  EXPECT_EQ(messaging.certificate_directory, "/certs");
  EXPECT_EQ(messaging.cert_propagation_delay, Duration{});
  EXPECT_EQ(messaging.ca_file, "/etc/ca");
  EXPECT_EQ(messaging.certificate_file, "/c");
  EXPECT_EQ(messaging.key_file, "/etc/k");
  EXPECT_EQ(messaging.user, "u");
  EXPECT_EQ(messaging.password_file, "/etc/p");
  EXPECT_EQ(messaging.window, 7U);
  EXPECT_EQ(messaging.counters, seconds(1));
  EXPECT_EQ(messaging.sweep, seconds(2));
  EXPECT_EQ(messaging.links, seconds(3));
  EXPECT_EQ(messaging.secrets, seconds(4));
  EXPECT_TRUE(messaging.resync_by_reconnect);
  EXPECT_EQ(messaging.reconciles, 9U);
}

TEST(WorkerConfig, RT_T006_EachFaultOfMessagingNamesLineAndPath) {
  const std::string time = "must be a duration such as 500ms, 15s or 1m, from ";
  const std::pair<std::string, std::string> rows[] = {
      {"messaging: true", "8: roles.messaging.messaging: must be a section with keys"},
      {"messaging: {infraClusters: []}",
       "8: roles.messaging.messaging.infraClusters: unknown key \"infraClusters\"; did you mean "
       "\"infra_clusters\"?"},
      {"messaging: {infra_clusters: root}",
       "8: roles.messaging.messaging.infra_clusters: must be a list of texts"},
      {"messaging: {allow_local_connectors: 'yes'}",
       "8: roles.messaging.messaging.allow_local_connectors: must be true or false"},
      {"messaging: {certificates: {directory: ''}}",
       "8: roles.messaging.messaging.certificates.directory: must be text"},
      {"messaging: {certificates: {cert_propagation_delay: 90}}",
       "8: roles.messaging.messaging.certificates.cert_propagation_delay: " + time + "0s to 1h"},
      {"messaging: {components: {ca_file: 1}}",
       "8: roles.messaging.messaging.components.ca_file: must be a file name"},
      {"messaging: {components: {window: 0}}",
       "8: roles.messaging.messaging.components.window: must be a number from 1 to 10000"},
      {"messaging: {components: {window: 1Ki}}",
       "8: roles.messaging.messaging.components.window: must be a number from 1 to 10000"},
      {"messaging: {checks: {counters: 5ms}}",
       "8: roles.messaging.messaging.checks.counters: " + time + "10ms to 1h"},
      {"messaging: {checks: {resync_by_reconnect: 1}}",
       "8: roles.messaging.messaging.checks.resync_by_reconnect: must be true or false"},
      {"messaging: {checks: {sweep: never}}",
       "8: roles.messaging.messaging.checks.sweep: " + time + "10ms to 1h"},
      {"messaging: {reconciles: 100001}",
       "8: roles.messaging.messaging.reconciles: must be a number from 1 to 100000"},
      {"messaging: {components: {ca_file: ca, key_file: k}}",
       "8: roles.messaging.messaging.components: needs both of certificate_file and key_file, or "
       "none"},
      {"messaging: {components: {certificate_file: c, key_file: k}}",
       "8: roles.messaging.messaging.components: certificate_file needs ca_file"},
      {"messaging: {components: {user: u}}",
       "8: roles.messaging.messaging.components: needs both of user and password_file, or none"},
  };
  for (const auto& [text, error] : rows) {
    const auto config =
        parse_worker_config(kMessaging + "    " + text + "\n", "/etc/w.yaml", kWithMessaging);
    ASSERT_FALSE(config) << text;
    EXPECT_EQ(config.error().message(), "/etc/w.yaml:" + error) << text;
  }
  EXPECT_EQ(error_of(kHead + kRole + "    messaging: {}\n"),
            "/etc/w.yaml:8: roles.example.messaging: unknown key \"messaging\"");
}

TEST(WorkerConfig, RT1_RT_T001_EmptyUnknownAndRepeatedRolesAreNamed) {
  const std::pair<std::string, std::string> rows[] = {
      {"", "--roles: \"\" has an empty name"},
      {"example,", "--roles: \"example,\" has an empty name"},
      {"foo", "--roles: \"foo\" is no role; known: example, other"},
      {"example,example", "--roles: \"example\" is there twice"},
      {"Example", "--roles: \"Example\" is no role; known: example, other"},
  };
  for (const auto& [text, error] : rows) {
    const auto roles = parse_worker_roles(text, kKnown);
    ASSERT_FALSE(roles) << text;
    EXPECT_EQ(roles.error().message(), error);
    WorkerOverrides overrides;
    overrides.roles = text;
    EXPECT_EQ(error_of(kHead + kRole, overrides), error);
  }
  WorkerOverrides other;
  other.roles = "other";
  EXPECT_EQ(error_of(kHead + kRole, other),
            "/etc/w.yaml:4: roles: has no section other, which is to run");
}

TEST(WorkerConfig, RT6_FlagsWin) {
  WorkerOverrides flags;
  flags.roles = "other,example";
  flags.isolation = "thread";
  flags.shards = "https://a:6443/shards/root,https://b,https://b";
  flags.data_dir = "/flag";
  flags.metrics = "0";
  flags.health = "/run/h.sock";
  const auto config = parse_worker_config(
      kHead + kRole + "  other:\n    server: https://c\n    lease_clusters: [root]\n",
      "/etc/w.yaml", kKnown, flags);
  ASSERT_TRUE(config) << config.error().message();
  ASSERT_EQ(config->roles.size(), 2U);
  EXPECT_EQ(config->roles[0].name, "other");
  EXPECT_EQ(config->roles[1].name, "example");
  for (const WorkerRoleConfig& role : config->roles) {
    EXPECT_EQ(role.servers, (std::vector<std::string>{"https://a:6443/shards/root", "https://b"}));
    EXPECT_EQ(role.slice + role.slice_cluster, "");
  }
  EXPECT_EQ(config->isolation, WorkerIsolation::kThread);
  EXPECT_EQ(config->data_dir, "/flag");
  EXPECT_EQ(config->metrics, WorkerAddress());
  EXPECT_EQ(config->health, (WorkerAddress{"/run/h.sock", 0}));

  const auto wrong = [](const char* shards, const char* isolation, const char* metrics) {
    WorkerOverrides overrides;
    overrides.shards = shards != nullptr ? std::optional<std::string>(shards) : std::nullopt;
    overrides.isolation =
        isolation != nullptr ? std::optional<std::string>(isolation) : std::nullopt;
    overrides.metrics = metrics != nullptr ? std::optional<std::string>(metrics) : std::nullopt;
    return error_of(kHead + kRole, overrides);
  };
  EXPECT_EQ(wrong("", nullptr, nullptr), "--shards: \"\" URL is malformed");
  EXPECT_EQ(wrong("https://u:p@a", nullptr, nullptr),
            "--shards: \"https://a\" URL has user information");
  EXPECT_EQ(wrong(nullptr, "fork", nullptr), "--isolation: \"fork\" is none of process, thread");
  EXPECT_EQ(wrong(nullptr, nullptr, "8080"),
            "--metrics-bind-address: \"8080\" must be <IP address>:<port>, :<port>, /<socket> or "
            "0");
}

TEST(WorkerConfig, AddressesAreReadAsTheyAreWritten) {
  for (const std::string text : {"127.0.0.1:8080", "[::1]:1", "0.0.0.0:0", "/run/a", "0"}) {
    const auto address = parse_worker_address(text);
    ASSERT_TRUE(address) << text;
    EXPECT_EQ(address_text(*address), text);
  }
  for (const std::string text : {"", "/", "8080", "a:1", "::1:1", "[127.0.0.1]:1",
                                 "127.0.0.1:", "127.0.0.1:65536", "127.0.0.1:-1", "[::1", "1"}) {
    EXPECT_FALSE(parse_worker_address(text)) << text;
  }
}

}  // namespace
}  // namespace kintsugi::server
