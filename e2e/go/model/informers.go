package model

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	toolswatch "k8s.io/client-go/tools/watch"

	e2e "kintsugi.dev/e2e"
)

// Informer is a reflector of the client library over all shards, whose store tells equal names apart by their cluster.
type Informer struct {
	name, resource string
	selection      Selection
	world          *World
	proxy          *Proxy
	store          cache.Store
	run            func(context.Context)
	mutex          sync.Mutex
	began          time.Time // of the present phase: initial, or live
	held           time.Time // of a list's answer, or when the last watch ended that had gone well: what is held is as of then
	live           bool      // a watch that resumes something was accepted
	relists        int
	counts         map[string]int
}

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

// observed counts requests, and judges new beginnings.
func (i *Informer) observed(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return transport(func(request *http.Request) (*http.Response, error) {
			i.asks(request.URL.Query())
			answer, err := next.RoundTrip(request)
			if err == nil && answer.StatusCode == http.StatusOK {
				i.answered(request.URL.Query())
				answer.Body = &stream{ReadCloser: answer.Body, informer: i, opened: time.Now()}
			} else if err == nil {
				i.mutex.Lock()
				i.counts[fmt.Sprintf("status %d", answer.StatusCode)]++
				i.mutex.Unlock()
			}
			return answer, err
		})
	})
	return config
}

// stream is the body of an answer. A watch that is refused in its first event does not tell that what is held was good.
type stream struct {
	io.ReadCloser
	informer *Informer
	opened   time.Time
}

func (s *stream) Close() error {
	if now := time.Now(); now.Sub(s.opened) > refusal {
		s.informer.mutex.Lock()
		s.informer.held = now
		s.informer.mutex.Unlock()
	}
	return s.ReadCloser.Close()
}

func begins(query url.Values) bool {
	return query.Get("watch") == "" || query.Get("watch") == "false" || query.Get("sendInitialEvents") == "true"
}

func (i *Informer) asks(query url.Values) {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	if !begins(query) {
		i.counts["watch"]++
		return
	}
	i.counts["begin"]++
	if !i.live {
		return
	}
	i.relists++
	// A proxy that is gone takes the places of single events with it (T53); everything else that is not 410 is repaired
	// behind the proxy.
	since := i.began.Add(-slack)
	if i.held.Before(i.began) {
		since = i.held.Add(-slack)
	}
	if !i.world.expiredSince("", since) && !i.world.removedSince("", since) && !i.world.disturbedSince(i.proxy.Name, since) {
		i.world.Fail(i.name, "a relist without a reason: %s; the last one was at %s", query.Encode(), i.began.Format("04:05.000"))
	}
	i.live = false
}

func (i *Informer) answered(query url.Values) {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	i.began = time.Now()
	i.live = true
	if begins(query) {
		i.held = i.began
	}
	// A WatchList that broke off begins again: only what comes behind its end is a relist.
	if query.Get("sendInitialEvents") == "true" {
		i.live = false
		began := i.began
		go i.awaitEnd(began)
	}
}

// awaitEnd waits until the store was filled: the reflector does that at the end of the initial events.
func (i *Informer) awaitEnd(began time.Time) {
	for i.world.ctx.Err() == nil {
		i.mutex.Lock()
		same := i.began.Equal(began)
		if same && i.store.(*keyedStore).replacedSince(began) {
			i.live = true
		}
		done := !same || i.live
		i.mutex.Unlock()
		if done {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// keyedStore keeps objects of equal names apart, and checks that they only go forward between replacements.
type keyedStore struct {
	cache.Store
	informer *Informer
	mutex    sync.Mutex
	replaced time.Time
}

func objectKey(object any) (string, error) {
	accessor, err := meta.Accessor(object)
	if err != nil {
		return "", err
	}
	return accessor.GetAnnotations()[clusterMark] + "|" + accessor.GetNamespace() + "/" + accessor.GetName(), nil
}

func objectVersion(object any) uint64 {
	accessor, err := meta.Accessor(object)
	if err != nil {
		return 0
	}
	o := Object{}
	o.Metadata.ResourceVersion = accessor.GetResourceVersion()
	return o.version()
}

func newKeyedStore(i *Informer) *keyedStore {
	return &keyedStore{Store: cache.NewStore(objectKey), informer: i}
}

func (s *keyedStore) replacedSince(when time.Time) bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.replaced.After(when)
}

func (s *keyedStore) Replace(objects []any, version string) error {
	s.mutex.Lock()
	s.replaced = time.Now()
	s.mutex.Unlock()
	return s.Store.Replace(objects, version)
}

func (i *Informer) contents() map[string]uint64 {
	found := map[string]uint64{}
	for _, object := range i.store.List() {
		if key, err := objectKey(object); err == nil {
			found[key] = objectVersion(object)
		}
	}
	return found
}

// Behind tells in what the store differs from what the shards have.
func (i *Informer) Behind() (key, text string) {
	return difference(i.world.Union(i.resource, i.selection), i.contents())
}

// noWatchList makes reflectors list.
type noWatchList struct{}

func (noWatchList) IsWatchListSemanticsUnSupported() bool { return true }

// newInformer makes a reflector with the typed or the dynamic client, by WatchList or by LIST.
func newInformer(w *World, proxy *Proxy, name, resource string, s Selection, typed, watchList bool) *Informer {
	i := &Informer{name: name, resource: resource, selection: s, world: w, proxy: proxy, counts: map[string]int{}, began: time.Now()}
	i.store = newKeyedStore(i)
	config := i.observed(proxy.Config(w, "*"))
	lw, example := listWatch(w, config, resource, s, typed)
	client := any(nil)
	if !watchList {
		client = noWatchList{}
	}
	reflector := cache.NewReflectorWithOptions(cache.ToListWatcherWithWatchListSemantics(lw, client), example, i.store,
		cache.ReflectorOptions{Name: name})
	i.run = reflector.RunWithContext
	return i
}

func listWatch(w *World, config *rest.Config, resource string, s Selection, typed bool) (*cache.ListWatch, runtime.Object) {
	selected := func(options metav1.ListOptions) metav1.ListOptions {
		options.LabelSelector = selectors[s]
		return options
	}
	if !typed {
		client, err := dynamic.NewForConfig(config)
		w.must(err)
		all := client.Resource(corev1.SchemeGroupVersion.WithResource(resource))
		return &cache.ListWatch{
				ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
					return all.List(ctx, selected(options))
				},
				WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
					return all.Watch(ctx, selected(options))
				}}, &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1",
				"kind": map[string]string{"configmaps": "ConfigMap", "secrets": "Secret"}[resource]}}
	}
	client, err := kubernetes.NewForConfig(e2e.Protobuf(config))
	w.must(err)
	if resource == "configmaps" {
		all := client.CoreV1().ConfigMaps("")
		return &cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
				return all.List(ctx, selected(options))
			},
			WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
				return all.Watch(ctx, selected(options))
			}}, &corev1.ConfigMap{}
	}
	all := client.CoreV1().Secrets("")
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return all.List(ctx, selected(options))
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return all.Watch(ctx, selected(options))
		}}, &corev1.Secret{}
}

// Retrier is a RetryWatcher of the client library: everything that comes out of it is checked.
type Retrier struct {
	*Raw
	fromBookmark bool
	mutex        sync.Mutex
}

// run begins with a list, and again whenever the RetryWatcher gives up.
func (r *Retrier) run(ctx context.Context) {
	r.proxy = r.world.proxies[r.habit.proxies[0]]
	lw, _ := listWatch(r.world, r.proxy.Config(r.world, "*"), r.resource, r.selection, false)
	for ctx.Err() == nil {
		known := false
		r.mutexed(func() { known = r.cursor != "" })
		if !known || !r.fromBookmark {
			if !r.list(ctx, url.Values{}) {
				pause(ctx, 300*time.Millisecond)
				continue
			}
		}
		from := ""
		r.mutexed(func() {
			from = r.cursor
			r.counts["begin"]++
		})
		again := false
		r.begun = time.Now()
		watcher, err := toolswatch.NewRetryWatcherWithContext(ctx, from, &cache.ListWatch{
			WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
				stream, err := lw.WatchFuncWithContext(ctx, options)
				if err == nil {
					r.checker.Saw(step{what: "start", version: options.ResourceVersion})
					if again {
						r.mutexed(func() { r.counts["rewatch"]++ })
					}
					again = true
					stream = watch.Filter(stream, r.observe) // bookmarks do not come out of RetryWatchers
				}
				return stream, err
			}})
		if err != nil {
			r.world.Fail(r.name, "RetryWatcher from %q: %v", from, err)
			return
		}
		r.consume(watcher.ResultChan())
		if ctx.Err() == nil {
			r.mutexed(func() { r.counts["gave up"]++ })
			pause(ctx, 300*time.Millisecond)
		}
	}
}

func (r *Retrier) mutexed(do func()) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	do()
}

// consume reads what comes out; what matters was observed when it went in.
func (r *Retrier) consume(events <-chan watch.Event) {
	for event := range events {
		if event.Type != watch.Error {
			continue
		}
		status, ok := event.Object.(*metav1.Status)
		switch {
		case !ok:
			r.world.Fail(r.name, "an ERROR with %T", event.Object)
		case status.Code == http.StatusGone:
			r.mutexed(func() { r.gone("RetryWatcher", status.Message) })
		case r.world.disturbedSince(r.proxy.Name, r.begun.Add(-time.Second)) && status.Code == 0:
		default:
			r.world.Fail(r.name, "RetryWatcher gave up: %d %s", status.Code, status.Message)
		}
	}
}

// observe sees everything that a stream brings.
func (r *Retrier) observe(event watch.Event) (watch.Event, bool) {
	if event.Type == watch.Error {
		return event, true
	}
	o, err := asObject(event.Object)
	if err != nil {
		r.world.Fail(r.name, "%v", err)
		return event, true
	}
	r.mutexed(func() {
		r.last = o.Metadata.ResourceVersion
		if event.Type == watch.Bookmark {
			r.cursor, r.good = r.last, time.Now()
		}
	})
	if event.Type == watch.Bookmark {
		r.checker.Saw(step{what: "BOOKMARK", version: o.Metadata.ResourceVersion})
	} else {
		r.checker.Saw(step{what: string(event.Type), object: o})
	}
	return event, true
}

func asObject(object runtime.Object) (Object, error) {
	accessor, err := meta.Accessor(object)
	if err != nil {
		return Object{}, err
	}
	var o Object
	o.Metadata.Name, o.Metadata.Namespace = accessor.GetName(), accessor.GetNamespace()
	o.Metadata.ResourceVersion = accessor.GetResourceVersion()
	o.Metadata.Annotations = map[string]string{clusterMark: strings.Clone(accessor.GetAnnotations()[clusterMark])}
	return o, nil
}
