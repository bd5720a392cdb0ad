package e2e

import (
	"context"
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
)

const crashShard = "shard-9"

// ownShard is a fourth shard that the test itself starts and restarts, without the back-off of `up`.
type ownShard struct {
	t            *testing.T
	installation *Installation
	port         int
	process      *Process
}

func (s *ownShard) start() {
	s.t.Helper()
	var err error
	s.process, err = Start(Binary(s.t), filepath.Join(s.installation.Dir, crashShard+".log"), "shard", "--join", s.installation.State,
		"--name", crashShard, "--labels", "region=crash,cloud=test", "--port", strconv.Itoa(s.port))
	if err != nil {
		s.t.Fatal(err)
	}
	Eventually(s.t, 20*time.Second, crashShard+" is ready", func() error {
		if s.process.Ended() {
			s.t.Fatalf("%s ended: %v\n%s", crashShard, s.process.err, tail(s.process.log))
		}
		config, err := s.installation.ShardConfig(crashShard, "")
		if err != nil {
			return err
		}
		config.Timeout = 2 * time.Second
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			return err
		}
		return client.RESTClient().Get().AbsPath("/readyz").Do(context.Background()).Error()
	})
}

func TestShardSurvivesFiftyCrashes(t *testing.T) {
	const rounds, writers, names = 50, 8, 100
	const longest = 100 * time.Second
	seed := time.Now().UnixNano()
	if text := os.Getenv("KINTSUGI_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseInt(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("seed %d (again with KINTSUGI_SEED)", seed)
	random := rand.New(rand.NewSource(seed))
	installation := StartInstallation(t)
	shard := &ownShard{t: t, installation: installation, port: FreePort(t)}
	t.Cleanup(func() {
		if shard.process != nil {
			shard.process.Kill()
		}
	})
	shard.start()
	cluster := crashWorkspace(t, installation)
	direct, err := installation.ShardConfig(crashShard, cluster)
	if err != nil {
		t.Fatal(err)
	}
	proxied := installation.Config(cluster)
	client := Typed(t, Protobuf(direct))

	journals := []*journal{newJournal(), newJournal()} // through the proxy, at the shard
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	stop := make(chan struct{})
	var faults failures
	var group sync.WaitGroup
	for number := range writers {
		config := proxied
		if number%2 == 1 {
			config = direct
		}
		w, err := newWriter(config, number, names, seed, journals[number%2])
		if err != nil {
			t.Fatal(err)
		}
		w.deletes, w.largest = false, 4000
		group.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if err := w.step(ctx); err != nil {
					faults.add("writer %d: %w", number, err)
					return
				}
			}
		})
	}

	begin, clock := time.Now(), StartClock()
	var restarts []time.Duration
	revision := uint64(0)
	done := 0
	for ; done < rounds && clock.Spent() < longest && faults.err() == nil; done++ {
		time.Sleep(time.Duration(20+random.Intn(400)) * time.Millisecond) // the random moment
		shard.process.Kill()
		acknowledged := merged(journals)
		crashed := time.Now()
		shard.start()
		restarts = append(restarts, time.Since(crashed))
		listed, err := verify(client, acknowledged, max(revision, journals[0].highest(), journals[1].highest()))
		if err != nil {
			faults.add("after crash %d: %w", done+1, err)
		}
		revision = listed
	}
	close(stop)
	group.Wait()
	slices.Sort(restarts)
	t.Logf("%d crashes in %v; restart p50 %v, max %v", done, time.Since(begin).Round(time.Millisecond),
		restarts[len(restarts)/2].Round(time.Millisecond), restarts[len(restarts)-1].Round(time.Millisecond))
	t.Logf("through the proxy %v; at the shard %v", journals[0].counts, journals[1].counts)
	if err := faults.err(); err != nil {
		t.Fatal(err)
	}
	if done < rounds {
		t.Errorf("only %d of %d crashes fitted into %v", done, rounds, longest)
	}
	for n, path := range []string{"through the proxy", "at the shard"} {
		if count := journals[n].count("writes"); count < 2*rounds {
			t.Errorf("only %d writes %s", count, path)
		}
	}
	sameEverywhere(t, shard, client, Typed(t, proxied), merged(journals))
}

func crashWorkspace(t *testing.T, installation *Installation) string {
	t.Helper()
	shards := Dynamic(t, installation.Config("root")).Resource(schema.GroupVersionResource{Group: "core.kcp.io", Version: "v1alpha1", Resource: "shards"})
	Eventually(t, 20*time.Second, crashShard+" joins", func() error {
		found, err := shards.Get(context.Background(), crashShard, metav1.GetOptions{})
		if err == nil && found.GetLabels()["region"] != "crash" {
			err = fmt.Errorf("labels %v", found.GetLabels())
		}
		return err
	})
	path := installation.MakeWorkspace("crash", "crash")
	workspace, err := Dynamic(t, installation.Config("root")).Resource(Workspaces).Get(context.Background(), "crash", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	// The name of the logical cluster works at the shard too, the path only where the index is.
	name, _, _ := unstructured.NestedString(workspace.Object, "spec", "cluster")
	if name == "" {
		t.Fatalf("%s has no spec.cluster: %v", path, workspace.Object)
	}
	return name
}

func merged(journals []*journal) map[string]entry {
	all := map[string]entry{}
	for _, j := range journals {
		for name, state := range j.snapshot() {
			all[name] = state
		}
	}
	return all
}

func (j *journal) highest() uint64 {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	return j.latest
}

// verify lists everything right after a restart: whatever was acknowledged before is there, or something newer of the same
// writer; every object is whole; the revision is not below floor. It returns the list's revision.
func verify(client kubernetes.Interface, acknowledged map[string]entry, floor uint64) (uint64, error) {
	list, err := client.CoreV1().ConfigMaps("default").List(context.Background(), metav1.ListOptions{})
	if err != nil {
		return 0, err
	}
	revision, err := strconv.ParseUint(list.ResourceVersion, 10, 64)
	if err != nil {
		return 0, err
	}
	found := map[string]corev1.ConfigMap{}
	for _, item := range list.Items {
		if !strings.HasPrefix(item.Name, namePrefix) {
			continue
		}
		found[item.Name] = item
		if item.Data["sum"] != checksum(item.Name, item.Data) {
			return revision, fmt.Errorf("%s is corrupt: label %q", item.Name, item.Data["label"])
		}
		if version, err := strconv.ParseUint(item.ResourceVersion, 10, 64); err != nil || version > revision {
			return revision, fmt.Errorf("%s has resourceVersion %q, the list %d", item.Name, item.ResourceVersion, revision)
		}
	}
	for name, state := range acknowledged {
		item, present := found[name]
		if !present {
			return revision, fmt.Errorf("%s is lost, acknowledged at %d", name, state.version)
		}
		version, _ := strconv.ParseUint(item.ResourceVersion, 10, 64)
		if version < state.version || (version == state.version && item.Data["sum"] != state.sum) || item.UID != state.uid {
			return revision, fmt.Errorf("%s is at %d, acknowledged at %d", name, version, state.version)
		}
	}
	if revision < floor {
		return revision, fmt.Errorf("the revision went back from %d to %d", floor, revision)
	}
	return revision, nil
}

// sameEverywhere compares the final state at the shard, through the proxy, and after an orderly restart.
func sameEverywhere(t *testing.T, shard *ownShard, direct, proxied kubernetes.Interface, acknowledged map[string]entry) {
	t.Helper()
	before, items, err := listed(context.Background(), direct)
	if err != nil {
		t.Fatal(err)
	}
	if err := reflected(acknowledged, items); err != nil {
		t.Error(err)
	}
	through := func(what string) {
		Eventually(t, 20*time.Second, what, func() error {
			versions, _, err := listed(context.Background(), proxied)
			if err != nil {
				return err
			}
			return Difference(before, versions)
		})
	}
	through("the proxy's list equals the shard's")
	if err := shard.process.Stop(); err != nil {
		t.Errorf("%s on SIGTERM: %v", crashShard, err)
	}
	shard.start()
	after, _, err := listed(context.Background(), direct)
	if err != nil {
		t.Fatal(err)
	}
	if err := Difference(before, after); err != nil {
		t.Errorf("after an orderly restart: %v", err)
	}
	through("the proxy's list after an orderly restart")
}
