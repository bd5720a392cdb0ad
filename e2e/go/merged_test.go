package e2e

import (
	"context"
	"fmt"
	"math/rand"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
)

const mergedLabel = "merged=yes"

// mergedObservers are informers over all shards.
func mergedObservers(t *testing.T, installation *Installation, count int) []*observer {
	t.Helper()
	config := installation.Config("*")
	selected := func(options *metav1.ListOptions) { options.LabelSelector = mergedLabel }
	var observers []*observer
	for number := range count {
		r := &requests{}
		o := &observer{name: fmt.Sprintf("merged %d", number), requests: r}
		if number%2 == 0 {
			factory := dynamicinformer.NewFilteredDynamicSharedInformerFactory(Dynamic(t, r.of(config)), 0, "", selected)
			o.informer = factory.ForResource(configMaps).Informer()
		} else {
			factory := informers.NewSharedInformerFactoryWithOptions(Typed(t, r.of(Protobuf(config))), 0,
				informers.WithTweakListOptions(selected))
			o.informer = factory.Core().V1().ConfigMaps().Informer()
		}
		o.start(t)
		observers = append(observers, o)
	}
	return observers
}

// union of the shards' own lists: name -> resourceVersion. Names are different on each shard.
func union(clients []kubernetes.Interface) (map[string]string, error) {
	all := map[string]string{}
	for _, client := range clients {
		list, err := client.CoreV1().ConfigMaps("default").List(context.Background(), metav1.ListOptions{LabelSelector: mergedLabel})
		if err != nil {
			return nil, err
		}
		for _, item := range list.Items {
			all[item.Name] = item.ResourceVersion
		}
	}
	return all, nil
}

// scribble makes, changes and deletes objects until `writes` of them were acknowledged.
func scribble(ctx context.Context, client kubernetes.Interface, prefix string, seed int64, writes int) error {
	random := rand.New(rand.NewSource(seed))
	maps := client.CoreV1().ConfigMaps("default")
	for done := 0; done < writes && ctx.Err() == nil; {
		name := fmt.Sprintf("%s-%02d", prefix, random.Intn(40))
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"merged": "yes"}},
			Data: map[string]string{"n": fmt.Sprint(done)}}
		var err error
		switch random.Intn(5) {
		case 0:
			err = maps.Delete(ctx, name, metav1.DeleteOptions{})
		case 1, 2:
			_, err = maps.Create(ctx, object, metav1.CreateOptions{})
		default:
			_, err = maps.Update(ctx, object, metav1.UpdateOptions{})
		}
		switch {
		case err == nil:
			done++
		case apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err):
			return err
		case !apierrors.IsNotFound(err) && !apierrors.IsAlreadyExists(err):
			time.Sleep(20 * time.Millisecond) // something is down
		}
	}
	return nil
}

func mergedShards(t *testing.T, installation *Installation) []kubernetes.Interface {
	t.Helper()
	var clients []kubernetes.Interface
	for number, region := range []string{"eu-west-1", "us-east-1", "ap-south-1"} {
		path := installation.MakeWorkspace(fmt.Sprintf("merged-%d", number), region)
		clients = append(clients, Typed(t, installation.Config(path)))
	}
	return clients
}

func equalToUnion(t *testing.T, observers []*observer, clients []kubernetes.Interface) {
	t.Helper()
	for _, o := range observers {
		Eventually(t, 75*time.Second, "the "+o.name+" informer equals the union of the shards", func() error {
			want, err := union(clients)
			if err != nil {
				return err
			}
			return Difference(want, o.contents())
		})
		if err := o.faults.err(); err != nil {
			t.Error(err)
		}
		t.Log(o.numbers())
	}
}

// T49, T33: one WatchList, no LIST; every event of every shard, in order.
func TestMergedInformers(t *testing.T) {
	installation := StartInstallation(t)
	clients := mergedShards(t, installation)
	for number, client := range clients {
		if err := scribble(context.Background(), client, fmt.Sprintf("s%d", number), int64(number), 100); err != nil {
			t.Fatal(err)
		}
	}
	observers := mergedObservers(t, installation, 4)
	var group sync.WaitGroup
	var faults failures
	for number, client := range clients {
		group.Go(func() {
			if err := scribble(context.Background(), client, fmt.Sprintf("s%d", number), int64(10+number), 500); err != nil {
				faults.add("%w", err)
			}
		})
	}
	group.Wait()
	if err := faults.err(); err != nil {
		t.Fatal(err)
	}
	equalToUnion(t, observers, clients)
	for _, o := range observers {
		if len(o.requests.watchLists) != 1 || len(o.requests.lists) != 0 {
			t.Errorf("%s: %v, not one WatchList", o.name, o.requests)
		}
	}
}

// T53, T59: whatever is killed while objects change, in the end every informer has what the shards have.
func TestMergedInformersSurviveKills(t *testing.T) {
	installation := StartInstallation(t)
	clients := mergedShards(t, installation)
	observers := mergedObservers(t, installation, 8)
	var group sync.WaitGroup
	var faults failures
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	for number, client := range clients {
		group.Go(func() {
			if err := scribble(ctx, client, fmt.Sprintf("s%d", number), int64(20+number), 1500); err != nil {
				faults.add("%w", err)
			}
		})
	}
	for _, victim := range []string{"shard-1", "proxy", "root", "shard-2", "proxy", "shard-1"} {
		before, err := installation.Kill(victim, syscall.SIGKILL)
		if err != nil {
			t.Fatal(err)
		}
		if err := installation.Restarted(victim, before, 20*time.Second); err != nil {
			t.Fatal(err)
		}
		Eventually(t, 30*time.Second, "all shards are read again after "+victim, func() error {
			_, err := union(clients)
			return err
		})
	}
	group.Wait()
	if err := faults.err(); err != nil {
		t.Fatal(err)
	}
	equalToUnion(t, observers, clients)
}
