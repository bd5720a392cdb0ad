package plain

import (
	"context"
	"fmt"
	"math/rand"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	e2e "kintsugi.dev/e2e"
)

// markedKey is what tells objects of several servers apart.
func markedKey(object any) (string, error) {
	if gone, ok := object.(cache.DeletedFinalStateUnknown); ok {
		return gone.Key, nil
	}
	accessor, err := meta.Accessor(object)
	if err != nil {
		return "", err
	}
	if accessor.GetAnnotations()[marker] == "" {
		return "", fmt.Errorf("%s has no marker", accessor.GetName())
	}
	return accessor.GetAnnotations()[marker] + "/" + accessor.GetNamespace() + "/" + accessor.GetName(), nil
}

// reflected is the store that client-go's reflector keeps of one namespace on all servers.
type reflected struct {
	name       string
	store      cache.Store
	mutex      sync.Mutex
	lists      int
	watchLists int
}

// reflect starts a reflector, by WatchList or by LIST and watch.
func reflect(t *testing.T, r *rig, ns string, watchList bool) *reflected {
	t.Helper()
	client := e2e.Typed(t, r.config("*"))
	maps, scope := r.everywhere(t, ns)
	o := &reflected{name: fmt.Sprintf("watch-list %v", watchList), store: cache.NewStore(func(object any) (string, error) { return markedKey(object) })}
	lw := &cache.ListWatch{
		ListFunc: func(options metav1.ListOptions) (runtime.Object, error) {
			o.count(&o.lists)
			options.FieldSelector = scope.FieldSelector
			return maps.List(context.Background(), options)
		},
		WatchFunc: func(options metav1.ListOptions) (watch.Interface, error) {
			if options.SendInitialEvents != nil {
				o.count(&o.watchLists)
			}
			options.FieldSelector = scope.FieldSelector
			return maps.Watch(context.Background(), options)
		},
	}
	var source cache.ListerWatcher = lw
	if !watchList {
		source = cache.ToListWatcherWithWatchListSemantics(lw, noWatchList{})
	} else {
		source = cache.ToListWatcherWithWatchListSemantics(lw, client)
	}
	reflector := cache.NewReflectorWithOptions(source, &corev1.ConfigMap{}, o.store, cache.ReflectorOptions{Name: o.name})
	stop := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		reflector.Run(stop)
	}()
	t.Cleanup(func() {
		close(stop)
		<-done
	})
	return o
}

// noWatchList is a client that cannot do it.
type noWatchList struct{}

func (noWatchList) IsWatchListSemanticsUnSupported() bool { return true }

func (o *reflected) count(number *int) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	*number++
}

func (o *reflected) contents() map[string]string {
	found := map[string]string{}
	for _, object := range o.store.List() {
		if key, err := markedKey(object); err == nil {
			found[key] = object.(*corev1.ConfigMap).ResourceVersion
		}
	}
	return found
}

// union of what the servers themselves say.
func (r *rig) union(t *testing.T, ns string) (map[string]string, error) {
	all := map[string]string{}
	for _, s := range r.servers {
		for _, h := range s.homes {
			list, err := e2e.Typed(t, s.config(h.prefix)).CoreV1().ConfigMaps(ns).List(context.Background(), metav1.ListOptions{FieldSelector: r.selector(ns)})
			if err != nil {
				return nil, err
			}
			for _, item := range list.Items {
				all[h.marker+"/"+ns+"/"+item.Name] = item.ResourceVersion
			}
		}
	}
	return all, nil
}

func (r *rig) converges(t *testing.T, ns string, observers []*reflected, deadline time.Duration) {
	t.Helper()
	for _, o := range observers {
		e2e.Eventually(t, deadline, o.name+" equals the union of the servers", func() error {
			want, err := r.union(t, ns)
			if err != nil {
				return err
			}
			return e2e.Difference(want, o.contents())
		})
		o.mutex.Lock()
		t.Logf("%s: %d objects, %d lists, %d watch-lists", o.name, len(o.store.List()), o.lists, o.watchLists)
		o.mutex.Unlock()
	}
}

// scribble makes, changes and deletes objects of few names until `writes` of them were acknowledged.
func scribble(ctx context.Context, client kubernetes.Interface, ns, prefix string, seed int64, writes int) error {
	random := rand.New(rand.NewSource(seed))
	maps := client.CoreV1().ConfigMaps(ns)
	for done := 0; done < writes && ctx.Err() == nil; {
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%02d", prefix, random.Intn(30))},
			Data: map[string]string{"n": fmt.Sprint(done)}}
		var err error
		switch random.Intn(5) {
		case 0:
			err = maps.Delete(ctx, object.Name, metav1.DeleteOptions{})
		case 1, 2:
			_, err = maps.Create(ctx, object, metav1.CreateOptions{})
		default:
			_, err = maps.Update(ctx, object, metav1.UpdateOptions{})
		}
		switch {
		case err == nil:
			done++
		case apierrors.IsInvalid(err) || apierrors.IsBadRequest(err):
			return err
		case !apierrors.IsNotFound(err) && !apierrors.IsAlreadyExists(err):
			time.Sleep(20 * time.Millisecond) // the server is down, or so new that it knows of no roles yet
		}
	}
	return nil
}

// scribbleAll writes on all servers at once. Names are the same everywhere, or each server's own: client-go collects a
// WatchList by namespace and name, whatever the key of its store is.
func (r *rig) scribbleAll(t *testing.T, ns string, same bool, seed int64, writes int, meanwhile func()) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	var group sync.WaitGroup
	faults := make(chan error, 100)
	for number, s := range r.servers {
		for n, h := range s.homes {
			client := e2e.Typed(t, e2e.Protobuf(r.config(h.cluster)))
			prefix := fmt.Sprintf("x-%s%d", s.name, n)
			if same {
				prefix = "x"
			}
			group.Go(func() {
				if err := scribble(ctx, client, ns, prefix, seed+int64(10*n+number), writes); err != nil {
					faults <- fmt.Errorf("%s: %w", s.name, err)
				}
			})
		}
	}
	if meanwhile != nil {
		meanwhile()
	}
	group.Wait()
	close(faults)
	for err := range faults {
		t.Fatal(err)
	}
}

// T49, T47: reflectors over new and old servers, with and without WatchList, follow every write.
func testInformers(t *testing.T, r *rig) {
	ns := r.namespace(t, "informers")
	r.scribbleAll(t, ns, false, 1, 40, nil)
	observers := []*reflected{reflect(t, r, ns, true), reflect(t, r, ns, false)}
	r.converges(t, ns, observers, 30*time.Second)
	r.scribbleAll(t, ns, false, 10, 150, nil)
	r.converges(t, ns, observers, 10*time.Second)
	if o := observers[0]; o.watchLists != 1 || o.lists != 0 {
		t.Errorf("%s: not one WatchList", o.name)
	}
}

// T76, T77: objects of one name on every server live side by side in a store keyed by the marker.
func testSameNames(t *testing.T, r *rig) {
	ns := r.namespace(t, "samenames")
	r.scribbleAll(t, ns, true, 2, 40, nil)
	observers := []*reflected{reflect(t, r, ns, false)}
	r.converges(t, ns, observers, 30*time.Second)
	r.scribbleAll(t, ns, true, 12, 150, nil)
	r.converges(t, ns, observers, 10*time.Second)
}

// T59: a server that is killed and comes back while objects change is followed again.
func testKill(t *testing.T, r *rig) {
	ns := r.namespace(t, "kill")
	r.scribbleAll(t, ns, false, 20, 20, nil)
	observers := []*reflected{reflect(t, r, ns, true), reflect(t, r, ns, false)}
	r.converges(t, ns, observers, 30*time.Second)
	for _, victim := range r.servers {
		r.scribbleAll(t, ns, false, 30, 60, func() {
			time.Sleep(50 * time.Millisecond) // some writes first
			victim.kill()
			if err := victim.start(); err != nil {
				t.Error(err)
			}
		})
		victim.ready(t)
	}
	r.converges(t, ns, observers, 60*time.Second)
}
