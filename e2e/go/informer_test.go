package e2e

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

const protobufStream = "application/vnd.kubernetes.protobuf;stream=watch"

var configMaps = corev1.SchemeGroupVersion.WithResource("configmaps")

// requests records what an informer asked of one collection.
type requests struct {
	mutex                      sync.Mutex
	lists, watches, watchLists []url.Values
	contentTypes               map[string]int
}

func (r *requests) of(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	r.contentTypes = map[string]int{}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(request *http.Request) (*http.Response, error) {
			response, err := next.RoundTrip(request)
			if request.Method == http.MethodGet && strings.HasSuffix(request.URL.Path, "/configmaps") {
				r.record(request.URL.Query(), response)
			}
			return response, err
		})
	})
	return config
}

func (r *requests) record(query url.Values, response *http.Response) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	switch {
	case query.Get("sendInitialEvents") == "true":
		r.watchLists = append(r.watchLists, query)
	case query.Get("watch") == "true" || query.Get("watch") == "1":
		r.watches = append(r.watches, query)
	default:
		r.lists = append(r.lists, query)
	}
	if response != nil && response.StatusCode == http.StatusOK {
		r.contentTypes[response.Header.Get("Content-Type")]++
	}
}

func (r *requests) String() string {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return fmt.Sprintf("%d watch-lists, %d watches, %d lists, %v", len(r.watchLists), len(r.watches), len(r.lists), r.contentTypes)
}

// observer is an informer with everything that its handlers saw.
type observer struct {
	name     string
	informer cache.SharedIndexInformer
	requests *requests
	faults   failures
	mutex    sync.Mutex
	versions map[string]uint64
	events   map[string]int
	check    func(name string, object any) error // of each added or updated object
}

func (o *observer) start(t *testing.T) {
	t.Helper()
	o.versions, o.events = map[string]uint64{}, map[string]int{}
	if _, err := o.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { o.saw("added", object) },
		UpdateFunc: func(_, object any) { o.saw("updated", object) },
		DeleteFunc: func(object any) { o.saw("deleted", object) },
	}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		o.informer.RunWithContext(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
}

func (o *observer) saw(event string, object any) {
	if unknown, ok := object.(cache.DeletedFinalStateUnknown); ok {
		event, object = "found deleted", unknown.Obj
	}
	accessor, err := meta.Accessor(object)
	if err != nil {
		o.faults.add("%s: %w", o.name, err)
		return
	}
	version, err := strconv.ParseUint(accessor.GetResourceVersion(), 10, 64)
	if err != nil {
		o.faults.add("%s: %s %s: %w", o.name, event, accessor.GetName(), err)
		return
	}
	o.mutex.Lock()
	defer o.mutex.Unlock()
	o.events[event]++
	if last := o.versions[accessor.GetName()]; version < last {
		o.faults.add("%s: %s %s went back from %d to %d", o.name, event, accessor.GetName(), last, version)
	}
	o.versions[accessor.GetName()] = version
	if o.check != nil && (event == "added" || event == "updated") {
		if err := o.check(accessor.GetName(), object); err != nil {
			o.faults.add("%s: %s %s: %w", o.name, event, accessor.GetName(), err)
		}
	}
}

func (o *observer) numbers() string {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	return fmt.Sprintf("%s: events %v; %v", o.name, o.events, o.requests)
}

// contents of the informer's store: name -> resourceVersion.
func (o *observer) contents() map[string]string {
	found := map[string]string{}
	for _, object := range o.informer.GetStore().List() {
		if accessor, err := meta.Accessor(object); err == nil {
			found[accessor.GetName()] = accessor.GetResourceVersion()
		}
	}
	return found
}

func dynamicObserver(t *testing.T, config *rest.Config) *observer {
	t.Helper()
	r := &requests{}
	factory := dynamicinformer.NewFilteredDynamicSharedInformerFactory(Dynamic(t, r.of(config)), 0, "default", nil)
	return &observer{name: "dynamic", informer: factory.ForResource(configMaps).Informer(), requests: r}
}

func typedObserver(t *testing.T, config *rest.Config) *observer {
	t.Helper()
	r := &requests{}
	factory := informers.NewSharedInformerFactoryWithOptions(Typed(t, r.of(Protobuf(config))), 0, informers.WithNamespace("default"))
	return &observer{name: "typed", informer: factory.Core().V1().ConfigMaps().Informer(), requests: r}
}

func protobufObserver(t *testing.T, config *rest.Config) *observer {
	t.Helper()
	r := &requests{}
	factory := informers.NewSharedInformerFactoryWithOptions(Typed(t, r.of(ProtobufOnly(config))), 0, informers.WithNamespace("default"))
	return &observer{name: "protobuf", informer: factory.Core().V1().ConfigMaps().Informer(), requests: r}
}

// listed is a plain LIST: name -> resourceVersion, and the objects.
func listed(ctx context.Context, client kubernetes.Interface) (map[string]string, []corev1.ConfigMap, error) {
	list, err := client.CoreV1().ConfigMaps("default").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, nil, err
	}
	versions := map[string]string{}
	for _, item := range list.Items {
		versions[item.Name] = item.ResourceVersion
	}
	return versions, list.Items, nil
}

// equals waits until the informer's store is the same as a fresh list.
func (o *observer) equals(t *testing.T, client kubernetes.Interface, deadline time.Duration) {
	t.Helper()
	Eventually(t, deadline, "the "+o.name+" informer equals the list", func() error {
		want, _, err := listed(context.Background(), client)
		if err != nil {
			return err
		}
		return Difference(want, o.contents())
	})
}

func TestInformersSyncWithWatchList(t *testing.T) {
	installation := StartInstallation(t)
	cluster := installation.MakeWorkspace("informed", "us-east-1")
	other := installation.MakeWorkspace("other", "us-east-1")
	ctx := context.Background()
	config := installation.Config(cluster)
	client := Typed(t, config)
	for n := range 50 {
		for _, c := range []kubernetes.Interface{client, Typed(t, installation.Config(other))} {
			object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("c%02d", n)}, Data: map[string]string{"n": strconv.Itoa(n)}}
			if _, err := c.CoreV1().ConfigMaps("default").Create(ctx, object, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, observe := range []func(*testing.T, *rest.Config) *observer{dynamicObserver, typedObserver, protobufObserver} {
		o := observe(t, config)
		t.Run(o.name, func(t *testing.T) {
			begin := time.Now()
			o.start(t)
			Eventually(t, 20*time.Second, "synced", func() error {
				if !o.informer.HasSynced() {
					return fmt.Errorf("not synced: %v", o.requests)
				}
				return nil
			})
			t.Logf("synced after %v", time.Since(begin).Round(time.Millisecond))
			versions, _, err := listed(ctx, client)
			if err != nil {
				t.Fatal(err)
			}
			if err := Difference(versions, o.contents()); err != nil {
				t.Fatalf("right after the sync: %v", err)
			}
			followsWrites(t, o, client)
			if err := o.faults.err(); err != nil {
				t.Error(err)
			}
			t.Log(o.numbers())
			if len(o.requests.watchLists) != 1 || len(o.requests.lists) != 0 {
				t.Errorf("want 1 watch-list and no list, got %v", o.requests)
			}
			for _, query := range o.requests.watchLists {
				if query.Get("resourceVersionMatch") != "NotOlderThan" || query.Get("allowWatchBookmarks") != "true" {
					t.Errorf("unusual request %v", query)
				}
			}
			allowed := map[string][]string{"dynamic": {"application/json"}, "protobuf": {protobufStream},
				"typed": {protobufStream, "application/json"}}[o.name]
			for contentType := range o.requests.contentTypes {
				if !slices.Contains(allowed, contentType) {
					t.Errorf("answered with %q, want one of %q", contentType, allowed)
				}
			}
		})
	}
}

// followsWrites makes a few writes and waits until the informer has them.
func followsWrites(t *testing.T, o *observer, client kubernetes.Interface) {
	t.Helper()
	ctx := context.Background()
	maps := client.CoreV1().ConfigMaps("default")
	made, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "live"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	o.equals(t, client, 10*time.Second)
	made.Data = map[string]string{"changed": "yes"}
	if _, err = maps.Update(ctx, made, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	o.equals(t, client, 10*time.Second)
	if err = maps.Delete(ctx, "live", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	o.equals(t, client, 10*time.Second)
	Eventually(t, 10*time.Second, "one update and one deletion are handled", func() error {
		o.mutex.Lock()
		defer o.mutex.Unlock()
		if o.events["updated"] != 1 || o.events["deleted"] != 1 {
			return fmt.Errorf("%s saw %v", o.name, o.events)
		}
		return nil
	})
}

func TestInformersSurviveKills(t *testing.T) {
	for _, run := range []struct {
		name, region, shard string
		writes              int
	}{
		{"shard-1", "us-east-1", "shard-1", 10000},
		{"root", "eu-west-1", "root", 2000},
	} {
		t.Run(run.name, func(t *testing.T) { surviveKills(t, run.region, run.shard, run.writes) })
	}
}

// surviveKills runs both informers and random writes while the proxy and a shard are killed again and again.
func surviveKills(t *testing.T, region, shard string, writes int) {
	const writers, names, seed = 4, 75, 20240601
	installation := StartInstallation(t)
	config := installation.Config(installation.MakeWorkspace("stormy", region))
	client := Typed(t, config)
	j := newJournal()
	observers := []*observer{dynamicObserver(t, config), protobufObserver(t, config)}
	for _, o := range observers {
		o.check = func(name string, object any) error { return checkWritten(j, name, object) }
		o.start(t)
	}
	var faults failures
	var group sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	begin := time.Now()
	for number := range writers {
		w, err := newWriter(config, number, names, seed, j)
		if err != nil {
			t.Fatal(err)
		}
		group.Go(func() {
			for ctx.Err() == nil && j.count("writes") < writes {
				if err := w.step(ctx); err != nil {
					faults.add("writer %d: %w", number, err)
					cancel()
					return
				}
			}
		})
	}
	killed := killDuring(ctx, installation, shard, writes, j, &faults)
	if faults.err() != nil {
		cancel()
	}
	group.Wait()
	if err := faults.err(); err != nil {
		t.Fatalf("after %d writes: %v", j.count("writes"), err)
	}
	t.Logf("%d writes in %v, %d kills; %v", j.count("writes"), time.Since(begin).Round(time.Millisecond), killed, j.counts)
	_, items, err := listed(context.Background(), client)
	if err != nil {
		t.Fatal(err)
	}
	if err := reflected(j.snapshot(), items); err != nil {
		t.Error(err)
	}
	begin = time.Now()
	for _, o := range observers {
		// The client library waits up to 60 s between two attempts after many failures.
		o.equals(t, client, 75*time.Second)
		if err := o.faults.err(); err != nil {
			t.Error(err)
		}
		t.Logf("equal to the list after %v; %s", time.Since(begin).Round(time.Millisecond), o.numbers())
	}
}

// killDuring kills the proxy and the shard in turn at fixed numbers of writes in the first 60 %, at last both together.
func killDuring(ctx context.Context, installation *Installation, shard string, writes int, j *journal, faults *failures) int {
	plan := [][]string{{"proxy"}, {shard}, {"proxy"}, {shard}, {"proxy"}, {shard}, {"proxy", shard}}
	killed := 0
	for n, victims := range plan {
		for j.count("writes") < (n+1)*writes*6/10/len(plan) {
			if ctx.Err() != nil {
				return killed
			}
			time.Sleep(time.Millisecond)
		}
		before := map[string]int{}
		for _, victim := range victims {
			pid, err := installation.Kill(victim, syscall.SIGKILL)
			if err != nil {
				faults.add("kill %s: %w", victim, err)
				return killed
			}
			before[victim] = pid
			killed++
		}
		for _, victim := range victims {
			if err := installation.Restarted(victim, before[victim], 20*time.Second); err != nil {
				faults.add("%w", err)
				return killed
			}
		}
	}
	return killed
}

// checkWritten refuses what no writer has sent.
func checkWritten(j *journal, name string, object any) error {
	if !strings.HasPrefix(name, namePrefix) {
		return nil
	}
	var data map[string]string
	switch typed := object.(type) {
	case *corev1.ConfigMap:
		data = typed.Data
	case *unstructured.Unstructured:
		data, _, _ = unstructured.NestedStringMap(typed.Object, "data")
	default:
		return fmt.Errorf("a %T", object)
	}
	if data["sum"] != checksum(name, data) || !j.wasIssued(data["sum"]) {
		return fmt.Errorf("has data that nobody wrote: label %q", data["label"])
	}
	return nil
}

// reflected compares what was acknowledged last, name by name, with a list made after the last write.
func reflected(acknowledged map[string]entry, items []corev1.ConfigMap) error {
	want, got := map[string]string{}, map[string]string{}
	for name, state := range acknowledged {
		if state.exists {
			want[name] = fmt.Sprintf("%d %s", state.version, state.sum)
		}
	}
	for _, item := range items {
		if strings.HasPrefix(item.Name, namePrefix) {
			got[item.Name] = item.ResourceVersion + " " + item.Data["sum"]
		}
	}
	if err := Difference(want, got); err != nil {
		return fmt.Errorf("acknowledged against listed: %w", err)
	}
	return nil
}
