package clients

import (
	"context"
	"fmt"
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
	return ctrl.Result{}, client.IgnoreNotFound(err)
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

// consume binds the API and makes the first widget.
func consume(t *testing.T, workspace dynamic.Interface, first string) {
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
	makeWidget(t, workspace, first)
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
