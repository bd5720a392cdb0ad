package e2e

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"syscall"
	"testing"

	kcpcache "github.com/kcp-dev/apimachinery/v2/pkg/cache"
	kcpinformers "github.com/kcp-dev/apimachinery/v2/third_party/informers"
	"github.com/kcp-dev/logicalcluster/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
)

func must[T any](value T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

// versions are the resourceVersions of all things by kcp's key: cluster, namespace, name.
func versions(consumers []*consumer) (map[string]string, error) {
	union := map[string]string{}
	for _, one := range consumers {
		list, err := one.Resource(things).List(context.Background(), metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		for _, thing := range list.Items {
			union[kcpcache.ToClusterAwareKey(one.cluster, thing.GetNamespace(), thing.GetName())] = thing.GetResourceVersion()
		}
	}
	return union, nil
}

// kcp's informers keep objects by cluster: over one aggregated endpoint their store equals the union of the consumers,
// which use the same names.
func TestClusterAwareInformers_FP097_FP098_FP099(t *testing.T) {
	f := newFleet(t)
	consumers := make([]*consumer, len(regions))
	for number, region := range regions {
		consumers[number] = f.consumer(fmt.Sprintf("consumer-%d", number), region)
	}
	slice := must(f.provider.Resource(endpointSlices).Get(t.Context(), f.slice("aggregated"), metav1.GetOptions{}))(t)
	endpoints, _, _ := unstructured.NestedSlice(slice.Object, "status", "endpoints")
	if len(endpoints) != 1 {
		t.Fatalf("endpoints %v", endpoints)
	}
	config := f.Config("")
	config.Host = endpoints[0].(map[string]any)["url"].(string) + "/clusters/*"
	client := must(dynamic.NewForConfig(config))(t).Resource(things)
	informer := kcpinformers.NewSharedIndexInformer(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return client.List(ctx, options)
		},
		WatchFuncWithContext: client.Watch,
	}, &unstructured.Unstructured{}, 0, cache.Indexers{kcpcache.ClusterIndexName: kcpcache.ClusterIndexFunc,
		kcpcache.ClusterAndNamespaceIndexName: kcpcache.ClusterAndNamespaceIndexFunc})
	go informer.Run(t.Context().Done())

	following := func(consumers []*consumer, what string) {
		t.Helper()
		Eventually(t, patience, what, func() error {
			want, err := versions(consumers)
			if err != nil {
				return err
			}
			found := map[string]string{}
			for _, stored := range informer.GetStore().List() {
				thing := stored.(*unstructured.Unstructured)
				found[must(kcpcache.MetaClusterNamespaceKeyFunc(thing))(t)] = thing.GetResourceVersion()
			}
			if !maps.Equal(want, found) {
				return fmt.Errorf("the store has %v, the consumers %v", found, want)
			}
			return nil
		})
		for _, one := range consumers {
			for _, stored := range must(informer.GetIndexer().ByIndex(kcpcache.ClusterIndexName, kcpcache.ClusterIndexKey(logicalcluster.Name(one.cluster))))(t) {
				if cluster := stored.(*unstructured.Unstructured).GetAnnotations()["kcp.io/cluster"]; cluster != one.cluster {
					t.Errorf("index of %s shows an object of %s", one.cluster, cluster)
				}
			}
		}
	}
	follows := func(what string) {
		t.Helper()
		following(consumers, what)
	}
	follows("what is there")
	patch := func(name string) {
		t.Helper()
		for _, one := range consumers {
			Eventually(t, patience, "patch of "+name, func() error {
				_, err := one.Resource(things).Namespace("default").Patch(t.Context(), name, types.MergePatchType,
					[]byte(`{"spec":{"changed":true}}`), metav1.PatchOptions{})
				return err
			})
		}
	}
	patch("stone")
	f.more(consumers, "pebble")
	follows("changes")
	for _, one := range consumers {
		if err := one.Resource(things).Namespace("default").Delete(t.Context(), "stone", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	follows("deletions")
	before := must(f.Kill("shard-2", syscall.SIGKILL))(t)
	f.more(consumers[:2], "meanwhile")
	if err := f.Restarted("shard-2", before, patience); err != nil {
		t.Fatal(err)
	}
	patch("pebble")
	follows("what came after a shard was killed")
	consumers = append(consumers, f.consumer("late", regions[2]))
	follows("a consumer that comes")

	joined := f.JoinShard("shard-3", "us-west-2")
	guest := f.consumer("guest", "us-west-2")
	everybody := append(slices.Clone(consumers), guest)
	f.more(everybody, "shared")
	following(everybody, "a shard that joins")
	// These informers delete by DELETED events only: all that the shard had has to come so, on the stream that is open.
	if err := Dynamic(t, f.Config("root")).Resource(Shards).Delete(t.Context(), "shard-3", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	follows("a shard that is removed")
	if err := joined.Stop(); err != nil {
		t.Fatal(err)
	}
	f.more(consumers, "at-last")
	follows("the others go on")
}
