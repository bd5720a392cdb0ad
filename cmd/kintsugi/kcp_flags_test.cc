#include "cmd/kintsugi/kcp_flags.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <set>

#include "base/secret_file.h"
#include "cmd/kintsugi/proxy_flags.h"

namespace kintsugi::cmd {
namespace {

ProxyCommandLine parsed(const std::vector<std::string>& arguments) {
  auto line = parse_proxy_command_line(arguments);
  EXPECT_TRUE(line) << line.error().to_string();
  return line ? std::move(*line) : ProxyCommandLine();
}

TEST(KcpFlags, WhenSpelledInEveryWay_FP102_TheyAreTaken) {
  const ProxyCommandLine line =
      parsed({"--mapping_file=a", "--client-ca-file", "b", "-v=6", "--disable-http2-serving",
              "--requestheader-group-headers=X-A,X-B", "--requestheader-group-headers=X-C",
              "--service-account-key-file=k1", "--service-account-key-file=k2"});
  EXPECT_EQ(line.flags.at("mapping-file").back(), "a");
  EXPECT_EQ(line.flags.at("client-ca-file").back(), "b");
  EXPECT_EQ(line.flags.at("disable-http2-serving").back(), "true");
  EXPECT_EQ(line.flags.at("requestheader-group-headers").size(), 3U);
  EXPECT_EQ(line.flags.at("service-account-key-file").size(), 2U);
  EXPECT_EQ(line.log.level, LogLevel::kDebug);
  EXPECT_EQ(parsed({"-v", "2"}).log.level, LogLevel::kInfo);
  EXPECT_TRUE(line.warnings.empty());
}

TEST(KcpFlags, WhenUnknown_FP102_OneWarningEach) {
  const ProxyCommandLine line =
      parsed({"--foo=1", "--bar", "value", "--baz", "--secure-port=7", "--feature-gates",
              "Foo=true,WorkspaceMounts=true", "--profiler-address=:1"});
  ASSERT_EQ(line.warnings.size(), 5U);
  EXPECT_EQ(line.warnings[0], "--foo is not known and has no effect");
  EXPECT_EQ(line.warnings[3], "--feature-gates: Foo is not known and has no effect");
  EXPECT_EQ(line.flags.at("secure-port").back(), "7");
}

TEST(KcpFlags, WhenUnknownButNear_ATypingErrorIsRefused) {
  const auto fault = [](const std::vector<std::string>& arguments, bool as_kcp = false) {
    const auto line = parse_proxy_command_line(arguments, as_kcp);
    return line ? "" : std::string(line.error().message());
  };
  const std::string validate = "unknown option --validat; did you mean --validate?";
  EXPECT_EQ(fault({"--config=x", "--validat"}), validate);
  EXPECT_EQ(fault({"--secure-port=7", "--validat"}), validate);
  EXPECT_EQ(fault({"--validat", "--secure-port=7"}, true), validate);
  EXPECT_EQ(fault({"--confg=x"}), "unknown option --confg; did you mean --config?");
  EXPECT_EQ(fault({"--secure-prot=7", "--root-kubeconfig=a"}),
            "unknown option --secure-prot; did you mean --secure-port?");
  EXPECT_EQ(fault({"--secure-port=7", "-x"}), "unknown option -x");
}

TEST(KcpFlags, WhenUnknownOutsideOfKcpsCommandLine_ItIsRefused) {
  const auto line = parse_proxy_command_line({"--config=x", "--foo=1"});
  ASSERT_FALSE(line);
  EXPECT_EQ(line.error().message(), "unknown option --foo");
  EXPECT_FALSE(parse_proxy_command_line({"--foo=1"}));
  EXPECT_TRUE(parse_proxy_command_line({"--config=x", "--foo=1"}, true));
}

TEST(KcpFlags, WhenSomethingIsMissing_FP101_AllOfItIsNamed) {
  const auto fault = [](const KcpFlagValues& values) {
    const auto result = judge_kcp_flags(values);
    return result ? "" : std::string(result.error().message());
  };
  EXPECT_EQ(fault({}),
            "--mapping-file, --shards-kubeconfig, --root-kubeconfig: required (or --config)");
  EXPECT_EQ(fault({{"shards-kubeconfig", {"x"}}}), "--root-kubeconfig: required (or --config)");
  EXPECT_EQ(
      fault({{"shards-kubeconfig", {"x"}}, {"root-kubeconfig", {"x"}}, {"tls-cert-file", {"x"}}}),
      "--tls-private-key-file: required with the other one of the pair");
  EXPECT_EQ(fault({{"shards-kubeconfig", {"x"}}, {"root-kubeconfig", {"x"}}}), "");
}

TEST(KcpFlags, WhenTheTableIsRead_EveryNameIsThereOnce) {
  std::set<std::string_view> names;
  for (const KcpFlag& flag : kcp_flags()) {
    EXPECT_TRUE(names.insert(flag.name).second) << flag.name;
    EXPECT_EQ(flag.argument.empty(), flag.type == KcpFlag::Type::kSwitch) << flag.name;
  }
  EXPECT_GE(names.size(), 58U);
}

TEST(KcpFlags, WhenTheyAreAlone_FP159_ObjectsStayAtTheShards) {
  for (const bool alone : {true, false}) {
    proxy::ProxyConfig config;
    config.listener.cert_file = "known";  // none is made
    ASSERT_TRUE(apply_kcp_flags({}, alone, config));
    const auto expected = alone ? proxy::GroupMode::kAuto : proxy::GroupMode::kProxy;
    EXPECT_EQ(config.topology.groups.partitions, expected);
    EXPECT_EQ(config.topology.groups.slices, expected);
  }
}

TEST(KcpFlags, WhenAnIssuerIsGiven_ItIsInTheConfiguration) {
  proxy::ProxyConfig config;
  config.listener.cert_file = "known";  // none is made
  const auto result =
      apply_kcp_flags({{"oidc-issuer-url", {"https://a"}},
                       {"oidc-client-id", {"id"}},
                       {"oidc-username-prefix", {"-"}},
                       {"oidc-required-claim", {"a=b=c", "d=", "a=e"}},
                       {"oidc-signing-algs", {"ES256", "RS256"}},
                       {"feature-gates", {"WorkspaceAuthentication=true", "X=true"}}},
                      false, config);
  ASSERT_TRUE(result) << result.error().to_string();
  const auto& authentication = config.authentication;
  EXPECT_EQ(authentication.oidc.issuer_url, "https://a");
  EXPECT_EQ(authentication.oidc.username_prefix, "-");
  using Claims = std::vector<std::pair<std::string, std::string>>;
  EXPECT_EQ(authentication.oidc.required_claims, (Claims{{"d", ""}, {"a", "e"}}));
  EXPECT_EQ(authentication.oidc.signing_algs.size(), 2U);
  EXPECT_TRUE(authentication.workspaces);
}

TEST(KcpFlags, WhenADurationIsGos_ItIsRead) {
  EXPECT_EQ(parse_go_duration("2m0s"), seconds(120));
  EXPECT_EQ(parse_go_duration("1.5h"), seconds(5400));
  EXPECT_EQ(parse_go_duration("300ms"), milliseconds(300));
  EXPECT_EQ(parse_go_duration("0"), Duration::zero());
  for (const char* wrong : {"", "5", "s", "1x", "1s2", "..s", "9999999999h"}) {
    EXPECT_EQ(parse_go_duration(wrong), std::nullopt) << wrong;
  }
}

TEST(ProxyConfig, WhenItIsWrong_FP102_WhoseFaultItIsIsKnown) {
  const std::string file = testing::TempDir() + "kintsugi-fault.yaml";
  const auto is_flags = [&file](const std::string& more,
                                std::vector<std::string> flags) -> std::optional<bool> {
    std::ofstream(file) << "apiVersion: kintsugi.dev/v1alpha1\nkind: ProxyConfiguration\n" << more;
    flags.push_back("--config=" + file);
    const auto loaded = load_proxy_config(parsed(flags));
    return loaded ? std::nullopt : std::optional(loaded.error().of_command_line);
  };
  EXPECT_EQ(is_flags("no_such_key: 1\n", {}), false);
  EXPECT_EQ(is_flags("no_such_key: --flag\n", {"--secure-port=7"}), false);
  EXPECT_EQ(is_flags("mapping_file: /no/such/file\n", {}), false);
  EXPECT_EQ(is_flags("", {"--tls-cert-file=a", "--bind-address=nowhere"}), true);
  EXPECT_EQ(is_flags("", {"--tls-cert-file=a", "--mapping-file=/no/such/file"}), true);
  std::filesystem::remove(file);
  EXPECT_TRUE(load_proxy_config(parsed({"--config=" + file})).error().of_command_line);
  EXPECT_TRUE(load_proxy_config(parsed({"--secure-port=7"})).error().of_command_line);
  set_secret_file_rule(SecretFileRule::kRefuse);  // as before
}

}  // namespace
}  // namespace kintsugi::cmd
