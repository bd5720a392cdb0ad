package clients

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	metav1apply "k8s.io/client-go/applyconfigurations/meta/v1"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/util/retry"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	e2e "kintsugi.dev/e2e"
)

const (
	finalizer  = "e2e.example.com/cleanup"
	colorField = "spec.color"
	leaseTime  = 10 * time.Second // the leader may be held up for three quarters of it
)

// reconciler keeps for every gadget a config map written by CreateOrUpdate and one written by server-side apply.
type reconciler struct {
	client.Client
	manager ctrl.Manager
	name    string
	mutex   sync.Mutex
	cleaned map[types.UID]int // calls of the finalizer
}

func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	gadget := &Gadget{}
	if err := r.Get(ctx, request.NamespacedName, gadget); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !gadget.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, r.finish(ctx, gadget)
	}
	if controllerutil.AddFinalizer(gadget, finalizer) {
		if err := r.Update(ctx, gadget); err != nil {
			return ctrl.Result{}, err
		}
	}
	if err := r.writeChildren(ctx, gadget); err != nil {
		return ctrl.Result{}, err
	}
	peers := &GadgetList{}
	if err := r.List(ctx, peers, client.InNamespace(gadget.Namespace), client.MatchingFields{colorField: gadget.Spec.Color}); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, r.writeStatus(ctx, gadget, len(peers.Items))
}

func (r *reconciler) finish(ctx context.Context, gadget *Gadget) error {
	r.mutex.Lock()
	r.cleaned[gadget.UID]++
	r.mutex.Unlock()
	before := gadget.DeepCopy()
	if !controllerutil.RemoveFinalizer(gadget, finalizer) {
		return nil
	}
	return client.IgnoreNotFound(r.Patch(ctx, gadget, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})))
}

func (r *reconciler) writeChildren(ctx context.Context, gadget *Gadget) error {
	child := configMap(gadget.Name+"-owned", nil, "", "")
	child.Namespace, child.Data = gadget.Namespace, nil
	result, err := controllerutil.CreateOrUpdate(ctx, r.Client, child, func() error {
		child.Data = map[string]string{"size": strconv.Itoa(gadget.Spec.Size)}
		return controllerutil.SetControllerReference(gadget, child, r.Scheme())
	})
	if err != nil {
		return err
	}
	if result == controllerutil.OperationResultCreated {
		r.manager.GetEventRecorder(r.name).Eventf(gadget, child, corev1.EventTypeNormal, "Made", "Reconcile", "made %s", child.Name)
	}
	applied := corev1apply.ConfigMap(gadget.Name+"-applied", gadget.Namespace).WithData(map[string]string{"color": gadget.Spec.Color}).
		WithOwnerReferences(metav1apply.OwnerReference().WithAPIVersion(gadgetVersion.String()).WithKind("Gadget").
			WithName(gadget.Name).WithUID(gadget.UID).WithController(true))
	return r.Apply(ctx, applied, client.FieldOwner("gadgets"), client.ForceOwnership)
}

func (r *reconciler) writeStatus(ctx context.Context, gadget *Gadget, peers int) error {
	ready := metav1.Condition{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Made", ObservedGeneration: gadget.Generation}
	next := gadget.DeepCopy()
	next.Status.Size, next.Status.Peers, next.Status.By = gadget.Spec.Size, peers, r.name
	changed := meta.SetStatusCondition(&next.Status.Conditions, ready)
	if !changed && next.Status.Size == gadget.Status.Size && next.Status.Peers == gadget.Status.Peers && next.Status.By == gadget.Status.By {
		return nil
	}
	switch gadget.Spec.Status {
	case "update":
		return r.Status().Update(ctx, next)
	case "merge":
		return r.Status().Patch(ctx, next, client.MergeFrom(gadget))
	case "apply":
		status, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&next.Status)
		if err != nil {
			return err
		}
		object := &unstructured.Unstructured{Object: map[string]any{"status": status}}
		object.SetGroupVersionKind(gadgetVersion.WithKind("Gadget"))
		object.SetNamespace(gadget.Namespace)
		object.SetName(gadget.Name)
		return r.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner(r.name), client.ForceOwnership)
	}
	return fmt.Errorf("no such method: %q", gadget.Spec.Status)
}

// runningManager is a manager in this process.
type runningManager struct {
	ctrl.Manager
	*reconciler
	kill  context.CancelFunc // ends it without giving up the lease
	ended chan struct{}
}

func startManager(t *testing.T, at place, name string) *runningManager {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientscheme.AddToScheme, addGadgets} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	config := config.Controller{SkipNameValidation: pointer(true)}
	manager := must[ctrl.Manager](t)(ctrl.NewManager(at.config, ctrl.Options{Scheme: scheme, Controller: config,
		Metrics: metricsserver.Options{BindAddress: "0"}, Cache: cache.Options{DefaultNamespaces: map[string]cache.Config{namespace: {}}},
		LeaderElection: true, LeaderElectionID: "gadgets", LeaderElectionNamespace: namespace, LeaseDuration: pointer(leaseTime),
		RenewDeadline: pointer(leaseTime * 3 / 4), RetryPeriod: pointer(leaseTime / 20), GracefulShutdownTimeout: pointer(deadline)}))
	ctx, kill := context.WithCancel(context.Background())
	running := &runningManager{manager, &reconciler{Client: manager.GetClient(), manager: manager, name: name,
		cleaned: map[types.UID]int{}}, kill, make(chan struct{})}
	if err := manager.GetFieldIndexer().IndexField(ctx, &Gadget{}, colorField,
		func(object client.Object) []string { return []string{object.(*Gadget).Spec.Color} }); err != nil {
		t.Fatal(err)
	}
	if err := ctrl.NewControllerManagedBy(manager).For(&Gadget{}).Owns(&corev1.ConfigMap{}).Complete(running.reconciler); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(running.ended)
		if err := manager.Start(ctx); err != nil && ctx.Err() == nil {
			t.Errorf("manager %s: %v", name, err)
		}
	}()
	t.Cleanup(func() {
		kill()
		<-running.ended
	})
	return running
}

func TestControllerRuntime_AM552(t *testing.T) {
	log.SetLogger(logr.Discard())
	at := newPlace(t)
	if _, err := envtest.InstallCRDs(at.config, envtest.CRDInstallOptions{CRDs: []*apiextensionsv1.CustomResourceDefinition{
		definition("gadgets", "Gadget", apiextensionsv1.NamespaceScoped)}}); err != nil {
		t.Fatal(err)
	}
	leader := startManager(t, at, "first")
	select {
	case <-leader.Elected():
	case <-time.After(deadline):
		t.Fatal("nobody leads")
	}
	successor := startManager(t, at, "second")
	user := must[client.Client](t)(client.New(at.config, client.Options{Scheme: leader.GetScheme()}))
	labels := map[string]string{"set": "one"}
	for _, method := range []string{"update", "merge", "apply"} {
		if err := user.Create(t.Context(), newGadget(method, GadgetSpec{Size: 1, Color: "red", Status: method}, labels)); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		name string
		run  func(*testing.T, client.Client)
	}{
		{"Reconciles", reconciles}, {"MakesChildrenAgain", makesChildrenAgain}, {"GuardsItsFields", guardsItsFields},
		{"RecordsEvents", recordsEvents}, {"RefusesStaleWrites", refusesStaleWrites},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, user) })
	}
	t.Run("ReadsItsCache", func(t *testing.T) { readsItsCache(t, leader, user) })
	t.Run("FinalizesAndCollects", func(t *testing.T) { finalizesAndCollects(t, leader.reconciler, user) })
	t.Run("FailsOver", func(t *testing.T) { failsOver(t, leader, successor, user) })
	if t.Failed() {
		t.Logf("cleaned by the first: %v, by the second: %v", leader.cleaned, successor.cleaned)
	}
}

func key(name string) client.ObjectKey { return client.ObjectKey{Namespace: namespace, Name: name} }

// reached waits until a gadget's status says size, peers and its current generation.
func reached(t *testing.T, user client.Client, name, by string, size, peers int) {
	t.Helper()
	e2e.Eventually(t, deadline, "status of "+name, func() error {
		gadget := &Gadget{}
		if err := user.Get(t.Context(), key(name), gadget); err != nil {
			return err
		}
		ready := meta.FindStatusCondition(gadget.Status.Conditions, "Ready")
		if ready == nil || ready.ObservedGeneration != gadget.Generation || gadget.Status.Size != size || gadget.Status.By != by ||
			(peers > 0 && gadget.Status.Peers != peers) {
			return fmt.Errorf("generation %d: %+v", gadget.Generation, gadget.Status)
		}
		return nil
	})
}

func reconciles(t *testing.T, user client.Client) {
	for _, name := range []string{"update", "merge", "apply"} {
		reached(t, user, name, "first", 1, 0)
		err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
			gadget := &Gadget{}
			if err := user.Get(t.Context(), key(name), gadget); err != nil {
				return err
			}
			gadget.Spec.Size, gadget.Status.Size = 7, 1000 // the status is not for this endpoint
			return user.Update(t.Context(), gadget)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"update", "merge", "apply"} {
		reached(t, user, name, "first", 7, 3)
		gadget, child, applied := &Gadget{}, &corev1.ConfigMap{}, &corev1.ConfigMap{}
		for object, of := range map[client.Object]string{gadget: name, child: name + "-owned", applied: name + "-applied"} {
			if err := user.Get(t.Context(), key(of), object); err != nil {
				t.Fatal(err)
			}
		}
		if gadget.Generation != 2 || !controllerutil.ContainsFinalizer(gadget, finalizer) {
			t.Errorf("%s: generation %d, finalizers %v", name, gadget.Generation, gadget.Finalizers)
		}
		if child.Data["size"] != "7" || !metav1.IsControlledBy(child, gadget) || applied.Data["color"] != "red" || !metav1.IsControlledBy(applied, gadget) {
			t.Errorf("%s: children %v %v of %v %v", name, child.Data, applied.Data, child.OwnerReferences, applied.OwnerReferences)
		}
	}
}

func makesChildrenAgain(t *testing.T, user client.Client) {
	for _, name := range []string{"update-owned", "update-applied"} {
		child := &corev1.ConfigMap{}
		if err := user.Get(t.Context(), key(name), child); err != nil {
			t.Fatal(err)
		}
		if err := user.Delete(t.Context(), child, client.Preconditions{UID: &child.UID}); err != nil {
			t.Fatal(err)
		}
		e2e.Eventually(t, deadline, name+" made again", func() error {
			again := &corev1.ConfigMap{}
			err := user.Get(t.Context(), key(name), again)
			if err == nil && again.UID == child.UID {
				err = errors.New("still the old one")
			}
			return err
		})
	}
}

// guardsItsFields: what the reconciler applied conflicts for others, and comes back when it is forced away.
func guardsItsFields(t *testing.T, user client.Client) {
	theirs := func() *corev1apply.ConfigMapApplyConfiguration {
		return corev1apply.ConfigMap("merge-applied", namespace).WithData(map[string]string{"color": "blue", "more": "yes"})
	}
	err := user.Apply(t.Context(), theirs(), client.FieldOwner("user"))
	if !apierrors.IsConflict(err) || !apierrors.HasStatusCause(err, metav1.CauseTypeFieldManagerConflict) {
		t.Errorf("apply of an owned field: %v", err)
	}
	if err = user.Apply(t.Context(), theirs(), client.FieldOwner("user"), client.ForceOwnership); err != nil {
		t.Fatal(err)
	}
	e2e.Eventually(t, deadline, "field restored", func() error {
		child := &corev1.ConfigMap{}
		if err := user.Get(t.Context(), key("merge-applied"), child); err != nil {
			return err
		}
		if child.Data["color"] != "red" || child.Data["more"] != "yes" {
			return fmt.Errorf("data %v", child.Data)
		}
		return nil
	})
}

func recordsEvents(t *testing.T, user client.Client) {
	e2e.Eventually(t, deadline, "event", func() error {
		events := &eventsv1.EventList{}
		if err := user.List(t.Context(), events, client.InNamespace(namespace), client.MatchingFields{"reason": "Made"}); err != nil {
			return err
		}
		for _, event := range events.Items {
			if event.Regarding.Name == "update" && event.Related != nil && event.Related.Name == "update-owned" {
				return nil
			}
		}
		return fmt.Errorf("%d other events", len(events.Items))
	})
}

func refusesStaleWrites(t *testing.T, user client.Client) {
	ctx := t.Context()
	object := configMap("stale", nil, "n", "0")
	object.Namespace = namespace
	if err := user.Create(ctx, object); err != nil {
		t.Fatal(err)
	}
	stale := object.DeepCopy()
	object.Data["n"] = "1"
	if err := user.Update(ctx, object); err != nil {
		t.Fatal(err)
	}
	changed := stale.DeepCopy()
	changed.Data["n"] = "2"
	if err := user.Update(ctx, changed.DeepCopy()); !apierrors.IsConflict(err) {
		t.Errorf("update of an old version: %v", err)
	}
	locked := client.MergeFromWithOptions(stale, client.MergeFromWithOptimisticLock{})
	if err := user.Patch(ctx, changed.DeepCopy(), locked); !apierrors.IsConflict(err) {
		t.Errorf("locked patch of an old version: %v", err)
	}
	if err := user.Patch(ctx, changed, client.StrategicMergeFrom(stale)); err != nil || changed.Data["n"] != "2" {
		t.Errorf("strategic patch: %v, %v", changed.Data, err)
	}
	tried := configMap("never", nil, "n", "0")
	tried.Namespace = namespace
	if err := client.NewDryRunClient(user).Create(ctx, tried); err != nil || tried.UID == "" {
		t.Errorf("dry run: %q, %v", tried.UID, err)
	}
	if err := user.Get(ctx, key("never"), tried); !apierrors.IsNotFound(err) {
		t.Errorf("after a dry run: %v", err)
	}
	if err := user.Get(ctx, key("update"), &Gadget{}, client.DisableReadYourWritesConsistency); err != nil {
		t.Error(err)
	}
	wrong := newGadget("wrong", GadgetSpec{Size: -1}, nil)
	if err := user.Create(ctx, wrong); !apierrors.IsInvalid(err) {
		t.Errorf("create against the schema: %v", err)
	}
}

// readsItsCache: objects and metadata come from informers, by index and by label.
func readsItsCache(t *testing.T, manager *runningManager, user client.Client) {
	metadatas := &metav1.PartialObjectMetadataList{}
	metadatas.SetGroupVersionKind(gadgetVersion.WithKind("GadgetList"))
	if err := manager.GetClient().List(t.Context(), metadatas, client.InNamespace(namespace), client.MatchingLabels{"set": "one"}); err != nil ||
		len(metadatas.Items) != 3 {
		t.Errorf("%d of metadata: %v", len(metadatas.Items), err)
	}
	if err := user.Patch(t.Context(), newGadget("update", GadgetSpec{}, nil),
		client.RawPatch(types.JSONPatchType, []byte(`[{"op":"replace","path":"/spec/color","value":"green"}]`))); err != nil {
		t.Fatal(err)
	}
	e2e.Eventually(t, deadline, "index by color", func() error {
		green := &GadgetList{}
		err := manager.GetClient().List(t.Context(), green, client.MatchingFields{colorField: "green"})
		if err == nil && (len(green.Items) != 1 || green.Items[0].Name != "update") {
			err = fmt.Errorf("%d green ones", len(green.Items))
		}
		return err
	})
	reached(t, user, "update", "first", 7, 1)
}

func finalizesAndCollects(t *testing.T, leader *reconciler, user client.Client) {
	propagations := map[string]metav1.DeletionPropagation{"update": metav1.DeletePropagationBackground, "merge": metav1.DeletePropagationForeground}
	for name, propagation := range propagations {
		gadget := &Gadget{}
		if err := user.Get(t.Context(), key(name), gadget); err != nil {
			t.Fatal(err)
		}
		if err := user.Delete(t.Context(), gadget, client.PropagationPolicy(propagation)); err != nil {
			t.Fatal(err)
		}
		gone(t, user, name, &Gadget{})
		gone(t, user, name+"-owned", &corev1.ConfigMap{})
		gone(t, user, name+"-applied", &corev1.ConfigMap{})
		leader.mutex.Lock()
		if leader.cleaned[gadget.UID] == 0 {
			t.Errorf("%s is gone without its finalizer", name)
		}
		leader.mutex.Unlock()
	}
}

func gone(t *testing.T, user client.Client, name string, object client.Object) {
	t.Helper()
	e2e.Eventually(t, deadline, name+" gone", func() error {
		err := user.Get(t.Context(), key(name), object)
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("%v: %w", object.GetDeletionTimestamp(), err)
	})
}

// failsOver kills the leader; the other manager waits for the lease to run out and takes over.
func failsOver(t *testing.T, leader, successor *runningManager, user client.Client) {
	select {
	case <-successor.Elected():
		t.Fatal("both lead")
	default:
	}
	leader.kill()
	<-leader.ended
	if err := user.Create(t.Context(), newGadget("late", GadgetSpec{Size: 3, Color: "late", Status: "apply"}, map[string]string{"set": "two"})); err != nil {
		t.Fatal(err)
	}
	select {
	case <-successor.Elected():
	case <-time.After(deadline):
		t.Fatal("nobody takes over")
	}
	reached(t, user, "late", "second", 3, 1)
	reached(t, user, "apply", "second", 7, 1)
	if err := user.DeleteAllOf(t.Context(), &Gadget{}, client.InNamespace(namespace), client.HasLabels{"set"}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"late", "apply"} {
		gone(t, user, name, &Gadget{})
		gone(t, user, name+"-owned", &corev1.ConfigMap{})
	}
}
