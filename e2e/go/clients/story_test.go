package clients

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	e2e "kintsugi.dev/e2e"
)

const (
	consumers    = 30
	homeRegion   = "eu-west-1"
	secondRegion = "us-east-1"
	newRegion    = "us-west-2"
	newShard     = "shard-3"
	newConsumers = 3
	patience     = 60 * time.Second
)

// story is a provider in root:acme with two running managers, and consumers on every shard.
type story struct {
	*testing.T
	installation *e2e.Installation
	acme         dynamic.Interface
	consumers    []dynamic.Interface // a third of them in Europe: numbers 0, 3, 6, …
	all, europe  *provider
}

// publish makes the export and a slice per manager.
func (s *story) publish() {
	ctx := context.Background()
	property := map[string]any{"type": "object", "properties": map[string]any{
		"spec":   map[string]any{"type": "object", "properties": map[string]any{"size": map[string]any{"type": "integer"}}},
		"status": map[string]any{"type": "object", "additionalProperties": map[string]any{"type": "string"}}}}
	must[*unstructured.Unstructured](s.T)(s.acme.Resource(schemas).Create(ctx, object(schemas, "APIResourceSchema", "v1.widgets.story.example.com", map[string]any{
		"spec": map[string]any{"group": "story.example.com", "scope": "Namespaced",
			"names": map[string]any{"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
			"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true, "schema": property,
				"subresources": map[string]any{"status": map[string]any{}}}}}}), metav1.CreateOptions{}))
	must[*unstructured.Unstructured](s.T)(s.acme.Resource(exports).Create(ctx, object(exports, "APIExport", "widgets", map[string]any{"spec": map[string]any{
		"resources": []any{map[string]any{"group": "story.example.com", "name": "widgets", "schema": "v1.widgets.story.example.com",
			"storage": map[string]any{"crd": map[string]any{}}}}}}), metav1.CreateOptions{}))
	must[*unstructured.Unstructured](s.T)(s.acme.Resource(partitions).Create(ctx, object(partitions, "Partition", "eu", map[string]any{"spec": map[string]any{
		"selector": map[string]any{"matchLabels": map[string]any{"region": homeRegion}}}}), metav1.CreateOptions{}))
	s.slice("everywhere", map[string]any{})
	s.slice("europe", map[string]any{"partition": "eu"})
}

func (s *story) slice(name string, spec map[string]any) {
	spec["export"] = map[string]any{"path": "root:acme", "name": "widgets"}
	slice := object(endpointSlices, "APIExportEndpointSlice", name, map[string]any{
		"metadata": map[string]any{"annotations": map[string]any{"kintsugi.dev/endpoint-mode": "aggregated"}}, "spec": spec})
	e2e.Eventually(s.T, 20*time.Second, "slice "+name, func() error {
		_, err := s.acme.Resource(endpointSlices).Create(context.Background(), slice, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	})
}

func (s *story) manager(name string) *provider {
	p := &provider{name: name, base: s.installation.Config(""), endpoint: endpoint(s.T, s.acme, name)}
	p.run(s.T)
	return p
}

// workspaces makes consumers, in the regions in turn, with their first widgets.
func (s *story) workspaces(prefix string, count int, regions ...string) []dynamic.Interface {
	made := make([]dynamic.Interface, count)
	var group sync.WaitGroup
	for number := range made {
		path := s.installation.MakeWorkspace(fmt.Sprintf("%s-%02d", prefix, number), regions[number%len(regions)])
		made[number] = e2e.Dynamic(s.T, s.installation.Config(path))
		group.Go(func() { consume(s.T, made[number], fmt.Sprintf("first-%s-%02d", prefix, number)) })
	}
	group.Wait()
	return made
}

// signed waits until every widget of the consumers has the signatures of these managers.
func (s *story) signed(what string, workspaces []dynamic.Interface, by ...*provider) {
	s.Helper()
	e2e.Eventually(s.T, patience, what, func() error {
		for number, workspace := range workspaces {
			list, err := workspace.Resource(widgets).List(context.Background(), metav1.ListOptions{})
			if err != nil {
				return err
			}
			if len(list.Items) == 0 {
				return fmt.Errorf("consumer %d has no widget", number)
			}
			for _, widget := range list.Items {
				for _, p := range by {
					if found, _, _ := unstructured.NestedString(widget.Object, "status", p.name); found != "done" {
						return fmt.Errorf("%s of consumer %d: %s did not sign, status %v", widget.GetName(), number, p.name, widget.Object["status"])
					}
				}
			}
		}
		return nil
	})
}

// never fails if a manager signed widgets of the consumers whose names begin so.
func (s *story) never(by *provider, workspaces []dynamic.Interface, prefix string) {
	s.Helper()
	for _, workspace := range workspaces {
		list := must[*unstructured.UnstructuredList](s.T)(workspace.Resource(widgets).List(context.Background(), metav1.ListOptions{}))
		for _, widget := range list.Items {
			if _, found, _ := unstructured.NestedString(widget.Object, "status", by.name); found && strings.HasPrefix(widget.GetName(), prefix) {
				s.Fatalf("%s signed %s", by.name, widget.GetName())
			}
		}
	}
}

// sees waits until the cache of a manager holds the widgets of these workspaces and no others.
func (s *story) sees(p *provider, groups ...[]dynamic.Interface) {
	s.Helper()
	e2e.Eventually(s.T, patience, p.name+" sees its consumers' widgets and no others", func() error {
		want := map[types.UID]bool{}
		for _, group := range groups {
			for _, workspace := range group {
				list, err := workspace.Resource(widgets).List(context.Background(), metav1.ListOptions{})
				if err != nil {
					return err
				}
				for _, widget := range list.Items {
					want[widget.GetUID()] = true
				}
			}
		}
		cached := &unstructured.UnstructuredList{}
		cached.SetGroupVersionKind(widgets.GroupVersion().WithKind("WidgetList"))
		if err := p.List(context.Background(), cached); err != nil {
			return err
		}
		for _, widget := range cached.Items {
			if !want[widget.GetUID()] {
				return fmt.Errorf("%s of another", widget.GetName())
			}
		}
		if len(cached.Items) != len(want) {
			return fmt.Errorf("%d of %d", len(cached.Items), len(want))
		}
		return nil
	})
}

func (s *story) more(prefix string, workspaces []dynamic.Interface) {
	var group sync.WaitGroup
	for number := range workspaces {
		group.Go(func() { makeWidget(s.T, workspaces[number], fmt.Sprintf("%s-%02d", prefix, number)) })
	}
	group.Wait()
}

func (s *story) inEurope() (out []dynamic.Interface) {
	for number := 0; number < len(s.consumers); number += 3 {
		out = append(out, s.consumers[number])
	}
	return out
}

func (s *story) elsewhere() (out []dynamic.Interface) {
	for number, workspace := range s.consumers {
		if number%3 != 0 {
			out = append(out, workspace)
		}
	}
	return out
}

func (s *story) relabel(shard, region string) {
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{"region":%q}}}`, region)
	must[*unstructured.Unstructured](s.T)(e2e.Dynamic(s.T, s.installation.Config("root")).Resource(e2e.Shards).Patch(
		context.Background(), shard, types.MergePatchType, patch, metav1.PatchOptions{}))
}

// traffic makes widgets in all consumers in turn until the returned function is called.
func (s *story) traffic() (stop func()) {
	var ended atomic.Bool
	var group sync.WaitGroup
	group.Go(func() {
		for number := 0; !ended.Load() && number < 2000; number++ {
			makeWidget(s.T, s.consumers[number%len(s.consumers)], fmt.Sprintf("meanwhile-%04d", number))
			time.Sleep(20 * time.Millisecond)
		}
	})
	return func() {
		ended.Store(true)
		group.Wait()
	}
}

// The story of the seed: a provider in root:acme, consumers on every shard, one endpoint and one credential for each of two
// managers, which run unchanged to the end while shards are added, relabelled, killed and removed.
func TestProviderOverAllShards_TP136(t *testing.T) {
	installation := e2e.StartInstallation(t)
	s := &story{T: t, installation: installation,
		acme: e2e.Dynamic(t, installation.Config(installation.MakeWorkspace("acme", homeRegion)))}
	s.publish()
	s.all, s.europe = s.manager("everywhere"), s.manager("europe")
	s.consumers = s.workspaces("consumer", consumers, homeRegion, secondRegion, "ap-south-1")
	s.signed("everybody's widgets are signed", s.consumers, s.all)
	s.signed("those of Europe twice", s.inEurope(), s.europe)
	stop := s.traffic()

	before := must[int](t)(installation.Kill("shard-1", syscall.SIGKILL))
	if err := installation.Restarted("shard-1", before, 20*time.Second); err != nil {
		t.Fatal(err)
	}
	s.more("after-kill", s.consumers)
	s.signed("widgets made after a shard was killed are signed", s.consumers, s.all)

	shard := installation.JoinShard(newShard, newRegion)
	joined := s.workspaces("joined", newConsumers, newRegion)
	s.signed("widgets on a new shard are signed", joined, s.all)
	s.more("barrier", s.inEurope())
	s.signed("Europe is at work", s.inEurope(), s.europe)
	s.never(s.europe, joined, "")

	s.relabel(newShard, homeRegion)
	s.signed("a shard comes to Europe", joined, s.europe)
	s.more("within", joined)
	s.signed("new widgets there are signed by both", joined, s.all, s.europe)

	s.relabel(newShard, newRegion)
	s.sees(s.europe, s.inEurope())
	s.more("outside", joined)
	s.more("second-barrier", s.inEurope())
	s.signed("a shard has left Europe", joined, s.all)
	stop()
	s.signed("all widgets made meanwhile are signed", s.consumers, s.all)
	s.signed("those of Europe twice", s.inEurope(), s.europe)
	s.never(s.europe, joined, "outside")
	s.sees(s.all, s.consumers, joined)

	shards := e2e.Dynamic(t, installation.Config("root")).Resource(e2e.Shards)
	if err := shards.Delete(context.Background(), newShard, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	s.sees(s.all, s.consumers)
	if err := shard.Stop(); err != nil {
		t.Fatal(err)
	}
	s.more("at-last", s.consumers)
	s.signed("the others are served as before", s.consumers, s.all)
	s.signed("in Europe too", s.inEurope(), s.europe)
	s.never(s.europe, s.elsewhere(), "")
}
