package plain

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	e2e "kintsugi.dev/e2e"
)

// grant makes a role on a server and binds users to it.
func (s *server) grant(t *testing.T, role string, rules []rbacv1.PolicyRule, users ...string) {
	t.Helper()
	ctx, rbac := context.Background(), s.direct(t).RbacV1()
	_, err := rbac.ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: role}, Rules: rules}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatalf("role on %s: %v", s.name, err)
	}
	for _, user := range users {
		binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: role + "-" + user},
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: user}}}
		if _, err := rbac.ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{}); err != nil {
			t.Fatalf("binding on %s: %v", s.name, err)
		}
	}
}

func (s *server) revoke(t *testing.T, role, user string) {
	t.Helper()
	if err := s.direct(t).RbacV1().ClusterRoleBindings().Delete(context.Background(), role+"-"+user, metav1.DeleteOptions{}); err != nil {
		t.Fatalf("binding on %s: %v", s.name, err)
	}
}

var longRunning = regexp.MustCompile(`(?m)^apiserver_longrunning_requests\{.*resource="configmaps",scope="cluster".*verb="WATCH".*\} (\d+)$`)

// watches that the server says it serves of all ConfigMaps, of whoever.
func (s *server) watches(t *testing.T) int {
	t.Helper()
	text, err := s.direct(t).RESTClient().Get().AbsPath("/metrics").DoRaw(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	sum := 0
	for _, found := range longRunning.FindAllSubmatch(text, -1) {
		n, _ := strconv.Atoi(string(found[1]))
		sum += n
	}
	return sum
}

// partially asks for what the caller may see (X-Kintsugi-Partial).
type partially struct{ next http.RoundTripper }

func (p partially) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("X-Kintsugi-Partial", "true")
	return p.next.RoundTrip(r)
}

// as is a user's client of all servers.
func (r *rig) as(t *testing.T, user string, partial bool) *kubernetes.Clientset {
	t.Helper()
	config := r.config("*")
	config.CertFile, config.KeyFile = r.pki.people[user].cert, r.pki.people[user].key
	if partial {
		config.Wrap(func(next http.RoundTripper) http.RoundTripper { return partially{next} })
	}
	return e2e.Typed(t, config)
}

// follower collects what a watch of all ConfigMaps tells.
type follower struct {
	t      *testing.T
	who    string
	stream watch.Interface
	seen   []string // server/name
	code   int32    // of the ERROR that ended it
}

func (r *rig) follow(t *testing.T, who string, partial bool) *follower {
	t.Helper()
	stream, err := r.as(t, who, partial).CoreV1().ConfigMaps("").Watch(context.Background(), metav1.ListOptions{LabelSelector: "t90"})
	if err != nil {
		t.Fatalf("%s: %v", who, err)
	}
	t.Cleanup(stream.Stop)
	return &follower{t: t, who: who, stream: stream}
}

// until reads on until the watch has told of an object, or has ended with this code.
func (f *follower) until(object string, code int32) {
	f.t.Helper()
	late := time.After(time.Minute)
	for !slices.Contains(f.seen, object) && (code == 0 || f.code != code) {
		select {
		case event, ok := <-f.stream.ResultChan():
			if !ok {
				f.t.Fatalf("%s: the watch ended after %v", f.who, f.seen)
			}
			switch o := event.Object.(type) {
			case *corev1.ConfigMap:
				f.seen = append(f.seen, o.Annotations[marker]+"/"+o.Name)
			case *metav1.Status:
				f.code = o.Code
			}
		case <-late:
			f.t.Fatalf("%s: neither %q nor %d after %v", f.who, object, code, f.seen)
		}
	}
}

// groups are how many merged watches of all ConfigMaps each loop of the proxy reads, each with one stream per server.
func (r *rig) groups(t *testing.T) map[string]int {
	t.Helper()
	var said struct {
		MergedWatches []struct{ Loop, Path string }
	}
	if err := json.Unmarshal([]byte(r.debug(t, "streams")), &said); err != nil {
		t.Fatal(err)
	}
	out := map[string]int{}
	for _, group := range said.MergedWatches {
		if group.Path == "/api/v1/configmaps" {
			out[group.Loop]++
		}
	}
	return out
}

// T43, T90, T103: callers with equal rights share one stream to each server, others get what they may. Loops share
// nothing: one of them has all callers here, until the end.
func TestReviewedSharing(t *testing.T) {
	r := startRig(t, "loops: 1", "aggregation:", "  share: reviewed", "  allow_partial: true", "  authz: {cache_ms: 1000, recheck_ms: 600000}")
	ctx := context.Background()
	reads := []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"list", "watch"}}}
	own := append(slices.Clone(reads),
		rbacv1.PolicyRule{APIGroups: []string{"authorization.k8s.io"}, Resources: []string{"subjectaccessreviews"}, Verbs: []string{"create"}},
		rbacv1.PolicyRule{APIGroups: []string{rbacv1.GroupName}, Resources: []string{"roles", "rolebindings", "clusterroles", "clusterrolebindings"},
			Verbs: []string{"list", "watch"}})
	for n, s := range r.servers {
		s.grant(t, "kintsugi", own, "system:kintsugi")
		s.grant(t, "reader", reads, "u1", "u2")
		if n == 0 {
			s.grant(t, "reader", reads, "u3")
		}
	}
	put := func(s *server, name string) string {
		t.Helper()
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"t90": ""}}}
		if _, err := s.direct(t).CoreV1().ConfigMaps("default").Create(ctx, object, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		return s.name + "/" + name
	}
	everywhere := func(name string, followers ...*follower) {
		t.Helper()
		for _, s := range r.servers {
			object := put(s, name)
			for _, f := range followers {
				f.until(object, 0)
			}
		}
	}
	streams := func(want func(n int) int) {
		t.Helper()
		e2e.Eventually(t, 15*time.Second, "streams to the servers", func() error {
			for n, s := range r.servers {
				if got := s.watches(t); got != want(n) {
					return fmt.Errorf("%d at %s, not %d; the proxy says %s", got, s.name, want(n), r.debug(t, "streams"))
				}
			}
			return nil
		})
	}
	for _, user := range []string{"u1", "u2"} {
		e2e.Eventually(t, 15*time.Second, "rights of the proxy and of "+user, func() error {
			_, err := r.as(t, user, false).CoreV1().ConfigMaps("").List(ctx, metav1.ListOptions{LabelSelector: "t90"})
			return err
		})
	}
	streams(func(int) int { return 0 })

	one, two := r.follow(t, "u1", false), r.follow(t, "u2", false)
	again := r.follow(t, "u2", false)
	everywhere("first", one, two, again)
	streams(func(int) int { return 1 })

	// Who may read one server only is refused, or has a stream to that one of its own.
	for _, options := range []metav1.ListOptions{{LabelSelector: "t90"}, {LabelSelector: "t90", ResourceVersion: "0"}} {
		if _, err := r.as(t, "u3", false).CoreV1().ConfigMaps("").Watch(ctx, options); !apierrors.IsForbidden(err) {
			t.Errorf("u3 watches: %v", err)
		}
		if _, err := r.as(t, "u3", false).CoreV1().ConfigMaps("").List(ctx, options); !apierrors.IsForbidden(err) {
			t.Errorf("u3 lists: %v", err)
		}
	}
	three := r.follow(t, "u3", true)
	everywhere("second", one, two)
	three.until(r.servers[0].name+"/second", 0)
	streams(func(n int) int { return map[bool]int{true: 2, false: 1}[n == 0] })

	// A right that is taken away on one server ends what rests on it, and nothing else.
	last := r.servers[len(r.servers)-1]
	clock, begin := e2e.StartClock(), time.Now()
	last.revoke(t, "reader", "u2")
	two.until("", 403)
	again.until("", 403)
	t.Logf("the watches ended after %v", time.Since(begin).Round(time.Millisecond))
	if took := clock.Spent(); took > 4*time.Second {
		t.Errorf("the watches ended after %v", took)
	}
	if _, err := r.as(t, "u2", false).CoreV1().ConfigMaps("").List(ctx, metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("u2 lists: %v", err)
	}
	everywhere("third", one)
	three.until(r.servers[0].name+"/third", 0)
	for _, object := range three.seen {
		if object[0] != r.servers[0].name[0] {
			t.Errorf("u3 has seen %s", object)
		}
	}
	streams(func(n int) int { return map[bool]int{true: 2, false: 1}[n == 0] })
	last.grant(t, "reader", reads, "u2")
	e2e.Eventually(t, 15*time.Second, "the right is back", func() error {
		_, err := r.as(t, "u2", false).CoreV1().ConfigMaps("").List(ctx, metav1.ListOptions{})
		return err
	})
	back := r.follow(t, "u2", false)
	back.until(last.name+"/third", 0)
	everywhere("fourth", one, back)
	streams(func(n int) int { return map[bool]int{true: 2, false: 1}[n == 0] })

	// Two loops have a group each, and between them one stream to each server, however many callers read.
	if err := r.proxy.Stop(); err != nil {
		t.Fatal(err)
	}
	r.more[0] = "loops: 2"
	r.startProxy()
	var all []*follower
	for range 3 {
		all = append(all, r.follow(t, "u1", false), r.follow(t, "u2", false))
	}
	everywhere("fifth", all...)
	groups := r.groups(t)
	for loop, n := range groups {
		if n != 1 {
			t.Errorf("%s has %d groups of callers that ask the same", loop, n)
		}
	}
	if len(groups) < 1 || len(groups) > 2 {
		t.Errorf("groups of loops %v", groups)
	}
	streams(func(int) int { return 1 })
}

// T89: who may act as whom is decided as by the servers themselves, which know constrained impersonation.
func TestReviewedImpersonation(t *testing.T) {
	r := startRig(t, "loops: 1", "aggregation:", "  share: reviewed", "  authz: {cache_ms: 1000}")
	reads := []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"list", "watch"}}}
	review := rbacv1.PolicyRule{APIGroups: []string{"authorization.k8s.io"}, Resources: []string{"subjectaccessreviews"}, Verbs: []string{"create"}}
	for _, s := range r.servers {
		s.grant(t, "kintsugi", append(slices.Clone(reads), review), "system:kintsugi")
		s.grant(t, "reader", reads, "u2", "system:node:n1")
		s.grant(t, "constrained", []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"impersonate-on:user-info:list", "impersonate-on:arbitrary-node:watch"}},
			{APIGroups: []string{"authentication.k8s.io"}, Resources: []string{"users"}, ResourceNames: []string{"u2"}, Verbs: []string{"impersonate:user-info"}},
			{APIGroups: []string{"authentication.k8s.io"}, Resources: []string{"nodes"}, Verbs: []string{"impersonate:arbitrary-node"}}}, "u1")
		s.grant(t, "classic", []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"users"}, Verbs: []string{"impersonate"}}}, "u3")
	}
	status := func(config *rest.Config, who, query string, as rest.ImpersonationConfig) int {
		t.Helper()
		config.CertFile, config.KeyFile, config.Impersonate = r.pki.people[who].cert, r.pki.people[who].key, as
		client, err := rest.HTTPClientFor(config)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := client.Get(config.Host + "/api/v1/configmaps" + query)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		return answer.StatusCode
	}
	direct := func() *rest.Config {
		return &rest.Config{Host: r.servers[0].url(), TLSClientConfig: rest.TLSClientConfig{CAFile: r.pki.servers.cert}}
	}
	u2 := rest.ImpersonationConfig{UserName: "u2"}
	e2e.Eventually(t, 15*time.Second, "rights", func() error {
		for _, config := range []*rest.Config{direct(), r.config("*")} {
			if got := status(config, "u3", "", u2); got != http.StatusOK {
				return fmt.Errorf("%d", got)
			}
		}
		return nil
	})
	allowed := 0
	for _, who := range []string{"u1", "u2", "u3"} {
		for _, as := range []rest.ImpersonationConfig{u2, {UserName: "alice"}, {UserName: "system:node:n1"}, {UserName: "u2", UID: "1"},
			{UserName: "u2", Groups: []string{"g"}}, {UserName: "u2", Groups: []string{"system:masters"}},
			{UserName: "u2", Extra: map[string][]string{"acme.io/team": {"blue"}}}} {
			for _, query := range []string{"", "?watch=1&timeoutSeconds=1"} {
				want, got := status(direct(), who, query, as), status(r.config("*"), who, query, as)
				if got != want {
					t.Errorf("%s as %+v%s: %d, not %d", who, as, query, got, want)
				}
				if want == http.StatusOK {
					allowed++
				}
			}
		}
	}
	if allowed != 6 { // u1 lists as u2 and watches as a node, u3 does both as both
		t.Errorf("%d are allowed", allowed)
	}
}
