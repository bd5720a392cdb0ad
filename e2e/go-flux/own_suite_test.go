package flux

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	e2e "kintsugi.dev/e2e"
)

func writeKubeconfig(t *testing.T, config *rest.Config) string {
	t.Helper()
	file := clientcmdapi.NewConfig()
	file.Clusters["it"] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthority: config.CAFile, CertificateAuthorityData: config.CAData}
	file.AuthInfos["it"] = &clientcmdapi.AuthInfo{ClientCertificate: config.CertFile, ClientCertificateData: config.CertData,
		ClientKey: config.KeyFile, ClientKeyData: config.KeyData}
	file.Contexts["it"] = &clientcmdapi.Context{Cluster: "it", AuthInfo: "it"}
	file.CurrentContext = "it"
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*file, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// Those of Flux's own tests that need no kinds but a workspace's. Those of MigrateAPIVersion want a kube-apiserver's
// refusal to apply over fields of a version that is gone; there is none here.
var ownTests = []string{"TestApply_DriftIgnoreRules_CreateSkipsIgnore", "TestApply_NoOp", "TestApply_SkipsExcluded", "TestApply_IfNotPresent",
	"TestApply_IfNotPresent_ClusterScopedNamespaceInjection", "TestApply_MissingNamespaceErr", "TestResourceManager_ApplyAllStaged_CRDWebhookCABundle",
	"TestApplyAllStaged_AppliesRoleAndRoleBinding", "TestDiff_Removals", "TestResourceManager_Diff_CRDWebhookCABundle", "TestWaitForSet",
	"TestWaitForSet_ErrorOnReaderError"}

func TestFlux_AM556_OwnSuite(t *testing.T) {
	installation := e2e.StartInstallation(t)
	installation.MakeWorkspace("flux", "us-east-1")
	run := exec.Command("go", "test", "-vet=off", "-count=1", "-v", "-timeout=120s", "-run=^("+strings.Join(ownTests, "|")+")$", "github.com/fluxcd/pkg/ssa")
	run.Env = append(os.Environ(), "USE_EXISTING_CLUSTER=true", "KUBECONFIG="+writeKubeconfig(t, installation.Config("root:flux")))
	output, err := run.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, output)
	}
	for _, name := range ownTests {
		if !strings.Contains(string(output), "\n--- PASS: "+name+" ") {
			t.Errorf("%s did not pass", name)
		}
	}
}
