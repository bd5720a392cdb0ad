package merge

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	toolswatch "k8s.io/client-go/tools/watch"
)

// Counts of the requests that a client made to one collection.
type Counts struct {
	Lists, Watches, WatchLists int
	Taken                      int         // lists and WatchLists that were answered
	Codes                      map[int]int // of answers that are not 200
}

// Informer is a client-go informer, with its requests.
type Informer struct {
	Name   string
	store  cache.Store
	synced func() bool
	mutex  sync.Mutex
	counts Counts
	events map[string]int
	back   []string // objects whose resourceVersion went back
}

func (i *Informer) wrap(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	i.counts.Codes, i.events = map[int]int{}, map[string]int{}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return transport{next, i} })
	return config
}

type transport struct {
	next http.RoundTripper
	i    *Informer
}

func (r transport) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := r.next.RoundTrip(request)
	if request.Method != http.MethodGet || !collectionPath(request.URL.Path) {
		return response, err
	}
	q := request.URL.Query()
	r.i.mutex.Lock()
	defer r.i.mutex.Unlock()
	switch {
	case q.Get("sendInitialEvents") == "true":
		r.i.counts.WatchLists++
	case q.Get("watch") == "true" || q.Get("watch") == "1":
		r.i.counts.Watches++
	default:
		r.i.counts.Lists++
	}
	if response != nil && response.StatusCode != http.StatusOK {
		r.i.counts.Codes[response.StatusCode]++
	} else if watch := q.Get("watch"); response != nil && (watch == "" || q.Get("sendInitialEvents") == "true") {
		r.i.counts.Taken++
	}
	return response, err
}

// Counts of the requests so far.
func (i *Informer) Counts() Counts {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	out := i.counts
	out.Codes = maps.Clone(out.Codes)
	return out
}

func (i *Informer) String() string {
	c := i.Counts()
	return fmt.Sprintf("%s: %d lists, %d watches, %d WatchLists, refused %v", i.Name, c.Lists, c.Watches, c.WatchLists, c.Codes)
}

// Model of what it holds.
func (i *Informer) Model() Model {
	out := Model{}
	for _, object := range i.store.List() {
		accessor, err := meta.Accessor(object)
		if err != nil {
			continue
		}
		out[accessor.GetAnnotations()["kcp.io/cluster"]+"/"+accessor.GetNamespace()+"/"+accessor.GetName()] = accessor.GetResourceVersion()
	}
	return out
}

// Equals waits until it holds what the shelves hold.
func (i *Informer) Equals(t *testing.T, deadline time.Duration, shelves ...*Shelf) {
	t.Helper()
	eventually(t, deadline, i.Name+" equals the shards", func() error {
		if !i.synced() {
			return fmt.Errorf("not synced; %s", i)
		}
		if err := i.Model().Equal(Union(shelves...)); err != nil {
			return fmt.Errorf("%w; %s", err, i)
		}
		return nil
	})
}

func run(t *testing.T, start func(ctx context.Context)) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		start(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
}

func listWatch(t *testing.T, config *rest.Config, typed bool, resource Resource) (cache.ListerWatcher, any) {
	t.Helper()
	if typed {
		config.ContentType = Proto
		config.AcceptContentTypes = Proto + "," + JSON
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		maps := client.CoreV1().ConfigMaps("")
		return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return maps.List(ctx, o) },
			WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
				return maps.Watch(ctx, o)
			},
		}, client), &corev1.ConfigMap{}
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	objects := client.Resource(schema.GroupVersionResource{Group: resource.Group, Version: resource.Version, Resource: resource.Plural})
	kind := &unstructured.Unstructured{}
	kind.SetAPIVersion(resource.apiVersion())
	kind.SetKind(resource.Kind)
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return objects.List(ctx, o) },
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return objects.Watch(ctx, o)
		},
	}, client), kind
}

// StartInformer runs an informer: typed (protobuf preferred) of configmaps, or dynamic (JSON) of any resource.
func StartInformer(t *testing.T, config *rest.Config, typed bool, resource Resource) *Informer {
	t.Helper()
	i := &Informer{Name: fmt.Sprintf("informer of %s (typed %v)", resource.Plural, typed)}
	lw, kind := listWatch(t, i.wrap(config), typed, resource)
	informer := cache.NewSharedIndexInformer(lw, kind.(runtime.Object), 0, cache.Indexers{})
	versions := map[string]string{}
	saw := func(event string, object any) {
		if unknown, ok := object.(cache.DeletedFinalStateUnknown); ok {
			object = unknown.Obj
		}
		accessor, err := meta.Accessor(object)
		if err != nil {
			return
		}
		i.mutex.Lock()
		defer i.mutex.Unlock()
		i.events[event]++
		key := accessor.GetAnnotations()["kcp.io/cluster"] + "/" + accessor.GetName()
		if last, now := versions[key], accessor.GetResourceVersion(); event != "deleted" && older(now, last) {
			i.back = append(i.back, fmt.Sprintf("%s from %s to %s", key, last, now))
		}
		versions[key] = accessor.GetResourceVersion()
	}
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(o any) { saw("added", o) },
		UpdateFunc: func(_, o any) { saw("updated", o) }, DeleteFunc: func(o any) { saw("deleted", o) }}); err != nil {
		t.Fatal(err)
	}
	i.store, i.synced = informer.GetStore(), informer.HasSynced
	run(t, informer.RunWithContext)
	return i
}

func older(a, b string) bool { return len(a) < len(b) || len(a) == len(b) && a < b }

// plain hides WatchList from a reflector: during it, reflectors collect by namespace and name whatever the store's key is.
type plain struct{ cache.ListerWatcher }

func (plain) IsWatchListSemanticsUnSupported() bool { return true }

// StartKeyed runs a reflector into a store that keeps objects of several shards apart.
func StartKeyed(t *testing.T, config *rest.Config, resource Resource, watchList bool) *Informer {
	t.Helper()
	i := &Informer{Name: "marker-keyed reflector of " + resource.Plural}
	lw, kind := listWatch(t, i.wrap(config), false, resource)
	if !watchList {
		lw = plain{lw}
	}
	store := cache.NewStore(func(object any) (string, error) {
		accessor, err := meta.Accessor(object)
		if err != nil {
			return "", err
		}
		return strings.Join([]string{accessor.GetAnnotations()["kcp.io/cluster"], accessor.GetNamespace(), accessor.GetName()}, "/"), nil
	})
	reflector := cache.NewReflectorWithOptions(lw, kind, store, cache.ReflectorOptions{})
	i.store = store
	i.synced = func() bool { return reflector.LastSyncResourceVersion() != "" }
	run(t, func(ctx context.Context) { reflector.RunWithContext(ctx) })
	return i
}

// Retry is a RetryWatcher with what it delivered.
type Retry struct {
	mutex  sync.Mutex
	events []watch.Event
	ended  bool
	model  Model
}

// StartRetry runs a RetryWatcher of configmaps (JSON) from a resourceVersion.
func StartRetry(t *testing.T, config *rest.Config, rv string, start Model) *Retry {
	t.Helper()
	client, err := dynamic.NewForConfig(rest.CopyConfig(config))
	if err != nil {
		t.Fatal(err)
	}
	maps := client.Resource(corev1.SchemeGroupVersion.WithResource("configmaps"))
	r := &Retry{model: Model{}.with(start)}
	watcher, err := toolswatch.NewRetryWatcherWithContext(context.Background(), rv, &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) { return maps.Watch(ctx, o) }})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for e := range watcher.ResultChan() {
			r.saw(e)
		}
		r.mutex.Lock()
		defer r.mutex.Unlock()
		r.ended = true
	}()
	t.Cleanup(func() {
		watcher.Stop()
		<-done
	})
	return r
}

func (m Model) with(more Model) Model {
	for key, value := range more {
		m[key] = value
	}
	return m
}

func (r *Retry) saw(e watch.Event) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.events = append(r.events, e)
	accessor, err := meta.Accessor(e.Object)
	if err != nil {
		return
	}
	key := accessor.GetAnnotations()["kcp.io/cluster"] + "/" + accessor.GetNamespace() + "/" + accessor.GetName()
	switch e.Type {
	case watch.Added, watch.Modified:
		r.model[key] = accessor.GetResourceVersion()
	case watch.Deleted:
		delete(r.model, key)
	}
}

// Equals waits until it has delivered what the shelves hold.
func (r *Retry) Equals(t *testing.T, deadline time.Duration, shelves ...*Shelf) {
	t.Helper()
	eventually(t, deadline, "a RetryWatcher equals the shards", func() error {
		r.mutex.Lock()
		defer r.mutex.Unlock()
		if r.ended {
			return fmt.Errorf("it gave up after %d events", len(r.events))
		}
		return r.model.Equal(Union(shelves...))
	})
}

// GaveUp tells whether it ended.
func (r *Retry) GaveUp() bool {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.ended
}
