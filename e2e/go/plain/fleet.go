package plain

import (
	"context"
	"fmt"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	e2e "kintsugi.dev/e2e"
	"kintsugi.dev/e2e/merge"
)

const (
	startDeadline = 90 * time.Second
	admins        = "admins" // the group that may do everything on every server
)

// fleet is a sort of API servers, and how a proxy knows them. Cases are the same for all of them.
type fleet struct {
	name  string
	start func(r *rig, names []string) // makes r.servers, which are ready and let administrators in
	// topology is that part of proxy.yaml.
	topology func(r *rig) string
	// members lets the proxy have just r.servers; nil: by its configuration.
	members func(r *rig, servers []*server)
	// relabel tells the proxy where a server is now; nil: by its configuration.
	relabel func(r *rig, s *server)
	// plain servers are one logical cluster each: URLs at clusters/* have namespaces and names of objects (U1, not U3).
	plain bool
	// bare servers do not mark objects themselves.
	bare bool
	// noWatchList names a server that refuses WatchLists.
	noWatchList string
	// document of OpenAPI, and a kind in it.
	document [2]string
}

// machine is the process of an API server, and what can be done to it.
type machine interface {
	url() string           // https://…
	audit() string         // the file that it writes down requests in, without their bodies
	store() string         // the folder that it stores in
	start() error          // with what it has stored
	kill()                 // at once; what it stores in is still there
	stop()                 // everything that belongs to it
	process() *e2e.Process // the API server
	move(port int)         // at the next start
	forget(t *testing.T)   // the past, while it is killed
	rotate(t *testing.T)   // the certificate that it shows
}

// home is a logical cluster of a server.
type home struct {
	prefix  string // of its URLs at the server
	cluster string // behind /clusters/ at the proxy
	marker  string // of its objects at clusters/*
}

// server is an API server as cases see it.
type server struct {
	machine
	name   string // what cases call it
	member string // what its topology calls it
	all    string // prefix of URLs at which the server itself shows what the proxy merges
	region string
	homes  []home
	pki    *pki
}

// home of a name: objects of one server are in all of its logical clusters.
func (s *server) home(name string) home {
	sum := 0
	for _, c := range name {
		sum += int(c)
	}
	return s.homes[sum%len(s.homes)]
}

// config is the administrator's access to the server itself, below a prefix.
func (s *server) config(prefix string) *rest.Config {
	return &rest.Config{Host: s.url() + prefix, QPS: -1, TLSClientConfig: rest.TLSClientConfig{CAFile: s.pki.servers.cert,
		CertFile: s.pki.master.cert, KeyFile: s.pki.master.key}}
}

// direct is a client of the server's first logical cluster, not by the proxy.
func (s *server) direct(t *testing.T) *kubernetes.Clientset {
	t.Helper()
	return e2e.Typed(t, s.config(s.homes[0].prefix))
}

// reader sees below a prefix of the server what it has, not by the proxy.
func (s *server) reader(t *testing.T, prefix string) *merge.Client {
	t.Helper()
	return merge.NewClient(t, s.url()+prefix, trust(t, s.pki), load(t, s.pki.master), 0)
}

// ready waits until the server says so: its roles are there then.
func (s *server) ready(t *testing.T) {
	t.Helper()
	client := e2e.Typed(t, s.config(""))
	e2e.Eventually(t, startDeadline, s.name+" ready", func() error {
		if s.process().Ended() {
			t.Fatalf("%s ended: %v", s.name, s.process().Outcome())
		}
		return client.RESTClient().Get().AbsPath("/readyz").Do(context.Background()).Error()
	})
}

// letIn gives the group of the proxy's callers every right.
func (s *server) letIn(t *testing.T) {
	t.Helper()
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: admins},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "Group", Name: admins}}}
	_, err := s.direct(t).RbacV1().ClusterRoleBindings().Create(context.Background(), binding, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("rights on %s: %v", s.name, err)
	}
}

// again starts a server that was ended.
func (s *server) again(t *testing.T) {
	t.Helper()
	if err := s.start(); err != nil {
		t.Fatal(err)
	}
	s.ready(t)
}

// restart kills the API server and starts it again at its port; its cache of the past is gone.
func (s *server) restart(t *testing.T, meanwhile func()) {
	t.Helper()
	s.kill()
	if meanwhile != nil {
		meanwhile()
	}
	s.again(t)
}

// staticTopology names plain servers.
func staticTopology(r *rig) string {
	text := "  source: static\n" + r.generation + "  shards:\n"
	for _, s := range r.servers {
		identity := ""
		if s.name == "b" { // the other way to say who asks
			identity = fmt.Sprintf(", identity: impersonate, cert_file: %s, key_file: %s", r.pki.master.cert, r.pki.master.key)
		}
		text += fmt.Sprintf("    - {name: %s, uid: uid-%s, url: %q, labels: {region: %q}%s}\n", s.name, s.name, s.url()+s.all, s.region, identity)
	}
	return text
}
