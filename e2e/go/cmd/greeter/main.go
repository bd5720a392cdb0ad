// Command greeter is the controller of workers/example on controller-runtime: it says hello in the status of every Greeting of a
// cluster. bench/run_workers_peer.py measures the two beside each other. Its options are the environment of main.
package main

import (
	"context"
	"errors"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/log"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/scheme"
)

const (
	atOnce   = 16 // reconciles, as workers/example has them
	patience = 30 * time.Second
)

// Greeting is the kind of configs/worker.
type Greeting struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              GreetingSpec   `json:"spec,omitempty"`
	Status            GreetingStatus `json:"status,omitempty"`
}

type GreetingSpec struct {
	Name string `json:"name"`
}

type GreetingStatus struct {
	Message            string             `json:"message,omitempty"`
	ObservedGeneration int64              `json:"observedGeneration,omitempty"`
	Conditions         []metav1.Condition `json:"conditions,omitempty"`
}

type GreetingList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Greeting `json:"items"`
}

func (g *Greeting) DeepCopy() *Greeting {
	c := *g
	g.ObjectMeta.DeepCopyInto(&c.ObjectMeta)
	c.Status.Conditions = slices.Clone(g.Status.Conditions)
	return &c
}

func (g *Greeting) DeepCopyObject() runtime.Object { return g.DeepCopy() }

func (l *GreetingList) DeepCopyObject() runtime.Object {
	c := *l
	l.ListMeta.DeepCopyInto(&c.ListMeta)
	c.Items = make([]Greeting, len(l.Items))
	for i := range l.Items {
		c.Items[i] = *l.Items[i].DeepCopy()
	}
	return &c
}

type reconciler struct{ client.Client }

func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	greeting := &Greeting{}
	if err := r.Get(ctx, request.NamespacedName, greeting); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	before := greeting.DeepCopy()
	greeting.Status.Message = "Hello, " + greeting.Spec.Name + "!"
	greeting.Status.ObservedGeneration = greeting.Generation
	meta.SetStatusCondition(&greeting.Status.Conditions, metav1.Condition{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Said",
		Message: "hello was said", ObservedGeneration: greeting.Generation})
	if equality.Semantic.DeepEqual(before.Status, greeting.Status) {
		return ctrl.Result{}, nil
	}
	return ctrl.Result{}, client.IgnoreNotFound(r.Status().Patch(ctx, greeting, client.MergeFrom(before)))
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// main reads from the environment: KUBECONFIG; CLUSTER_URL, where the Greetings are; METRICS and HEALTH, addresses to listen on;
// STRIP=1, for a cache without managedFields.
func main() {
	log.SetLogger(logr.Discard())
	config := must(clientcmd.BuildConfigFromFlags(os.Getenv("CLUSTER_URL"), os.Getenv("KUBECONFIG")))
	config.QPS = -1
	types := runtime.NewScheme()
	kinds := scheme.Builder{GroupVersion: schema.GroupVersion{Group: "example.kintsugi.dev", Version: "v1alpha1"}}
	if err := kinds.Register(&Greeting{}, &GreetingList{}).AddToScheme(types); err != nil {
		panic(err)
	}
	options := ctrl.Options{Scheme: types, Metrics: metricsserver.Options{BindAddress: os.Getenv("METRICS")},
		HealthProbeBindAddress: os.Getenv("HEALTH")}
	if os.Getenv("STRIP") != "" {
		options.Cache.DefaultTransform = cache.TransformStripManagedFields()
	}
	manager := must(ctrl.NewManager(config, options))
	if err := ctrl.NewControllerManagedBy(manager).For(&Greeting{}).WithOptions(controller.Options{MaxConcurrentReconciles: atOnce}).
		Complete(&reconciler{manager.GetClient()}); err != nil {
		panic(err)
	}
	synced := func(*http.Request) error {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if !manager.GetCache().WaitForCacheSync(ctx) {
			return errors.New("not synced")
		}
		return nil
	}
	if err := manager.AddReadyzCheck("synced", synced); err != nil {
		panic(err)
	}
	if err := manager.Start(ctrl.SetupSignalHandler()); err != nil {
		panic(err)
	}
}
