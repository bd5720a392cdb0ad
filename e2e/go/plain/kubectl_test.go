package plain

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// deploy makes a Deployment that is ready on a server.
func (p *place) deploy(server, name string) {
	p.t.Helper()
	ctx := context.Background()
	labels := map[string]string{"app": "web"}
	one := int32(1)
	deployments := p.at(server, name).AppsV1().Deployments(p.ns)
	deployment, err := deployments.Create(ctx, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: appsv1.DeploymentSpec{Replicas: &one,
		Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "x"}}}}}}, metav1.CreateOptions{})
	if err != nil {
		p.t.Fatal(err)
	}
	deployment.Status = appsv1.DeploymentStatus{ObservedGeneration: 1, Replicas: 1, UpdatedReplicas: 1, AvailableReplicas: 1, ReadyReplicas: 1}
	if _, err := deployments.UpdateStatus(ctx, deployment, metav1.UpdateOptions{}); err != nil {
		p.t.Fatal(err)
	}
}

// T08, T92, T94, T95: what somebody types at clusters/*, and what they read.
func testKubectlForms(p *place) {
	ctx := context.Background()
	manifest := filepath.Join(p.t.TempDir(), "x.yaml")
	if err := os.WriteFile(manifest, []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: of-b, namespace: "+p.ns+"}\ndata: {x: changed}\n"), 0o600); err != nil {
		p.t.Fatal(err)
	}
	for _, s := range p.servers {
		p.put(s.name, "of-"+s.name, "tier", s.name)
		p.put(s.name, "same")
		if _, err := p.own[s.name].CoreV1().Events(p.ns).Create(ctx, &corev1.Event{ObjectMeta: metav1.ObjectMeta{Name: "e"}, Reason: "Seen-" + s.name,
			InvolvedObject: corev1.ObjectReference{Kind: "ConfigMap", Name: "of-" + s.name, Namespace: p.ns}, LastTimestamp: metav1.Now()}, metav1.CreateOptions{}); err != nil {
			p.t.Fatal(err)
		}
	}
	if p.bare {
		p.deploy("b", "only")
	}
	servers := func(format string) (out []string) {
		for _, s := range p.servers {
			out = append(out, strings.ReplaceAll(format, "@", s.name))
		}
		return out
	}
	wide := []string{"get", "configmaps", "-l", "tier", "-o"}
	for _, c := range []struct {
		arguments []string
		want      []string // patterns of what it prints
		fails     bool
		only      bool // where there are Deployments and the like
	}{
		{append(wide, "wide"), servers("of-@ +1 "), false, false},
		{append(wide, "name"), servers("configmap/of-@"), false, false},
		{append(wide, "yaml"), servers("kcp.io/cluster: @"), false, false},
		{append(wide, "json"), servers(`"kcp.io/cluster": "@"`), false, false},
		{append(wide, `jsonpath={range .items[*]}{.metadata.name} in {.metadata.annotations.kcp\.io/cluster}{"\n"}{end}`), servers("of-@ in @"), false, false},
		{append(wide, `custom-columns=N:.metadata.name,WHERE:.metadata.annotations.kcp\.io/cluster`), servers("of-@ +@"), false, false},
		{[]string{"get", "configmaps", "-L", "tier", "--show-labels", "--chunk-size=1", "--sort-by=.metadata.name"}, servers("of-@ +1 +\\S+ +@ +tier=@"), false, false},
		{[]string{"get", "configmaps", "--field-selector=metadata.name=of-b"}, []string{"^NAME.*\nof-b +1 .*\n$"}, false, false},
		{[]string{"get", "configmaps,deployments"}, append(servers("configmap/of-@"), "deployment.apps/only"), false, true},
		{[]string{"get", "configmap", "same"}, []string{`Conflict.*several logical clusters: a, b`}, true, false},
		{[]string{"get", "configmap", "none"}, []string{`NotFound`}, true, false},
		{[]string{"get", "nosuch"}, []string{"doesn't have a resource type"}, true, false},
		{[]string{"get", "componentstatuses"}, []string{"etcd-0"}, false, true},
		{[]string{"describe", "configmap", "of-b"}, []string{"kcp.io/cluster: b"}, false, false},
		{[]string{"events"}, servers("Seen-@"), false, false},
		{[]string{"rollout", "status", "deployment/only", "--timeout=10s"}, []string{"successfully rolled out"}, false, true},
		{[]string{"wait", "--for=jsonpath={.status.readyReplicas}=1", "deployment/only", "--timeout=10s"}, []string{"condition met"}, false, true},
		{[]string{"wait", "--for=delete", "configmap/none", "--timeout=10s"}, nil, false, false},
		{[]string{"explain", "deployment.spec.replicas"}, []string{"GROUP: +apps", "FIELD: replicas <integer>"}, false, true},
		{[]string{"api-resources"}, []string{"deployments +deploy +apps/v1 +true +Deployment"}, false, true},
		{[]string{"api-versions"}, []string{"(?m)^apps/v1$"}, false, true},
		{[]string{"explain", "configmap.data"}, []string{"KIND: +ConfigMap", "FIELD: data"}, false, false},
		{[]string{"api-resources"}, []string{"configmaps +cm +v1 +true +ConfigMap"}, false, false},
		{[]string{"api-versions"}, []string{"(?m)^rbac.authorization.k8s.io/v1$"}, false, false},
		{[]string{"version"}, []string{"Server Version"}, false, false},
		{[]string{"cluster-info"}, []string{`running at .*/clusters/\*`}, false, true},
		{[]string{"get", "--raw", "/clusters/*/version"}, []string{"gitVersion"}, false, false},
		{[]string{"apply", "-f", manifest}, []string{"patch is not supported.*/clusters/<name>/"}, true, false},
		{[]string{"apply", "--server-side", "-f", manifest}, []string{"patch is not supported.*/clusters/<name>/"}, true, false},
		{[]string{"create", "configmap", "new"}, []string{"create is not supported.*/clusters/<name>/"}, true, false},
		{[]string{"label", "configmap", "of-b", "x=y"}, []string{"patch is not supported.*/clusters/<name>/"}, true, false},
		{[]string{"delete", "configmap", "of-b"}, []string{"delete is not supported.*/clusters/<name>/"}, true, false},
		{[]string{"delete", "configmaps", "--all"}, []string{"delete is not supported.*/clusters/<name>/"}, true, false},
		{[]string{"auth", "can-i", "list", "configmaps"}, []string{"create is not supported.*/clusters/<name>/"}, true, false},
		{[]string{"get", "configmaps", "--as=bob"}, []string{"impersonation is not offered"}, true, false},
	} {
		if c.only && !p.bare {
			continue
		}
		p.t.Run(strings.Join(c.arguments[:min(len(c.arguments), 6)], " "), func(t *testing.T) {
			command := p.kubectl(t, "*", append([]string{"-n", p.ns}, c.arguments...)...)
			timer := time.AfterFunc(patience, func() { _ = command.Process.Kill() })
			defer timer.Stop()
			out, err := command.CombinedOutput()
			if (err != nil) != c.fails {
				t.Errorf("%v: %s", err, out)
			}
			for _, pattern := range c.want {
				if !regexp.MustCompile(pattern).Match(out) {
					t.Errorf("no %q in %s", pattern, out)
				}
			}
		})
	}
}
