// Package clients tests what is built on client-go: its own helpers and controller-runtime, against a workspace of
// another shard than root's, through the proxy.
package clients

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/tools/pager"
	"k8s.io/client-go/util/retry"

	e2e "kintsugi.dev/e2e"
)

const (
	deadline    = 30 * time.Second
	namespace   = "default"
	otherRegion = "us-east-1" // of shard-1; root is on another one
)

var configMaps = corev1.SchemeGroupVersion.WithResource("configmaps")

// place is a fresh workspace and the access to it.
type place struct {
	installation *e2e.Installation
	config       *rest.Config
}

func newPlace(t *testing.T) place {
	t.Helper()
	installation := e2e.StartInstallation(t)
	return place{installation, installation.Config(installation.MakeWorkspace("clients", otherRegion))}
}

func must[T any](t *testing.T) func(T, error) T {
	return func(value T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

func TestClientGo(t *testing.T) {
	at := newPlace(t)
	for _, test := range []struct {
		name string
		run  func(*testing.T, place)
	}{
		{"InformersFollow_AM545", informersFollow},
		{"InformerListsThenWatches_AM546", informerListsThenWatches},
		{"TypedWithProtobuf_AM547", typedWithProtobuf},
		{"MetadataClient_AM548", metadataClient},
		{"DiscoveryAndMappers_AM549", discoveryAndMappers},
		{"LeaderElection_AM550", leaderElection},
		{"RetryOnConflict_AM551", retryOnConflict},
		{"ServerSideApply", serverSideApply},
		{"Pager", pages},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, at) })
	}
}

// informersFollow runs a typed, a dynamic and a metadata informer with a label selector over the same objects.
func informersFollow(t *testing.T, at place) {
	ctx, cancel := context.WithCancel(t.Context())
	const selector = "informed=yes"
	narrow := func(options *metav1.ListOptions) { options.LabelSelector = selector }
	client := e2e.Typed(t, at.config)
	typed := informers.NewSharedInformerFactoryWithOptions(e2e.Typed(t, e2e.ProtobufOnly(at.config)), 0,
		informers.WithNamespace(namespace), informers.WithTweakListOptions(narrow))
	dynamic := dynamicinformer.NewFilteredDynamicSharedInformerFactory(e2e.Dynamic(t, at.config), 0, namespace, narrow)
	metadatas := metadatainformer.NewFilteredSharedInformerFactory(must[metadata.Interface](t)(metadata.NewForConfig(at.config)), 0,
		namespace, narrow)
	caches := map[string]cache.SharedIndexInformer{
		"typed":    typed.Core().V1().ConfigMaps().Informer(),
		"dynamic":  dynamic.ForResource(configMaps).Informer(),
		"metadata": metadatas.ForResource(configMaps).Informer(),
	}
	var running sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	for _, informer := range caches {
		running.Go(func() { informer.RunWithContext(ctx) })
	}
	for name, informer := range caches {
		if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
			t.Fatalf("%s informer did not sync", name)
		}
		if items := informer.GetStore().List(); len(items) != 0 {
			t.Fatalf("%s informer of nothing has %v", name, items)
		}
	}
	maps := client.CoreV1().ConfigMaps(namespace)
	settled := func(what, name, version string) {
		t.Helper()
		for kind, informer := range caches {
			e2e.Eventually(t, deadline, kind+" informer: "+what, func() error {
				item, found, err := informer.GetStore().GetByKey(namespace + "/" + name)
				if err != nil || !found {
					if err == nil && version != "" {
						err = errors.New("absent")
					}
					return err
				}
				accessor, err := meta.Accessor(item)
				if err == nil && accessor.GetResourceVersion() != version {
					err = fmt.Errorf("at %s, not %q", accessor.GetResourceVersion(), version)
				}
				return err
			})
		}
	}
	labels := map[string]string{"informed": "yes"}
	made := must[*corev1.ConfigMap](t)(maps.Create(ctx, configMap("followed", labels, "k", "1"), metav1.CreateOptions{}))
	settled("created", made.Name, made.ResourceVersion)
	made.Data["k"] = "2"
	made = must[*corev1.ConfigMap](t)(maps.Update(ctx, made, metav1.UpdateOptions{}))
	settled("updated", made.Name, made.ResourceVersion)
	made.Labels["informed"] = "no"
	made = must[*corev1.ConfigMap](t)(maps.Update(ctx, made, metav1.UpdateOptions{}))
	settled("left the selection", made.Name, "")
	made.Labels["informed"] = "yes"
	made = must[*corev1.ConfigMap](t)(maps.Update(ctx, made, metav1.UpdateOptions{}))
	settled("entered the selection", made.Name, made.ResourceVersion)
	if err := maps.Delete(ctx, made.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	settled("deleted", made.Name, "")
}

// oldListWatch makes informers list and watch, as those before client-go 1.35 do.
type oldListWatch struct{ *cache.ListWatch }

func (oldListWatch) IsWatchListSemanticsUnSupported() bool { return true }

func informerListsThenWatches(t *testing.T, at place) {
	ctx, cancel := context.WithCancel(t.Context())
	var mutex sync.Mutex
	var queries []url.Values
	config := rest.CopyConfig(at.config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return transport(func(request *http.Request) (*http.Response, error) {
			mutex.Lock()
			queries = append(queries, request.URL.Query())
			mutex.Unlock()
			return next.RoundTrip(request)
		})
	})
	maps := e2e.Typed(t, at.config).CoreV1().ConfigMaps(namespace)
	must[*corev1.ConfigMap](t)(maps.Create(ctx, configMap("old-before", nil, "k", "1"), metav1.CreateOptions{}))
	from := cache.NewListWatchFromClient(e2e.Typed(t, config).CoreV1().RESTClient(), "configmaps", namespace, fields.Everything())
	informer := cache.NewSharedIndexInformer(oldListWatch{from}, &corev1.ConfigMap{}, 0, cache.Indexers{})
	var running sync.WaitGroup
	running.Go(func() { informer.RunWithContext(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		t.Fatal("did not sync")
	}
	if _, found, _ := informer.GetStore().GetByKey(namespace + "/old-before"); !found {
		t.Error("synced without an object that was there")
	}
	must[*corev1.ConfigMap](t)(maps.Create(ctx, configMap("old-after", nil, "k", "1"), metav1.CreateOptions{}))
	e2e.Eventually(t, deadline, "later object", func() error {
		if _, found, _ := informer.GetStore().GetByKey(namespace + "/old-after"); !found {
			return errors.New("absent")
		}
		return nil
	})
	mutex.Lock()
	defer mutex.Unlock()
	if len(queries) != 2 || queries[0].Get("resourceVersion") != "0" || queries[0].Has("watch") ||
		!queries[1].Has("watch") || queries[1].Get("allowWatchBookmarks") != "true" || queries[1].Get("resourceVersion") == "" {
		t.Errorf("want one list at 0 and one watch from there, got %v", queries)
	}
}

// typedWithProtobuf sends and reads every kind's objects as protobuf only.
func typedWithProtobuf(t *testing.T, at place) {
	ctx := t.Context()
	client := e2e.Typed(t, e2e.ProtobufOnly(at.config))
	space := must[*corev1.Namespace](t)(client.CoreV1().Namespaces().Create(ctx,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "proto-"}}, metav1.CreateOptions{}))
	secret := must[*corev1.Secret](t)(client.CoreV1().Secrets(space.Name).Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "s"}, Data: map[string][]byte{"raw": {0, 255, 10}}, StringData: map[string]string{"text": "t"},
	}, metav1.CreateOptions{}))
	if !slices.Equal(secret.Data["raw"], []byte{0, 255, 10}) || string(secret.Data["text"]) != "t" || secret.Type != corev1.SecretTypeOpaque {
		t.Errorf("secret %v %v", secret.Type, secret.Data)
	}
	patched := must[*corev1.Secret](t)(client.CoreV1().Secrets(space.Name).Patch(ctx, "s", types.StrategicMergePatchType,
		[]byte(`{"metadata":{"labels":{"a":"b"}},"data":{"raw":null}}`), metav1.PatchOptions{}))
	if patched.Labels["a"] != "b" || len(patched.Data) != 1 {
		t.Errorf("patched secret %v %v", patched.Labels, patched.Data)
	}
	must[*corev1.ServiceAccount](t)(client.CoreV1().ServiceAccounts(space.Name).Create(ctx,
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, metav1.CreateOptions{}))
	must[*rbacv1.Role](t)(client.RbacV1().Roles(space.Name).Create(ctx, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "r"},
		Rules: []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"secrets"}}}}, metav1.CreateOptions{}))
	binding := must[*rbacv1.RoleBinding](t)(client.RbacV1().RoleBindings(space.Name).Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "b"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "r"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: "a", Namespace: space.Name}}}, metav1.CreateOptions{}))
	if binding.RoleRef.Name != "r" || len(binding.Subjects) != 1 || binding.Subjects[0].Name != "a" {
		t.Errorf("binding %+v", binding)
	}
	holder, seconds, now := "me", int32(15), metav1.NewMicroTime(time.Now().Truncate(time.Microsecond))
	lease := must[*coordinationv1.Lease](t)(client.CoordinationV1().Leases(space.Name).Create(ctx, &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: "l"},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds, RenewTime: &now}}, metav1.CreateOptions{}))
	if !lease.Spec.RenewTime.Equal(&now) || *lease.Spec.HolderIdentity != holder || *lease.Spec.LeaseDurationSeconds != seconds {
		t.Errorf("lease %+v, renewed at %v", lease.Spec, now)
	}
	all := must[*corev1.SecretList](t)(client.CoreV1().Secrets(space.Name).List(ctx, metav1.ListOptions{FieldSelector: "type=Opaque"}))
	if len(all.Items) != 1 || all.Items[0].UID != secret.UID {
		t.Errorf("%d secrets", len(all.Items))
	}
	if err := client.CoreV1().Secrets(space.Name).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		t.Error(err)
	}
	_, err := client.CoreV1().Secrets(space.Name).Get(ctx, "s", metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("after deleting the collection: %v", err)
	}
	if err := client.CoreV1().Namespaces().Delete(ctx, space.Name, metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
	e2e.Eventually(t, deadline, "namespace gone", func() error {
		_, err := client.CoreV1().Namespaces().Get(ctx, space.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("get: %w", err)
	})
}

func metadataClient(t *testing.T, at place) {
	ctx := t.Context()
	client := must[metadata.Interface](t)(metadata.NewForConfig(at.config)).Resource(configMaps).Namespace(namespace)
	maps := e2e.Typed(t, at.config).CoreV1().ConfigMaps(namespace)
	made := must[*corev1.ConfigMap](t)(maps.Create(ctx, configMap("meta", map[string]string{"meta": "yes"}, "k", "v"), metav1.CreateOptions{}))
	found := must[*metav1.PartialObjectMetadata](t)(client.Get(ctx, "meta", metav1.GetOptions{}))
	if found.UID != made.UID || found.ResourceVersion != made.ResourceVersion {
		t.Errorf("metadata of another object: %+v", found)
	}
	list := must[*metav1.PartialObjectMetadataList](t)(client.List(ctx, metav1.ListOptions{LabelSelector: "meta=yes"}))
	if len(list.Items) != 1 || list.Items[0].Name != "meta" || list.ResourceVersion == "" {
		t.Errorf("list %+v", list)
	}
	watch, err := client.Watch(ctx, metav1.ListOptions{LabelSelector: "meta=yes", ResourceVersion: list.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	patched := must[*metav1.PartialObjectMetadata](t)(client.Patch(ctx, "meta", types.MergePatchType,
		[]byte(`{"metadata":{"annotations":{"n":"1"}}}`), metav1.PatchOptions{}))
	event := <-watch.ResultChan()
	seen, ok := event.Object.(*metav1.PartialObjectMetadata)
	if !ok || seen.Annotations["n"] != "1" || seen.ResourceVersion != patched.ResourceVersion {
		t.Errorf("%s %+v after a patch to %s", event.Type, event.Object, patched.ResourceVersion)
	}
	wrong := types.UID("another")
	err = client.Delete(ctx, "meta", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &wrong}})
	if !apierrors.IsConflict(err) {
		t.Errorf("delete with another UID: %v", err)
	}
	if err = client.Delete(ctx, "meta", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &made.UID}}); err != nil {
		t.Error(err)
	}
}

// leaderElection lets two candidates race; the second leads when the first lets go.
func leaderElection(t *testing.T, at place) {
	client := e2e.Typed(t, at.config)
	type candidate struct {
		stop    context.CancelFunc
		ended   chan struct{}
		leading chan struct{}
	}
	start := func(name string) candidate {
		ctx, cancel := context.WithCancel(context.Background())
		c := candidate{cancel, make(chan struct{}), make(chan struct{})}
		elector := must[*leaderelection.LeaderElector](t)(leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
			Lock: &resourcelock.LeaseLock{LeaseMeta: metav1.ObjectMeta{Namespace: namespace, Name: "elected"},
				Client: client.CoordinationV1(), LockConfig: resourcelock.ResourceLockConfig{Identity: name}},
			LeaseDuration: 30 * time.Second, RenewDeadline: 20 * time.Second, RetryPeriod: 100 * time.Millisecond,
			ReleaseOnCancel: true,
			Callbacks: leaderelection.LeaderCallbacks{
				OnStartedLeading: func(context.Context) { close(c.leading) }, OnStoppedLeading: func() {}},
		}))
		go func() {
			defer close(c.ended)
			elector.Run(ctx)
		}()
		t.Cleanup(func() {
			cancel()
			<-c.ended
		})
		return c
	}
	candidates := map[string]candidate{"one": start("one"), "two": start("two")}
	first, second := "one", "two"
	select {
	case <-candidates["one"].leading:
	case <-candidates["two"].leading:
		first, second = second, first
	case <-time.After(deadline):
		t.Fatal("nobody leads")
	}
	leases := client.CoordinationV1().Leases(namespace)
	before := must[*coordinationv1.Lease](t)(leases.Get(t.Context(), "elected", metav1.GetOptions{}))
	if *before.Spec.HolderIdentity != first || before.Spec.RenewTime.IsZero() || *before.Spec.LeaseDurationSeconds != 30 {
		t.Errorf("%s leads, but the lease says %+v", first, before.Spec)
	}
	select {
	case <-candidates[second].leading:
		t.Fatal("both lead")
	default:
	}
	stale := before.DeepCopy()
	e2e.Eventually(t, deadline, "lease renewed", func() error {
		now, err := leases.Get(t.Context(), "elected", metav1.GetOptions{})
		if err == nil && !now.Spec.RenewTime.After(before.Spec.RenewTime.Time) {
			err = fmt.Errorf("still %v", now.Spec.RenewTime)
		}
		return err
	})
	if _, err := leases.Update(t.Context(), stale, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("a stale candidate's update: %v", err)
	}
	if _, err := leases.Create(t.Context(), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "elected"}},
		metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
		t.Errorf("a late candidate's create: %v", err)
	}
	candidates[first].stop()
	<-candidates[first].ended
	select {
	case <-candidates[second].leading:
	case <-time.After(deadline):
		t.Fatalf("%s does not take over", second)
	}
	after := must[*coordinationv1.Lease](t)(leases.Get(t.Context(), "elected", metav1.GetOptions{}))
	if *after.Spec.HolderIdentity != second || *after.Spec.LeaseTransitions <= *before.Spec.LeaseTransitions {
		t.Errorf("%s took over, but the lease says %+v", second, after.Spec)
	}
}

// retryOnConflict lets many writers increment one counter without losing a step.
func retryOnConflict(t *testing.T, at place) {
	const writers, steps = 4, 5
	ctx := t.Context()
	maps := e2e.Typed(t, at.config).CoreV1().ConfigMaps(namespace)
	must[*corev1.ConfigMap](t)(maps.Create(ctx, configMap("counter", nil, "n", "0"), metav1.CreateOptions{}))
	backoff := retry.DefaultRetry
	backoff.Steps = 1000
	var group sync.WaitGroup
	faults := make(chan error, writers*steps)
	for range writers {
		group.Go(func() {
			for range steps {
				faults <- retry.RetryOnConflict(backoff, func() error {
					counter, err := maps.Get(ctx, "counter", metav1.GetOptions{})
					if err != nil {
						return err
					}
					value, err := strconv.Atoi(counter.Data["n"])
					if err != nil {
						return err
					}
					counter.Data["n"] = strconv.Itoa(value + 1)
					_, err = maps.Update(ctx, counter, metav1.UpdateOptions{})
					return err
				})
			}
		})
	}
	group.Wait()
	close(faults)
	for err := range faults {
		if err != nil {
			t.Error(err)
		}
	}
	counter := must[*corev1.ConfigMap](t)(maps.Get(ctx, "counter", metav1.GetOptions{}))
	if counter.Data["n"] != strconv.Itoa(writers*steps) {
		t.Errorf("%s steps, not %d", counter.Data["n"], writers*steps)
	}
}

// serverSideApply uses apply configurations of typed clients: ownership, conflicts, force, extraction.
func serverSideApply(t *testing.T, at place) {
	ctx := t.Context()
	maps := e2e.Typed(t, at.config).CoreV1().ConfigMaps(namespace)
	as := func(manager string, force bool) metav1.ApplyOptions {
		return metav1.ApplyOptions{FieldManager: manager, Force: force}
	}
	desired := corev1apply.ConfigMap("applied", namespace).WithLabels(map[string]string{"by": "one"}).WithData(map[string]string{"a": "1", "b": "1"})
	first := must[*corev1.ConfigMap](t)(maps.Apply(ctx, desired, as("one", false)))
	again := must[*corev1.ConfigMap](t)(maps.Apply(ctx, desired, as("one", false)))
	if again.ResourceVersion != first.ResourceVersion {
		t.Errorf("applying the same again went from %s to %s", first.ResourceVersion, again.ResourceVersion)
	}
	other := corev1apply.ConfigMap("applied", namespace).WithData(map[string]string{"b": "2", "c": "2"})
	_, err := maps.Apply(ctx, other, as("two", false))
	if !apierrors.IsConflict(err) || !apierrors.HasStatusCause(err, metav1.CauseTypeFieldManagerConflict) {
		t.Fatalf("two owners of a field: %v", err)
	}
	must[*corev1.ConfigMap](t)(maps.Apply(ctx, other, as("two", true)))
	merged := must[*corev1.ConfigMap](t)(maps.Apply(ctx,
		corev1apply.ConfigMap("applied", namespace).WithLabels(map[string]string{"by": "one"}), as("one", false)))
	if want := map[string]string{"b": "2", "c": "2"}; !reflect.DeepEqual(merged.Data, want) {
		t.Errorf("data %v, not %v", merged.Data, want)
	}
	mine := must[*corev1apply.ConfigMapApplyConfiguration](t)(corev1apply.ExtractConfigMap(merged, "two"))
	if want := map[string]string{"b": "2", "c": "2"}; !reflect.DeepEqual(mine.Data, want) || mine.Labels != nil {
		t.Errorf("two owns %v %v", mine.Data, mine.Labels)
	}
	if _, err = maps.Update(ctx, first, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("update of an old version: %v", err)
	}
	dry := metav1.ApplyOptions{FieldManager: "two", DryRun: []string{metav1.DryRunAll}}
	tried := must[*corev1.ConfigMap](t)(maps.Apply(ctx, other.WithData(map[string]string{"d": "3"}), dry))
	found := must[*corev1.ConfigMap](t)(maps.Get(ctx, "applied", metav1.GetOptions{}))
	if tried.Data["d"] != "3" || found.Data["d"] != "" || found.ResourceVersion != merged.ResourceVersion {
		t.Errorf("dry run: answered %v, stored %v", tried.Data, found.Data)
	}
}

// pages lists in chunks and checks that every object comes once, in one version of the list.
func pages(t *testing.T, at place) {
	const count = 23
	ctx := t.Context()
	client := e2e.Typed(t, e2e.Protobuf(at.config))
	maps := client.CoreV1().ConfigMaps(namespace)
	for n := range count {
		must[*corev1.ConfigMap](t)(maps.Create(ctx, configMap(fmt.Sprintf("page-%02d", n), map[string]string{"paged": "yes"}, "n", ""), metav1.CreateOptions{}))
	}
	lister := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		return maps.List(ctx, options)
	})
	lister.PageSize = 5
	names, versions := map[string]bool{}, map[string]bool{}
	err := lister.EachListItem(ctx, metav1.ListOptions{LabelSelector: "paged=yes"}, func(object runtime.Object) error {
		names[object.(*corev1.ConfigMap).Name] = true
		return nil
	})
	if err != nil || len(names) != count {
		t.Errorf("%d objects: %v", len(names), err)
	}
	options := metav1.ListOptions{LabelSelector: "paged=yes", Limit: 10}
	for {
		list := must[*corev1.ConfigMapList](t)(maps.List(ctx, options))
		versions[list.ResourceVersion] = true
		if options.Continue = list.Continue; options.Continue == "" {
			break
		}
		must[*corev1.ConfigMap](t)(maps.Patch(ctx, "page-00", types.MergePatchType,
			[]byte(fmt.Sprintf(`{"data":{"n":%q}}`, list.ResourceVersion)), metav1.PatchOptions{}))
	}
	if len(versions) != 1 {
		t.Errorf("pages of versions %v", versions)
	}
}

func configMap(name string, labels map[string]string, key, value string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}, Data: map[string]string{key: value}}
}

// answers counts the status codes that a client's requests got.
type answers struct {
	mutex sync.Mutex
	codes map[int]int
}

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

func (a *answers) of(config *rest.Config) *rest.Config {
	config, a.codes = rest.CopyConfig(config), map[int]int{}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return transport(func(request *http.Request) (*http.Response, error) {
			response, err := next.RoundTrip(request)
			if err == nil {
				a.mutex.Lock()
				defer a.mutex.Unlock()
				a.codes[response.StatusCode]++
			}
			return response, err
		})
	})
	return config
}

func (a *answers) take() map[int]int {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	taken := a.codes
	a.codes = map[int]int{}
	return taken
}
