package clients

import (
	"context"
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	e2e "kintsugi.dev/e2e"
)

var (
	widgets        = schema.GroupVersionResource{Group: "story.example.com", Version: "v1", Resource: "widgets"}
	schemas        = schema.GroupVersionResource{Group: "apis.kcp.io", Version: "v1alpha1", Resource: "apiresourceschemas"}
	exports        = schema.GroupVersionResource{Group: "apis.kcp.io", Version: "v1alpha2", Resource: "apiexports"}
	bindings       = schema.GroupVersionResource{Group: "apis.kcp.io", Version: "v1alpha2", Resource: "apibindings"}
	endpointSlices = schema.GroupVersionResource{Group: "apis.kcp.io", Version: "v1alpha1", Resource: "apiexportendpointslices"}
	partitions     = schema.GroupVersionResource{Group: "topology.kcp.io", Version: "v1alpha1", Resource: "partitions"}
)

func object(gvr schema.GroupVersionResource, kind, name string, content map[string]any) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: content}
	o.SetGroupVersionKind(gvr.GroupVersion().WithKind(kind))
	o.SetName(name)
	return o
}

// provider works on the widgets of all consumers that one endpoint shows: it signs each in its status.
type provider struct {
	client.Client
	endpoint string
	base     *rest.Config
	name     string
	mutex    sync.Mutex
	signed   map[types.UID]string // to the cluster of the widget
}

func at(base *rest.Config, host string) *rest.Config {
	c := rest.CopyConfig(base)
	c.Host = host
	return c
}

func (p *provider) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	widget := &unstructured.Unstructured{}
	widget.SetGroupVersionKind(widgets.GroupVersion().WithKind("Widget"))
	if err := p.Get(ctx, request.NamespacedName, widget); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if by, _, _ := unstructured.NestedString(widget.Object, "status", p.name); by == "done" {
		return ctrl.Result{}, nil
	}
	cluster := widget.GetAnnotations()["kcp.io/cluster"]
	inCluster, err := dynamic.NewForConfig(at(p.base, p.endpoint+"/clusters/"+cluster))
	if err != nil {
		return ctrl.Result{}, err
	}
	patch := fmt.Sprintf(`{"status":{%q:"done"}}`, p.name)
	_, err = inCluster.Resource(widgets).Namespace(widget.GetNamespace()).Patch(ctx, widget.GetName(), types.MergePatchType,
		[]byte(patch), metav1.PatchOptions{}, "status")
	if err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.signed[widget.GetUID()] = cluster
	return ctrl.Result{}, nil
}

func (p *provider) count() int {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return len(p.signed)
}

// run starts an unchanged controller-runtime manager over the endpoint of a slice.
func (p *provider) run(t *testing.T) {
	t.Helper()
	skip := true
	manager, err := ctrl.NewManager(at(p.base, p.endpoint+"/clusters/*"), ctrl.Options{
		Logger: logr.Discard(), Metrics: metricsserver.Options{BindAddress: "0"}, Controller: config.Controller{SkipNameValidation: &skip}})
	if err != nil {
		t.Fatal(err)
	}
	p.Client, p.signed = manager.GetClient(), map[types.UID]string{}
	watched := &unstructured.Unstructured{}
	watched.SetGroupVersionKind(widgets.GroupVersion().WithKind("Widget"))
	// Reads of the client come from the cache for unstructured objects too.
	p.Client, err = client.New(manager.GetConfig(), client.Options{Cache: &client.CacheOptions{Reader: manager.GetCache(), Unstructured: true},
		HTTPClient: manager.GetHTTPClient(), Mapper: manager.GetRESTMapper(), Scheme: manager.GetScheme()})
	if err != nil {
		t.Fatal(err)
	}
	if err := ctrl.NewControllerManagedBy(manager).Named(p.name).For(watched).Complete(p); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- manager.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("manager %s: %v", p.name, err)
		}
	})
}

// endpoint waits until a slice has exactly one URL.
func endpoint(t *testing.T, acme dynamic.Interface, name string) string {
	t.Helper()
	url := ""
	e2e.Eventually(t, 20*time.Second, "the endpoint of "+name, func() error {
		slice, err := acme.Resource(endpointSlices).Get(context.Background(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		endpoints, _, _ := unstructured.NestedSlice(slice.Object, "status", "endpoints")
		if len(endpoints) != 1 {
			return fmt.Errorf("status %v", slice.Object["status"])
		}
		url = endpoints[0].(map[string]any)["url"].(string)
		return nil
	})
	return url
}

// The story of the seed: a provider in root:acme, consumers on every shard, one endpoint, one credential.
func TestProviderOverAllShards(t *testing.T) {
	const consumers = 30
	ctx := context.Background()
	installation := e2e.StartInstallation(t)
	acme := e2e.Dynamic(t, installation.Config(installation.MakeWorkspace("acme", "eu-west-1")))
	property := map[string]any{"type": "object", "properties": map[string]any{
		"spec":   map[string]any{"type": "object", "properties": map[string]any{"size": map[string]any{"type": "integer"}}},
		"status": map[string]any{"type": "object", "additionalProperties": map[string]any{"type": "string"}}}}
	must[*unstructured.Unstructured](t)(acme.Resource(schemas).Create(ctx, object(schemas, "APIResourceSchema", "v1.widgets.story.example.com", map[string]any{
		"spec": map[string]any{"group": "story.example.com", "scope": "Namespaced",
			"names": map[string]any{"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
			"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true, "schema": property,
				"subresources": map[string]any{"status": map[string]any{}}}}}}), metav1.CreateOptions{}))
	must[*unstructured.Unstructured](t)(acme.Resource(exports).Create(ctx, object(exports, "APIExport", "widgets", map[string]any{"spec": map[string]any{
		"resources": []any{map[string]any{"group": "story.example.com", "name": "widgets", "schema": "v1.widgets.story.example.com",
			"storage": map[string]any{"crd": map[string]any{}}}}}}), metav1.CreateOptions{}))
	aggregated := map[string]any{"kintsugi.dev/endpoint-mode": "aggregated"}
	must[*unstructured.Unstructured](t)(acme.Resource(partitions).Create(ctx, object(partitions, "Partition", "eu", map[string]any{"spec": map[string]any{
		"selector": map[string]any{"matchLabels": map[string]any{"region": "eu-west-1"}}}}), metav1.CreateOptions{}))
	e2e.Eventually(t, 20*time.Second, "slices", func() error {
		for name, partition := range map[string]string{"everywhere": "", "europe": "eu"} {
			spec := map[string]any{"export": map[string]any{"path": "root:acme", "name": "widgets"}}
			if partition != "" {
				spec["partition"] = partition
			}
			slice := object(endpointSlices, "APIExportEndpointSlice", name, map[string]any{
				"metadata": map[string]any{"annotations": aggregated}, "spec": spec})
			slice.SetName(name)
			if _, err := acme.Resource(endpointSlices).Create(ctx, slice, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
				return err
			}
		}
		return nil
	})
	base := installation.Config("")
	all := &provider{name: "all", base: base, endpoint: endpoint(t, acme, "everywhere")}
	all.run(t)
	europe := &provider{name: "europe", base: base, endpoint: endpoint(t, acme, "europe")}
	europe.run(t)

	regions := []string{"eu-west-1", "us-east-1", "ap-south-1"}
	clients := make([]dynamic.Interface, consumers)
	var group sync.WaitGroup
	for number := range consumers {
		clients[number] = e2e.Dynamic(t, installation.Config(installation.MakeWorkspace(fmt.Sprintf("consumer-%02d", number), regions[number%3])))
		group.Go(func() { consume(t, clients[number], number) })
	}
	group.Wait()
	signed := func(what string, want, inEurope int) {
		t.Helper()
		e2e.Eventually(t, 60*time.Second, what, func() error {
			if all.count() != want || europe.count() != inEurope {
				return fmt.Errorf("signed %d of %d, in Europe %d of %d", all.count(), want, europe.count(), inEurope)
			}
			return nil
		})
	}
	signed("every widget is signed", consumers, consumers/3)

	before, err := installation.Kill("shard-1", syscall.SIGKILL)
	if err != nil {
		t.Fatal(err)
	}
	if err := installation.Restarted("shard-1", before, 20*time.Second); err != nil {
		t.Fatal(err)
	}
	for number := range consumers {
		group.Go(func() { makeWidget(t, clients[number], fmt.Sprintf("second-%02d", number)) })
	}
	group.Wait()
	signed("widgets made after a shard was killed are signed", 2*consumers, 2*consumers/3)
}

// consume binds the API and makes the first widget.
func consume(t *testing.T, workspace dynamic.Interface, number int) {
	binding := object(bindings, "APIBinding", "widgets", map[string]any{"spec": map[string]any{
		"reference": map[string]any{"export": map[string]any{"path": "root:acme", "name": "widgets"}}}})
	e2e.Eventually(t, 30*time.Second, "binding", func() error {
		_, err := workspace.Resource(bindings).Create(context.Background(), binding.DeepCopy(), metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
		found, err := workspace.Resource(bindings).Get(context.Background(), "widgets", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if phase, _, _ := unstructured.NestedString(found.Object, "status", "phase"); phase != "Bound" {
			return fmt.Errorf("status %v", found.Object["status"])
		}
		return nil
	})
	makeWidget(t, workspace, fmt.Sprintf("first-%02d", number))
}

func makeWidget(t *testing.T, workspace dynamic.Interface, name string) {
	widget := object(widgets, "Widget", name, map[string]any{"spec": map[string]any{"size": int64(1)}})
	e2e.Eventually(t, 30*time.Second, "widget "+name, func() error {
		_, err := workspace.Resource(widgets).Namespace("default").Create(context.Background(), widget.DeepCopy(), metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	})
}
