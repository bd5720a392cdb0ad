#include "proxy/config/config.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>

namespace kintsugi::proxy {
namespace {

std::string text_of(const std::string& name) {
  std::ifstream file(KINTSUGI_SOURCE_DIR "/configs/" + name);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::string valid() { return text_of("proxy.yaml"); }

std::string replaced(std::string_view what, std::string_view with) {
  std::string text = valid();
  const std::size_t at = text.find(what);
  EXPECT_NE(at, std::string::npos) << what;
  return text.replace(at, what.size(), with);
}

std::string fault(const std::string& text) {
  const auto config = parse_proxy_config(text, "/etc/k/proxy.yaml");
  return config ? "accepted" : std::string(config.error().message());
}

TEST(ProxyConfig, WhenTheExampleIsRead_FillsEveryField) {
  const auto config = parse_proxy_config(valid(), "/etc/k/proxy.yaml");
  ASSERT_TRUE(config) << config.error().to_string();
  EXPECT_EQ(config->listener.port, 6443);
  EXPECT_EQ(config->listener.cert_file, "/etc/k/pki/proxy.crt");
  EXPECT_EQ(config->data_dir, "/var/lib/kintsugi/proxy");
  EXPECT_EQ(config->endpoint_slice.mode, endpointslice::EndpointMode::kProxied);
  EXPECT_EQ(config->endpoint_slice.external_url, "https://kintsugi.example.test:6443");
  EXPECT_EQ(config->endpoint_slice.leave_grace, seconds(30));
  EXPECT_EQ(config->shutdown.delay, milliseconds(5000));
  EXPECT_EQ(config->admin.bind, "127.0.0.1:9443");
}

TEST(ProxyConfig, WhenReplicasShare_AGG509_TheShardsAreNotOfOneProxy) {
  const std::string text = valid() + "aggregation: {shared_file: record}\n";
  const auto config = parse_proxy_config(text, "/etc/k/proxy.yaml");
  ASSERT_TRUE(config) << config.error().to_string();
  EXPECT_EQ(config->shared_file, "/etc/k/record");
  EXPECT_NE(fault("apiVersion: kintsugi.dev/v1alpha1\nkind: ProxyConfiguration\n"
                  "topology: {source: objects, shards_kubeconfig: k}\n"
                  "aggregation: {shared_file: record}\n")
                .find("aggregation.shared_file: is for sources kcp and static"),
            std::string::npos);
}

TEST(ProxyConfig, GR_701_AFleetIsTheHubsClusters) {
  const std::string text = text_of("fleet/proxy.yaml");
  const auto config = parse_proxy_config(text, "/etc/k/proxy.yaml");
  ASSERT_TRUE(config) << config.error().to_string();
  EXPECT_TRUE(config->has_fleet() && config->has_plain_servers());
  EXPECT_EQ(config->wildcard, "serve");
  const FleetConfig& fleet = config->topology.fleet;
  EXPECT_EQ(fleet.kubeconfig, "/etc/k/hub.kubeconfig");
  EXPECT_EQ(fleet.provider_file, "/etc/k/providers.json");
  EXPECT_EQ(fleet.namespaces, std::vector<std::string>{"fleet"});
  EXPECT_TRUE(fleet.cluster_api);
  EXPECT_FALSE(fleet.qualified || fleet.insecure);
  EXPECT_EQ(fleet.leave_grace, seconds(30));
  const auto said = [&text](const std::string& more) {
    std::string changed = text;
    changed.replace(changed.find("    cluster_api: true\n"), 0, "    " + more + "\n");
    return fault(changed);
  };
  for (const auto& [more, what] : std::vector<std::pair<std::string, std::string>>{
           {"names: long", "topology.fleet.names: must be one of short, qualified"},
           {"selector: 'a in'", "topology.fleet.selector: unable to parse requirement"},
           {"insecure: maybe", "topology.fleet.insecure: must be"},
           {"allow: [10.0.0.1/8]", "topology.fleet.allow: "},
           {"leave_grace_ms: -1", "topology.fleet.leave_grace_ms: must be"}}) {
    EXPECT_NE(said(more).find(what), std::string::npos) << said(more);
  }
  const auto replaced_in = [](std::string all, std::string_view what, std::string_view with) {
    return all.replace(all.find(what), what.size(), with);
  };
  EXPECT_NE(fault(replaced_in(text, "[fleet]", "[Not_A_Name]"))
                .find("topology.fleet.namespaces: \"Not_A_Name\" is no name of a namespace"),
            std::string::npos);
  EXPECT_NE(fault(replaced_in(text, "[region]", "['a b']"))
                .find("topology.fleet.properties: \"a b\" cannot be the key of a label"),
            std::string::npos);
  EXPECT_NE(fault(replaced_in(text, "    kubeconfig: hub.kubeconfig\n", ""))
                .find("topology.fleet.kubeconfig: is required"),
            std::string::npos);
  EXPECT_NE(fault(replaced_in(text, "source: clusterprofiles", "source: kcp"))
                .find("topology.fleet: is for source clusterprofiles only"),
            std::string::npos);
  EXPECT_NE(fault(replaced_in(text, "  fleet:", "  generation: 3\n  fleet:"))
                .find("topology.generation: is for source static only"),
            std::string::npos);
}

TEST(ProxyConfig, GR_123_TheStoreOnEtcd) {
  const auto config = parse_proxy_config(
      valid() +
          "store: {type: etcd, endpoints: [\"https://a:2379\", \"https://b:2379\"], "
          "prefix: /p, ca_file: ca, cert_file: c, key_file: k, user: u, password_file: w, "
          "compaction: own, stale_limit_ms: 60000}\n",
      "/etc/k/proxy.yaml");
  ASSERT_TRUE(config) << config.error().to_string();
  const StoreConfig& store = config->store;
  EXPECT_TRUE(store.is_etcd && store.compacts && !store.insecure);
  EXPECT_EQ(store.endpoints, (std::vector<std::string>{"https://a:2379", "https://b:2379"}));
  EXPECT_EQ(store.prefix, "/p");
  EXPECT_EQ(store.ca_file, "/etc/k/ca");
  EXPECT_EQ(store.password_file, "/etc/k/w");
  EXPECT_EQ(store.stale_limit, seconds(60));
}

TEST(ProxyConfig, GR_123_WhatDoesNotGoTogetherIsNamed) {
  const auto said = [](const std::string& store, const std::string& text) {
    const std::string all = fault(valid() + "store: {" + store + "}\n");
    EXPECT_NE(all.find(text), std::string::npos) << store << ": " << all;
  };
  said("ca_file: x", "store: keys besides type are for type etcd");
  said("type: etcd", "store.endpoints: is required for type etcd");
  said("type: etcd, endpoints: [\"a\"]", "store.endpoints: \"a\" is no URL of a member of etcd");
  const std::string etcd = "type: etcd, endpoints: [\"https://a:2379\"]";
  said(etcd + ", prefix: /", "store.prefix: must begin with / and name something");
  said(etcd + ", cert_file: c", "store.cert_file: needs both of cert_file and key_file");
  said(etcd + ", user: u", "store.user: needs both of user and password_file");
  said(etcd + "}\naggregation: {shared_file: s",
       "aggregation.shared_file: is for proxies without store.type: etcd");
  EXPECT_EQ(fault(valid() + "store: {" + etcd + "}\n"), "accepted");
}

TEST(ProxyConfig, WhenAKeyIsWrong_NamesFileLineAndKey) {
  EXPECT_EQ(fault(replaced("  port: 6443", "  port: 70000")),
            "/etc/k/proxy.yaml:8: listener.port: must be a number from 0 to 65535");
  EXPECT_EQ(fault(replaced("  port: 6443", "  prot: 6443")),
            "/etc/k/proxy.yaml:8: listener.prot: unknown key \"prot\"; did you mean \"port\"?");
  EXPECT_EQ(fault(replaced("wildcard: deny", "wildcard: maybe")),
            "/etc/k/proxy.yaml:25: wildcard: must be one of deny, serve, reviewed");
  EXPECT_EQ(
      fault(replaced("  mode: proxied", "  mode: [1]")),
      "/etc/k/proxy.yaml:22: endpoint_slice.mode: must be one of direct, proxied, aggregated");
  EXPECT_EQ(fault(replaced("  leave_grace_ms: 30000", "  leave_grace_ms: -1")),
            "/etc/k/proxy.yaml:24: endpoint_slice.leave_grace_ms: must be milliseconds from 0 to "
            "3600000");
  EXPECT_EQ(fault(replaced("kind: ProxyConfiguration", "kind: Pod")),
            "/etc/k/proxy.yaml:3: kind: must be ProxyConfiguration");
  EXPECT_EQ(fault(replaced("  cert_file: pki/proxy.crt\n", "")),
            "/etc/k/proxy.yaml:6: listener.cert_file: is required");
  EXPECT_EQ(fault(replaced("limits:", "nonsense:")),
            "/etc/k/proxy.yaml:28: nonsense: unknown key \"nonsense\"");
  EXPECT_EQ(fault(replaced("limits:\n  body_bytes: 16777216", "limits: 3")),
            "/etc/k/proxy.yaml:28: limits: must be a section with keys");
}

TEST(ProxyConfig, WhenChoicesAreMade_TheyAreRead) {
  const auto config =
      parse_proxy_config(replaced("  mode: proxied", "  mode: aggregated") +
                             "aggregation: {policy: partial, discovery: "
                             "intersection, resync: {mode: diff}, share: reviewed}\n",
                         "/etc/k/proxy.yaml");
  ASSERT_TRUE(config) << config.error().to_string();
  EXPECT_EQ(config->endpoint_slice.mode, endpointslice::EndpointMode::kAggregated);
  EXPECT_EQ(config->endpoint_slice.consumers, endpointslice::Consumers::kIgnored);
  EXPECT_EQ(config->wildcard, "deny");
}

TEST(ProxyConfig, WhenShardsHaveCredentialsOfTheirOwn_TheyAreReadByName) {
  const auto config = parse_proxy_config(
      valid() +
          "shards:\n  berlin: {ca_file: b.crt, server_name: b.test}\n"
          "  ohio: {cert_file: o.crt, key_file: o.key, kubeconfig: /o.kubeconfig}\n",
      "/etc/k/proxy.yaml");
  ASSERT_TRUE(config) << config.error().to_string();
  ASSERT_EQ(config->shards.size(), 2U);
  EXPECT_EQ(config->shards[0].name, "berlin");
  EXPECT_EQ(config->shards[0].ca_file, "/etc/k/b.crt");
  EXPECT_EQ(config->shards[0].server_name, "b.test");
  EXPECT_EQ(config->shards[1].key_file, "/etc/k/o.key");
  EXPECT_EQ(config->shards[1].kubeconfig, "/o.kubeconfig");
  const std::string at = "/etc/k/proxy.yaml:33: ";
  EXPECT_EQ(fault(valid() + "shards: [berlin]\n"), at + "shards: must be sections by name");
  EXPECT_EQ(fault(valid() + "shards: {berlin: x}\n"),
            at + "shards.berlin: must be a section with keys");
  EXPECT_EQ(fault(valid() + "shards: {berlin: {ca: x}}\n"),
            at + "shards.berlin.ca: unknown key \"ca\"; did you mean \"ca_file\"?");
  EXPECT_NE(fault(valid() + "shards: {berlin: {cert_file: x}}\n")
                .find("shards.berlin.cert_file: needs both of cert_file and key_file"),
            std::string::npos);
}

TEST(ProxyConfig, GR501_TheExamplesOfRegionsDifferInTheirRegion) {
  for (const auto& [name, region] : {std::pair("eu", "eu-west-1"), std::pair("us", "us-east-1")}) {
    const auto config =
        parse_proxy_config(text_of(std::string("regions/") + name + ".yaml"), "/etc/k/proxy.yaml");
    ASSERT_TRUE(config) << config.error().to_string();
    EXPECT_EQ(config->region, region);
    EXPECT_EQ(config->endpoint_slice.regions.urls.size(), 2U);
  }
}

TEST(ProxyConfig, GR501_EachRegionHasAUrlOfItsOwn) {
  const auto config = parse_proxy_config(
      valid() + "regions: {urls: {us: 'https://one.test', eu: 'https://one.test/'}}\n", "/p.yaml");
  ASSERT_FALSE(config);
  EXPECT_NE(config.error().to_string().find("regions.urls: us: has the URL of eu"),
            std::string::npos)
      << config.error().to_string();
}

TEST(ProxyConfig, GR501_WhenThereAreRegions_WatchesOfFarShardsWait) {
  const auto read = [](const std::string& text) {
    return parse_proxy_config(text, "/etc/k/proxy.yaml");
  };
  const auto config = read(valid() +
                           "region: eu\nregions: {urls: {us: 'https://us.test', eu: "
                           "'https://eu.test:6443'}}\n");
  ASSERT_TRUE(config);
  EXPECT_EQ(config->region, "eu");
  EXPECT_EQ(config->endpoint_slice.regions.label, "region");
  EXPECT_EQ(config->endpoint_slice.regions.url_of("us"), "https://us.test");
  EXPECT_EQ(config->endpoint_slice.regions.url_of("mars"), "");
  EXPECT_GT(config->merge_in_force().max_stall, std::chrono::hours(24 * 300));
  const auto bounded =
      read(valid() + "regions: {freeze: max-stall, urls: {us: 'https://us.test'}}\n");
  ASSERT_TRUE(bounded);
  EXPECT_EQ(bounded->merge_in_force().max_stall, bounded->merge.max_stall);
  const auto none = read(valid());
  ASSERT_TRUE(none);
  EXPECT_EQ(none->merge_in_force().max_stall, none->merge.max_stall);

  for (const auto& [said, why] :
       {std::pair("{urls: {any: 'https://us.test'}}", "\"any\" cannot be a region"),
        std::pair("{urls: {'a b': 'https://us.test'}}", "\"a b\" cannot be a region"),
        std::pair("{urls: {us: us.test}}", "us: must be an http or https URL"),
        std::pair("{label: 'a b'}", "must be the key of a label"),
        std::pair("{freeze: later}", "must be one of unlimited, max-stall"),
        std::pair("{urls: [a]}", "must be texts by name")}) {
    EXPECT_NE(fault(valid() + "regions: " + said + "\n").find(why), std::string::npos) << said;
  }
}

TEST(ProxyConfig, R_29_AShardMayBeReachedByAProxyOfItsOwn) {
  const auto config = parse_proxy_config(
      valid() + "shards: {far: {proxy_url: 'http://link:3128'}}\n", "/etc/k/proxy.yaml");
  ASSERT_TRUE(config) << config.error().to_string();
  EXPECT_EQ(config->shards.at(0).proxy_url, "http://link:3128");
  EXPECT_NE(fault(valid() + "shards: {far: {proxy_url: 'socks5://link:1080'}}\n")
                .find("shards.far.proxy_url: only http://host:port is supported"),
            std::string::npos);
}

TEST(ProxyConfig, WhenKeysDoNotFitTogether_NamesTheOneThatIsWrong) {
  const std::string at = "/etc/k/proxy.yaml:";
  EXPECT_EQ(fault(replaced("external_url: https://kintsugi.example.test:6443\n", "")),
            at + "1: external_url: is required for this endpoint_slice.mode");
  EXPECT_NE(fault(valid() + "aggregation: {authz: {user: ''}}\n")
                .find("aggregation.authz.user: is required"),
            std::string::npos);
  EXPECT_NE(fault(text_of("static.yaml") + "wildcard: reviewed\n")
                .find("wildcard: reviewed is for shards of kcp"),
            std::string::npos);
  const auto refused = parse_proxy_config(valid(), "/etc/k/proxy.yaml", [](ProxyConfig&) {
    return Expected<void>(fail(Errc::kConfig, "a flag is wrong"));
  });
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message(), "a flag is wrong");
}

TEST(ProxyConfig, WhenLimitsOfServedKindsAreSet_AM067_TheyAreRead) {
  const auto usual = parse_proxy_config(valid(), "/etc/k/proxy.yaml");
  ASSERT_TRUE(usual);
  EXPECT_EQ(usual->served_limits, (ServedLimits{4'000, 1'000, 4'000}));
  EXPECT_EQ(usual->authorization.recheck_watches, seconds(45));
  const auto config = parse_proxy_config(
      replaced("limits:\n",
               "authorization: {recheck_watches_ms: 500}\nlimits:\n  served: {reads: 1, "
               "writes: 0, watch_starts: 3}\n"),
      "/etc/k/proxy.yaml");
  ASSERT_TRUE(config) << config.error().to_string();
  EXPECT_EQ(config->served_limits, (ServedLimits{1, 0, 3}));
  EXPECT_EQ(config->authorization.recheck_watches, milliseconds(500));
  EXPECT_EQ(fault(replaced("limits:\n", "limits:\n  served: {writes: -1}\n")),
            "/etc/k/proxy.yaml:29: limits.served.writes: must be a number from 0 to 1000000");
}

TEST(ProxyConfig, R30_LimitsOfUsersClustersAndShardsAreRead) {
  const auto usual = parse_proxy_config(valid(), "/etc/k/proxy.yaml");
  ASSERT_TRUE(usual);
  EXPECT_FALSE(usual->request_limits.any()) << "nothing is limited unless somebody says so";
  EXPECT_EQ(usual->seats, 0U);
  const auto config = parse_proxy_config(
      replaced("limits:\n",
               "limits:\n  seats: 7\n  total_seats: 9\n  user: {rps: 1, burst: 2, concurrent: 3, "
               "watches: 4}\n"
               "  cluster: {rps: 5}\n  shard: {watches: 6}\n  unauthenticated: {rps: 8}\n"),
      "/etc/k/proxy.yaml");
  ASSERT_TRUE(config) << config.error().to_string();
  EXPECT_EQ(config->seats, 7U);
  EXPECT_EQ(config->total_seats, 9U);
  const serving::RequestLimits expected{
      .user = {.rps = 1, .burst = 2, .concurrent = 3, .watches = 4},
      .cluster = {.rps = 5},
      .shard = {.watches = 6},
      .unauthenticated_rps = 8};
  EXPECT_EQ(config->request_limits, expected);
  EXPECT_EQ(fault(replaced("limits:\n", "limits:\n  user: {rps: -1}\n")),
            "/etc/k/proxy.yaml:29: limits.user.rps: must be a number from 0 to 1000000000");
  EXPECT_EQ(fault(replaced("limits:\n", "limits:\n  user: {rate: 1}\n")),
            "/etc/k/proxy.yaml:29: limits.user.rate: unknown key \"rate\"");
}

TEST(ProxyConfig, WhenMergedReadsAreTuned_TheyAreRead) {
  const auto usual = parse_proxy_config(valid(), "/etc/k/proxy.yaml");
  ASSERT_TRUE(usual);
  EXPECT_EQ(usual->aggregation, aggregation::MergeOptions());
  EXPECT_EQ(usual->merge, aggregation::MergeParams());
  const auto config = parse_proxy_config(
      valid() +
          "aggregation:\n  policy: partial\n  allow_partial: true\n"
          "  resync: {mode: expire, spread_ms: 2000}\n  watchlist: {mode: refuse}\n"
          "  watch: {group_linger_ms: 2000, queue_high_bytes: 4096}\n",
      "/etc/k/proxy.yaml");
  ASSERT_TRUE(config) << config.error().to_string();
  EXPECT_EQ(config->aggregation,
            (aggregation::MergeOptions{aggregation::MissingShards::kPartial, true,
                                       aggregation::Resync::kExpire, false}));
  EXPECT_EQ(config->merge.expire_spread, seconds(2));
  EXPECT_EQ(config->merge.group_linger, seconds(2));
  EXPECT_EQ(config->merge.queue_high, 4096U);
  EXPECT_EQ(usual->own_user, "system:kintsugi");
  const auto reviewed = parse_proxy_config(
      valid() +
          "aggregation:\n  share: reviewed\n  authz: {cache_ms: 1000, recheck_ms: 3000, grace_ms: "
          "10000, user: reader}\n",
      "/etc/k/proxy.yaml");
  ASSERT_TRUE(reviewed) << reviewed.error().to_string();
  EXPECT_EQ(reviewed->aggregation.share, aggregation::Share::kReviewed);
  EXPECT_EQ(reviewed->merge.rights_age, seconds(1));
  EXPECT_EQ(reviewed->merge.rights_recheck, seconds(3));
  EXPECT_EQ(reviewed->merge.rights_grace, seconds(10));
  EXPECT_EQ(reviewed->own_user, "reader");
  EXPECT_EQ(fault(valid() + "aggregation:\n  share: all\n"),
            "/etc/k/proxy.yaml:34: aggregation.share: must be one of caller, reviewed");
  EXPECT_EQ(fault(valid() + "aggregation:\n  policy: lax\n"),
            "/etc/k/proxy.yaml:34: aggregation.policy: must be one of strict, partial");
  EXPECT_EQ(fault(valid() + "aggregation:\n  allow_partial: 1\n"),
            "/etc/k/proxy.yaml:34: aggregation.allow_partial: must be true or false");
}

TEST(ProxyConfig, WhenRevocationListsAreNamed_SE141_TheyAreRead) {
  const auto usual = parse_proxy_config(valid(), "/etc/k/proxy.yaml");
  ASSERT_TRUE(usual) << usual.error().to_string();
  EXPECT_TRUE(usual->crl.stale_is_refused);
  EXPECT_FALSE(usual->crl.is_required);
  EXPECT_EQ(fault(valid() + "crl: {stale: ignore}\n"),
            "/etc/k/proxy.yaml:33: crl.stale: must be one of refuse, warn");
  EXPECT_EQ(fault(valid() + "crl:\n  required: true\n"),
            "/etc/k/proxy.yaml:34: crl.required: needs a file of revocation lists");
  const auto config = parse_proxy_config(
      "apiVersion: kintsugi.dev/v1alpha1\nkind: ProxyConfiguration\n"
      "listener: {cert_file: a, key_file: b}\n"
      "authentication: {client_ca_file: c, client_crl_file: c.crl,\n"
      "  request_header: {client_ca_file: r, client_crl_file: r.crl}}\n"
      "topology: {root_kubeconfig: k, shards_kubeconfig: s}\n"
      "backend: {ca_file: d, cert_file: e, key_file: f, crl_file: d.crl}\n"
      "crl: {stale: warn, required: true}\n",
      "/etc/k/proxy.yaml");
  ASSERT_TRUE(config) << config.error().to_string();
  EXPECT_EQ(config->authentication.client_crl_file, "/etc/k/c.crl");
  EXPECT_EQ(config->authentication.request_header.client_crl_file, "/etc/k/r.crl");
  EXPECT_EQ(config->backend.crl_file, "/etc/k/d.crl");
  EXPECT_FALSE(config->crl.stale_is_refused);
  EXPECT_TRUE(config->crl.is_required);
}

TEST(ProxyConfig, OP105_EveryFaultIsTold_EachOnALineOfItsOwn) {
  EXPECT_EQ(fault("kind: ProxyConfiguration\napiVersion: kintsugi.dev/v1alpha1\n"
                  "external_ulr: x\nloops: many\nlistener:\n  port: 70000\n"
                  "topology: {root_kubeconfig: r, shards_kubeconfig: s}\n"
                  "backend: {ca_file: a, cert_file: b, key_file: c}\n"
                  "authentication: {client_ca_file: c}\n"),
            "/etc/k/proxy.yaml:3: external_ulr: unknown key \"external_ulr\"; did you mean "
            "\"external_url\"?\n"
            "/etc/k/proxy.yaml:4: loops: must be a number from 0 to 256\n"
            "/etc/k/proxy.yaml:6: listener.port: must be a number from 0 to 65535");
  EXPECT_EQ(fault("kind: ProxyConfiguration\napiVersion: kintsugi.dev/v1alpha1\n"
                  "listener:\n  cert_file: a\n"
                  "topology: {root_kubeconfig: r, shards_kubeconfig: s}\n"
                  "backend: {ca_file: a, cert_file: b}\n"
                  "authentication: {client_ca_file: c}\n"),
            "/etc/k/proxy.yaml:3: listener.key_file: is required\n"
            "/etc/k/proxy.yaml:6: backend.key_file: is required");
}

TEST(ProxyConfig, OP106_WhatIsInForceIsShownWithItsSourceAndReadsBack) {
  krm::ConfigOrigin origin;
  const auto config = parse_proxy_config(
      valid() + "shards:\n  berlin: {ca_file: b.crt}\n", "/etc/k/proxy.yaml",
      [](ProxyConfig& said) {
        said.listener.port = 7443;
        return Expected<void>();
      },
      &origin);
  ASSERT_TRUE(config) << config.error().to_string();
  const std::string shown =
      krm::config_yaml("ProxyConfiguration", shown_config(*config, origin), "proxy.yaml");
  for (const char* line :
       {"  port: 7443  # command line\n", "  address: \"127.0.0.1\"  # proxy.yaml:7\n",
        "loops: 0  # default\n", "wildcard: deny  # proxy.yaml:25\n",
        "  groups:\n    apis.kcp.io: proxy  # default\n",
        "  berlin:\n    ca_file: /etc/k/b.crt  # proxy.yaml:34\n"}) {
    EXPECT_NE(shown.find(line), std::string::npos) << line << "in\n" << shown;
  }
  const auto again = parse_proxy_config(shown, "/other/proxy.yaml");
  ASSERT_TRUE(again) << again.error().to_string();
  EXPECT_EQ(krm::config_yaml("ProxyConfiguration", shown_config(*again, origin), "proxy.yaml"),
            shown);
  const auto json = krm::Json::parse(krm::config_json(shown_config(*config, origin), "proxy.yaml"));
  ASSERT_TRUE(json);
  const auto& keys = json->items();
  const auto port = std::find_if(keys.begin(), keys.end(), [](const krm::Json& key) {
    return key.text({"key"}) == "listener.port";
  });
  ASSERT_NE(port, keys.end());
  EXPECT_EQ(port->dump(),
            R"({"key":"listener.port","line":0,"source":"command line","value":7443})");
}

TEST(ProxyConfig, OP106_ShardsOfAListAreShownInTheirOrder) {
  const auto config = parse_proxy_config(text_of("static.yaml"), "/etc/k/static.yaml");
  ASSERT_TRUE(config) << config.error().to_string();
  const std::string shown = krm::config_yaml("ProxyConfiguration", shown_config(*config, {}));
  const auto again = parse_proxy_config(shown, "/etc/k/static.yaml");
  ASSERT_TRUE(again) << again.error().to_string() << "\n" << shown;
  EXPECT_EQ(krm::config_yaml("ProxyConfiguration", shown_config(*again, {})), shown);
  ASSERT_EQ(again->topology.shards.size(), config->topology.shards.size());
  EXPECT_EQ(again->topology.shards.front().name, config->topology.shards.front().name);
  EXPECT_EQ(again->topology.shards.front().labels, config->topology.shards.front().labels);
}

TEST(ProxyConfig, WhenTheTextIsNoYaml_NamesFileAndLine) {
  const std::string text = fault("apiVersion: kintsugi.dev/v1alpha1\nkind: [\n");
  EXPECT_NE(text.find("/etc/k/proxy.yaml: "), std::string::npos) << text;
  EXPECT_NE(text.find("line "), std::string::npos) << text;
  EXPECT_NE(fault(valid() + "wildcard: deny\n").find("key \"wildcard\" already set"),
            std::string::npos);
}

}  // namespace
}  // namespace kintsugi::proxy
