// The multicluster-provider of kcp, unchanged, over the endpoint slices of an installation with three shards.
package e2e

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/kcp-dev/multicluster-provider/apiexport"
	"github.com/kcp-dev/multicluster-provider/pkg/provider"
	apisv1alpha1 "github.com/kcp-dev/sdk/apis/apis/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/log"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	mcbuilder "sigs.k8s.io/multicluster-runtime/pkg/builder"
	mcmanager "sigs.k8s.io/multicluster-runtime/pkg/manager"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"
	mcreconcile "sigs.k8s.io/multicluster-runtime/pkg/reconcile"
)

const (
	apisGroup = "apis.kcp.io"
	patience  = 60 * time.Second
)

var (
	things         = schema.GroupVersionResource{Group: "things.test", Version: "v1", Resource: "things"}
	schemas        = schema.GroupVersionResource{Group: apisGroup, Version: "v1alpha1", Resource: "apiresourceschemas"}
	exports        = schema.GroupVersionResource{Group: apisGroup, Version: "v1alpha2", Resource: "apiexports"}
	bindings       = schema.GroupVersionResource{Group: apisGroup, Version: "v1alpha2", Resource: "apibindings"}
	endpointSlices = schema.GroupVersionResource{Group: apisGroup, Version: "v1alpha1", Resource: "apiexportendpointslices"}
	regions        = []string{"eu-west-1", "us-east-1", "ap-south-1"} // of root, shard-1, shard-2
)

func object(gvr schema.GroupVersionResource, kind, name string, spec map[string]any) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	o.SetGroupVersionKind(gvr.GroupVersion().WithKind(kind))
	o.SetName(name)
	return o
}

func newThing() *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(things.GroupVersion().WithKind("Thing"))
	return o
}

// fleet is a provider workspace and its consumers.
type fleet struct {
	*testing.T
	*Installation
	provider dynamic.Interface
}

func (f *fleet) create(at dynamic.Interface, gvr schema.GroupVersionResource, o *unstructured.Unstructured) {
	f.Helper()
	Eventually(f.T, patience, o.GetKind()+" "+o.GetName(), func() error {
		resource := at.Resource(gvr)
		var err error
		if gvr == things {
			_, err = resource.Namespace("default").Create(context.Background(), o.DeepCopy(), metav1.CreateOptions{})
		} else {
			_, err = resource.Create(context.Background(), o.DeepCopy(), metav1.CreateOptions{})
		}
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	})
}

func newFleet(t *testing.T) *fleet {
	t.Helper()
	installation := StartInstallation(t)
	f := &fleet{t, installation, Dynamic(t, installation.Config(installation.MakeWorkspace("prov", regions[0])))}
	property := map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}
	f.create(f.provider, schemas, object(schemas, "APIResourceSchema", "v1.things.things.test", map[string]any{"group": "things.test",
		"scope": "Namespaced", "names": map[string]any{"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
		"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true, "schema": property,
			"subresources": map[string]any{"status": map[string]any{}}}}}))
	f.create(f.provider, exports, object(exports, "APIExport", "things", map[string]any{"resources": []any{map[string]any{
		"group": "things.test", "name": "things", "schema": "v1.things.things.test", "storage": map[string]any{"crd": map[string]any{}}}}}))
	return f
}

// slice makes an endpoint slice of a mode and waits until it says where to go.
func (f *fleet) slice(mode string) string {
	f.Helper()
	name := "all-" + mode
	slice := object(endpointSlices, "APIExportEndpointSlice", name, map[string]any{"export": map[string]any{"path": "root:prov", "name": "things"}})
	slice.SetAnnotations(map[string]string{"kintsugi.dev/endpoint-mode": mode})
	f.create(f.provider, endpointSlices, slice)
	Eventually(f.T, patience, "endpoints of "+name, func() error {
		found, err := f.provider.Resource(endpointSlices).Get(context.Background(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if endpoints, _, _ := unstructured.NestedSlice(found.Object, "status", "endpoints"); len(endpoints) == 0 {
			return fmt.Errorf("status %v", found.Object["status"])
		}
		return nil
	})
	return name
}

// cluster is the name of the logical cluster of a child of root.
func (f *fleet) cluster(workspace string) string {
	f.Helper()
	found, err := Dynamic(f.T, f.Config("root")).Resource(Workspaces).Get(context.Background(), workspace, metav1.GetOptions{})
	if err != nil {
		f.Fatal(err)
	}
	name, _, _ := unstructured.NestedString(found.Object, "spec", "cluster")
	return name
}

func (f *fleet) more(consumers []*consumer, name string) {
	f.Helper()
	for _, one := range consumers {
		f.create(one, things, object(things, "Thing", name, map[string]any{}))
	}
}

// consumer is a workspace with a binding and one thing, whose name is the same in all of them.
type consumer struct {
	dynamic.Interface
	path, cluster string
}

func (f *fleet) consumer(name, region string) *consumer {
	f.Helper()
	path := f.MakeWorkspace(name, region)
	c := &consumer{Dynamic(f.T, f.Config(path)), path, f.cluster(name)}
	f.create(c, bindings, object(bindings, "APIBinding", "things", map[string]any{"reference": map[string]any{"export": map[string]any{
		"path": "root:prov", "name": "things"}}}))
	f.create(c, things, object(things, "Thing", "stone", map[string]any{"of": name}))
	return c
}

// controller writes into the status of every thing where it was seen, through the clusters that the provider engages.
type controller struct {
	mcmanager.Manager
	provider *apiexport.Provider
	name     string
	ended    chan error
	cancel   context.CancelFunc
}

func (c *controller) reconcile(ctx context.Context, request mcreconcile.Request) (ctrl.Result, error) {
	inside, err := c.GetCluster(ctx, request.ClusterName)
	if err != nil {
		if errors.Is(err, multicluster.ErrClusterNotFound) {
			return ctrl.Result{}, nil
		}
		return ctrl.Result{}, err
	}
	thing := newThing()
	if err := inside.GetClient().Get(ctx, request.NamespacedName, thing); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if by, _, _ := unstructured.NestedString(thing.Object, "status", c.name); by == request.ClusterName {
		return ctrl.Result{}, nil
	}
	before := thing.DeepCopy()
	if err := unstructured.SetNestedField(thing.Object, request.ClusterName, "status", c.name); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, client.IgnoreNotFound(inside.GetClient().Status().Patch(ctx, thing, client.MergeFrom(before)))
}

// watcher is what looks at a URL of the slice, nil: nobody; the provider knows it by the beginning of its SHA-256.
func (c *controller) watcher(url string) *provider.Provider {
	sum := sha256.Sum256([]byte(url))
	return c.provider.Providers.Get(hex.EncodeToString(sum[:])[:8])
}

func (f *fleet) start(slice string) *controller {
	f.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientscheme.AddToScheme, apisv1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			f.Fatal(err)
		}
	}
	at := f.Config("root:prov")
	provider, err := apiexport.New(at, slice, apiexport.Options{Scheme: scheme})
	if err != nil {
		f.Fatal(err)
	}
	skip := true
	manager, err := mcmanager.New(at, provider, ctrl.Options{Scheme: scheme, Logger: logr.Discard(),
		Metrics: metricsserver.Options{BindAddress: "0"}, Controller: config.Controller{SkipNameValidation: &skip}})
	if err != nil {
		f.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	c := &controller{Manager: manager, provider: provider, name: slice, ended: make(chan error, 1), cancel: cancel}
	if err := mcbuilder.ControllerManagedBy(manager).Named(slice).For(newThing()).Complete(mcreconcile.Func(c.reconcile)); err != nil {
		f.Fatal(err)
	}
	go func() { c.ended <- manager.Start(ctx) }()
	f.Cleanup(func() {
		cancel()
		if err := <-c.ended; err != nil {
			f.Errorf("manager over %s: %v", slice, err)
		}
	})
	return c
}

// serves waits until the controller has its mark on the things of these consumers, and its cache of each cluster holds
// that cluster's things and no others.
func (f *fleet) serves(c *controller, consumers ...*consumer) {
	f.Helper()
	for _, one := range consumers {
		Eventually(f.T, patience, c.name+" serves "+one.path, func() error {
			list, err := one.Resource(things).List(context.Background(), metav1.ListOptions{})
			if err != nil {
				return err
			}
			want := []string{}
			for _, thing := range list.Items {
				if by, _, _ := unstructured.NestedString(thing.Object, "status", c.name); by != one.cluster {
					return fmt.Errorf("%s has status %v", thing.GetName(), thing.Object["status"])
				}
				want = append(want, string(thing.GetUID()))
			}
			inside, err := c.GetCluster(context.Background(), one.cluster)
			if err != nil {
				return err
			}
			slices.Sort(want)
			if found, err := cached(inside); err != nil || !slices.Equal(want, found) {
				return fmt.Errorf("has %v, its cache in the manager %v (%v)", want, found, err)
			}
			return nil
		})
	}
}

// cached are the UIDs of the things that the manager knows of a cluster.
func cached(inside cluster.Cluster) ([]string, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(things.GroupVersion().WithKind("ThingList"))
	found := []string{}
	err := inside.GetCache().List(context.Background(), list)
	for _, thing := range list.Items {
		found = append(found, string(thing.GetUID()))
	}
	slices.Sort(found)
	return found, err
}

func (f *fleet) disengages(c *controller, one *consumer) {
	f.Helper()
	Eventually(f.T, patience, c.name+" leaves "+one.path, func() error {
		if _, err := c.GetCluster(context.Background(), one.cluster); !errors.Is(err, multicluster.ErrClusterNotFound) {
			return fmt.Errorf("cluster is engaged (%v)", err)
		}
		return nil
	})
}

// The three modes side by side: everybody serves all consumers, whatever comes, goes or dies. What a removed shard held is
// not looked for in caches: this version of kcp's informers deletes by DELETED events only, not by what a new list lacks.
func TestMulticlusterProvider_AM553_TP136_FP095_FP096_FP097_FP098_FP099(t *testing.T) {
	log.SetLogger(logr.Discard())
	f := newFleet(t)
	consumers := make([]*consumer, len(regions))
	for number, region := range regions {
		consumers[number] = f.consumer(fmt.Sprintf("consumer-%d", number), region)
	}
	controllers := []*controller{}
	for _, mode := range []string{"direct", "proxied", "aggregated"} {
		controllers = append(controllers, f.start(f.slice(mode)))
	}
	everybody := func(consumers ...*consumer) {
		t.Helper()
		for _, c := range controllers {
			f.serves(c, consumers...)
		}
	}
	everybody(consumers...)

	late := f.consumer("late", regions[1])
	everybody(late)

	proxied := controllers[1]
	url := func(shard string) string {
		return fmt.Sprintf("https://127.0.0.1:%d/shards/%s/services/apiexport/%s/things", f.Port, shard, f.cluster("prov"))
	}
	watchers := []*provider.Provider{proxied.watcher(url("root")), proxied.watcher(url("shard-1")), proxied.watcher(url("shard-2"))}
	before, err := f.Kill("shard-1", syscall.SIGKILL)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Restarted("shard-1", before, 20*time.Second); err != nil {
		t.Fatal(err)
	}
	f.more(append(consumers, late), "after-kill")
	everybody(append(consumers, late)...)
	for number, shard := range []string{"root", "shard-1", "shard-2"} {
		if now := proxied.watcher(url(shard)); now == nil || now != watchers[number] {
			t.Errorf("%s is watched by %p, before the kill by %p", shard, now, watchers[number])
		}
	}

	if err := late.Resource(bindings).Delete(context.Background(), "things", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, c := range controllers {
		f.disengages(c, late)
	}

	shard := f.JoinShard("shard-3", "us-west-2")
	joined := f.consumer("joined", "us-west-2")
	everybody(joined)
	gone := url("shard-3")
	if proxied.watcher(gone) == nil {
		t.Errorf("nobody watches %s", gone)
	}
	shards := Dynamic(t, f.Config("root")).Resource(Shards)
	if err := shards.Delete(context.Background(), "shard-3", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	Eventually(t, patience, "the URL of a removed shard is left", func() error {
		if proxied.watcher(gone) != nil {
			return errors.New("is still watched")
		}
		return nil
	})
	if err := shard.Stop(); err != nil {
		t.Fatal(err)
	}
	f.more(consumers, "at-last")
	everybody(consumers...)

	if err := f.provider.Resource(endpointSlices).Delete(context.Background(), controllers[0].name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	number := 0
	Eventually(t, patience, "a controller stops with its slice", func() error {
		number++
		f.more(consumers, fmt.Sprintf("without-slice-%d", number))
		for _, c := range controllers[1:] {
			f.serves(c, consumers...)
		}
		for _, one := range consumers {
			thing, err := one.Resource(things).Namespace("default").Get(context.Background(), fmt.Sprintf("without-slice-%d", number), metav1.GetOptions{})
			if err != nil {
				return err
			}
			if _, found, _ := unstructured.NestedString(thing.Object, "status", controllers[0].name); found {
				return fmt.Errorf("status %v", thing.Object["status"])
			}
		}
		return nil
	})
}
