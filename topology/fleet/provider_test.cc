#include "topology/fleet/provider.h"

#include <gtest/gtest.h>

#include "krm/yaml.h"

namespace kintsugi::topology {
namespace {

using krm::Json;
using Words = std::vector<std::string>;

const std::string kFile = R"({"providers": [
  {"name": "cloud", "execConfig": {"apiVersion": "client.authentication.k8s.io/v1",
    "command": "./bin/cloud", "args": ["--quiet"], "env": [{"name": "REGION", "value": "eu"}],
    "provideClusterInfo": true, "interactiveMode": "Never"},
   "profileSourcedCLIArgsPolicy": "Append", "profileSourcedEnvVarsPolicy": "Replace"},
  {"name": "kubeconfig-secret"},
  {"name": "plain", "execConfig": {"apiVersion": "client.authentication.k8s.io/v1beta1",
    "command": "plain"}}]})";

Json cluster() {
  return *krm::parse_yaml(R"({server: "https://a.example", certificate-authority-data: QQ==,
    extensions: [
    {name: client.authentication.k8s.io/exec, extension: {clusterName: a}},
    {name: clusterprofiles.multicluster.x-k8s.io/exec/additional-args, extension: [--cluster, a]},
    {name: clusterprofiles.multicluster.x-k8s.io/exec/additional-envs,
     extension: {REGION: us, ZONE: b}}]})");
}

TEST(FleetProviderTest, GR_701_TheFile_IsReadInItsOrder) {
  const auto read = read_fleet_providers(kFile, "p.json", "/etc/k");
  ASSERT_TRUE(read) << read.error().message();
  ASSERT_EQ(read->size(), 4U);
  EXPECT_EQ((*read)[0].exec.command, "/etc/k/./bin/cloud");
  EXPECT_TRUE((*read)[1].is_secret);
  EXPECT_EQ((*read)[2].exec.command, "plain");
  EXPECT_EQ((*read)[3].name, "kubeconfig-secretreader");  // built in, where it is not placed
  EXPECT_EQ(read_fleet_providers("", "", "")->size(), 2U);
}

TEST(FleetProviderTest, GR_701_WhatIsWrongWithTheFile_IsNamed) {
  const auto fault_of = [](const std::string& entries) {
    const auto read = read_fleet_providers("{providers: [" + entries + "]}", "p.json", "/");
    return read ? "" : std::string(read.error().message());
  };
  const std::string right =
      "{name: a, execConfig: {apiVersion: client.authentication.k8s.io/v1, command: c}}";
  EXPECT_EQ(fault_of(right), "");
  EXPECT_EQ(fault_of(right + ", " + right), "p.json: providers[1].name: another provider has it");
  EXPECT_EQ(fault_of("{name: a}"), "p.json: providers[0].execConfig: missing");
  EXPECT_EQ(fault_of("{execConfig: {}}"), "p.json: providers[0].name: missing");
  EXPECT_EQ(fault_of("{name: a, execConfig: {apiVersion: client.authentication.k8s.io/v1}}"),
            "p.json: providers[0].execConfig.command: missing");
  EXPECT_EQ(fault_of("{name: a, execConfig: {apiVersion: v1, command: c}}"),
            "p.json: providers[0].execConfig.apiVersion: must be one of "
            "client.authentication.k8s.io/v1, client.authentication.k8s.io/v1beta1");
  EXPECT_EQ(fault_of("{name: a, execConfig: {apiVersion: client.authentication.k8s.io/v1, command: "
                     "c, interactiveMode: Always}}"),
            "p.json: providers[0].execConfig.interactiveMode: nobody is asked here, must be Never");
  EXPECT_EQ(fault_of("{name: a, profileSourcedCLIArgsPolicy: Always, execConfig: {apiVersion: "
                     "client.authentication.k8s.io/v1, command: c}}"),
            "p.json: providers[0].profileSourcedCLIArgsPolicy: must be one of Ignore, Append");
  EXPECT_EQ(read_fleet_providers("[", "p.json", "/").error().message(),
            "p.json: providers: must be a list of at most 64");
}

TEST(FleetProviderTest, GR_701_WordsOfTheHub_AreUsedAsFarAsTheFileLets) {
  const auto providers = *read_fleet_providers(kFile, "p.json", "/");
  const auto exec = exec_for(providers[0], cluster());
  ASSERT_TRUE(exec);
  EXPECT_EQ(exec->arguments, (Words{"--quiet", "--cluster", "a"}));
  using Variables = std::vector<std::pair<std::string, std::string>>;
  EXPECT_EQ(exec->environment, (Variables{{"REGION", "us"}, {"ZONE", "b"}}));
  EXPECT_EQ(
      exec->cluster,
      R"({"certificate-authority-data":"QQ==","config":{"clusterName":"a"},"server":"https://a.example"})");
  const auto deaf = exec_for(providers[2], cluster());
  EXPECT_TRUE(deaf->arguments.empty() && deaf->environment.empty() && deaf->cluster.empty());
  FleetProvider gentle = providers[0];
  gentle.environment = FleetProvider::Environment::kAppendIfNotExists;
  EXPECT_EQ(exec_for(gentle, cluster())->environment, (Variables{{"REGION", "eu"}, {"ZONE", "b"}}));
}

/// A hub decides neither which program runs nor what is loaded into it.
TEST(FleetProviderTest, GR_701_VariablesThatDecideWhatRuns_AreRefused) {
  const auto providers = *read_fleet_providers(kFile, "p.json", "/");
  for (const char* name : {"LD_PRELOAD", "PATH", "KUBERNETES_EXEC_INFO", "", "A=B"}) {
    Json one = cluster();
    one["extensions"].edit_items()[2]["extension"] = Json::object({{name, "x"}});
    const auto exec = exec_for(providers[0], one);
    ASSERT_FALSE(exec) << name;
    EXPECT_EQ(exec.error().reason, FleetReason::kBadProfile);
  }
  Json many = cluster();
  for (int i = 0; i < 100; ++i) {
    many["extensions"].edit_items()[1]["extension"].push_back("x");
  }
  EXPECT_FALSE(exec_for(providers[0], many));
}

}  // namespace
}  // namespace kintsugi::topology
