package plain

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	toolscache "k8s.io/client-go/tools/cache"
	crcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	e2e "kintsugi.dev/e2e"
	"kintsugi.dev/e2e/merge"
)

// rootCA is a ConfigMap that embedded shards put into each namespace.
const rootCA = "kube-root-ca.crt"

// held is what a client's cache holds now: server/name -> version.
type held func() (map[string]string, error)

func ofStore(store toolscache.Store) held {
	return func() (map[string]string, error) {
		out := map[string]string{}
		for _, object := range store.List() {
			accessor, err := apimeta.Accessor(object)
			if err != nil {
				return nil, err
			}
			out[accessor.GetAnnotations()[marker]+"/"+accessor.GetName()] = accessor.GetResourceVersion()
		}
		return out, nil
	}
}

func ofCache(reader client.Reader, list client.ObjectList, ns string) held {
	return func() (map[string]string, error) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second) // it waits until the cache is filled
		defer cancel()
		if err := reader.List(ctx, list, client.InNamespace(ns)); err != nil {
			return nil, err
		}
		out := map[string]string{}
		err := apimeta.EachListItem(list, func(object runtime.Object) error {
			accessor, err := apimeta.Accessor(object)
			if err == nil && accessor.GetName() != rootCA {
				out[accessor.GetAnnotations()[marker]+"/"+accessor.GetName()] = accessor.GetResourceVersion()
			}
			return err
		})
		return out, err
	}
}

// T49: informers of all sorts that know nothing of servers: metadata, dynamic, and the cache of controller-runtime with two
// kinds and (plain servers) a custom one, while a server is killed, leaves and joins.
func testClients(p *place) {
	resource := merge.Resource{Group: p.ns + ".example.test", Version: "v1", Plural: "gears", Kind: "Gear"}
	ctx, cancel := context.WithCancel(context.Background())
	p.t.Cleanup(cancel)
	number, last := 0, map[string]string{}
	write := func(servers []*server) {
		number++
		for _, s := range servers {
			name := fmt.Sprintf("%s-%d", s.name, number)
			p.put(s.name, name)
			p.put(s.name, s.name+"-kept")
			if p.plain {
				p.make(s.name, resource, name)
			}
			if _, err := p.at(s.name, name).CoreV1().Secrets(p.ns).Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
				p.t.Fatal(err)
			}
			if before := last[s.name]; before != "" {
				p.remove(s.name, before)
			}
			last[s.name] = name
		}
	}
	for _, s := range p.servers {
		if p.plain {
			p.define(s.name, resource)
		}
	}
	write(p.servers)

	gears := schema.GroupVersionResource{Group: resource.Group, Version: "v1", Resource: resource.Plural}
	configMaps := corev1.SchemeGroupVersion.WithResource("configmaps")
	caches := map[string]map[string]held{"configmaps": {}, "secrets": {}, "gears": {}}
	selected := p.selector(p.ns)
	scope, options := "", crcache.Options{} // controller-runtime turns a selected namespace into one in the path
	if p.plain {
		scope, options.DefaultNamespaces = p.ns, map[string]crcache.Config{p.ns: {}}
	}
	tweak := func(options *metav1.ListOptions) { options.FieldSelector = selected }
	meta := metadatainformer.NewFilteredSharedInformerFactory(metadata.NewForConfigOrDie(p.config("*")), 0, scope, tweak)
	dynamic := dynamicinformer.NewFilteredDynamicSharedInformerFactory(e2e.Dynamic(p.t, p.config("*")), 0, scope, tweak)
	caches["configmaps"]["metadata"] = ofStore(meta.ForResource(configMaps).Informer().GetStore())
	caches["configmaps"]["dynamic"] = ofStore(dynamic.ForResource(configMaps).Informer().GetStore())
	if p.plain {
		caches["gears"]["metadata"] = ofStore(meta.ForResource(gears).Informer().GetStore())
		caches["gears"]["dynamic"] = ofStore(dynamic.ForResource(gears).Informer().GetStore())
	}
	meta.Start(ctx.Done())
	dynamic.Start(ctx.Done())
	reader, err := crcache.New(p.config("*"), options)
	if err != nil {
		p.t.Fatal(err)
	}
	go func() { _ = reader.Start(ctx) }()
	unstructuredGears := &unstructured.UnstructuredList{}
	unstructuredGears.SetGroupVersionKind(gears.GroupVersion().WithKind(resource.Kind + "List"))
	partialMaps := &metav1.PartialObjectMetadataList{}
	partialMaps.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMapList"))
	caches["configmaps"]["controller-runtime"] = ofCache(reader, &corev1.ConfigMapList{}, p.ns)
	caches["configmaps"]["controller-runtime, metadata"] = ofCache(reader, partialMaps, p.ns)
	caches["secrets"]["controller-runtime"] = ofCache(reader, &corev1.SecretList{}, p.ns)
	if p.plain {
		caches["gears"]["controller-runtime"] = ofCache(reader, unstructuredGears, p.ns)
	}

	follow := func(what string, servers []*server) {
		p.t.Helper()
		for kind, all := range caches {
			path := p.of(kind)
			if kind == "gears" {
				path = custom(p.ns, resource)
			}
			for name, now := range all {
				e2e.Eventually(p.t, 2*patience, what+": "+name+" of "+kind, func() error {
					want := map[string]string{}
					for _, s := range servers {
						for _, item := range p.direct[s.name].List(p.t, path).Items {
							want[p.marker(s, item)+"/"+item.Metadata.Name] = item.Metadata.ResourceVersion
						}
					}
					got, err := now()
					if err == nil {
						err = e2e.Difference(want, got)
					}
					return err
				})
			}
		}
	}
	whole := p.servers
	follow("the beginning", whole)
	write(whole)
	follow("changes", whole)
	whole[0].restart(p.t, nil)
	write(whole)
	follow("a server was killed", whole)
	p.t.Cleanup(func() { p.have(whole) })
	rest := whole[:len(whole)-1]
	p.have(rest)
	write(rest)
	follow("a server left", rest)
	p.have(whole)
	write(whole)
	follow("a server joined", whole)
}
