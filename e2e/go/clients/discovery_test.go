package clients

import (
	"net/http"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/disk"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/restmapper"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	e2e "kintsugi.dev/e2e"
)

// discoveryAndMappers resolves kinds from discovery kept in memory and on disk, before and after a CRD comes.
func discoveryAndMappers(t *testing.T, at place) {
	var seen answers
	direct := must[*discovery.DiscoveryClient](t)(discovery.NewDiscoveryClientForConfig(seen.of(at.config)))
	groups, lists, err := direct.ServerGroupsAndResources()
	if err != nil {
		t.Fatal(err)
	}
	againGroups, againLists, err := direct.ServerGroupsAndResources()
	if err != nil || !reflect.DeepEqual(groups, againGroups) || !reflect.DeepEqual(byVersion(lists), byVersion(againLists)) {
		t.Errorf("discovery differs from one request to the next (%v)", err)
	}
	unaggregated := direct.WithLegacy()
	plain, err := unaggregated.ServerGroups()
	if err != nil {
		t.Fatal(err)
	}
	if have, want := groupNames(plain.Groups), groupNames(valuesOf(groups)); !reflect.DeepEqual(have, want) {
		t.Errorf("unaggregated groups %v, aggregated %v", have, want)
	}
	seen.take()
	err = direct.RESTClient().Get().AbsPath("/apis/nobody.example.com").Do(t.Context()).Error()
	if !apierrors.IsNotFound(err) || strings.Contains(err.Error(), "<html") || seen.take()[http.StatusNotFound] == 0 {
		t.Errorf("a group that does not exist: %v", err)
	}
	nobodys, err := direct.ServerResourcesForGroupVersion("nobody.example.com/v1") // KK-382
	if err != nil || len(nobodys.APIResources) != 0 {
		t.Errorf("a group version that nobody serves: %v, %v", nobodys, err)
	}
	if version, err := direct.ServerVersion(); err != nil || version.Major != "1" {
		t.Errorf("version %v: %v", version, err)
	}
	if document, err := direct.OpenAPIV3().Paths(); err != nil || document["api/v1"] == nil {
		t.Errorf("OpenAPI v3 paths %v: %v", document, err)
	}

	folder := filepath.Join(at.installation.Dir, "discovery")
	open := func() *disk.CachedDiscoveryClient {
		return must[*disk.CachedDiscoveryClient](t)(disk.NewCachedDiscoveryClientForConfig(seen.of(at.config),
			filepath.Join(folder, "documents"), filepath.Join(folder, "http"), time.Hour))
	}
	caches := map[string]discovery.CachedDiscoveryInterface{"memory": memory.NewMemCacheClient(direct), "disk": open()}
	wanted := schema.GroupKind{Group: "e2e.example.com", Kind: "Gauge"}
	mappers := map[string]*restmapper.DeferredDiscoveryRESTMapper{}
	for name, from := range caches {
		mappers[name] = restmapper.NewDeferredDiscoveryRESTMapper(from)
		mapping, err := mappers[name].RESTMapping(schema.GroupKind{Group: "coordination.k8s.io", Kind: "Lease"})
		if err != nil || mapping.Resource.Resource != "leases" || mapping.Scope.Name() != meta.RESTScopeNameNamespace {
			t.Errorf("%s: Lease maps to %v: %v", name, mapping, err)
		}
		if _, err = mappers[name].RESTMapping(wanted); !meta.IsNoMatchError(err) {
			t.Errorf("%s: %v before its CRD: %v", name, wanted, err)
		}
	}
	if _, err = envtest.InstallCRDs(at.config, envtest.CRDInstallOptions{CRDs: []*apiextensionsv1.CustomResourceDefinition{
		definition("gauges", wanted.Kind, apiextensionsv1.ClusterScoped)}}); err != nil {
		t.Fatal(err)
	}
	for name, mapper := range mappers {
		mapper.Reset()
		mapping, err := mapper.RESTMapping(wanted)
		if err != nil || mapping.Resource.Resource != "gauges" || mapping.Scope.Name() != meta.RESTScopeNameRoot {
			t.Errorf("%s: %v maps to %v: %v", name, wanted, mapping, err)
		}
		kind, err := restmapper.NewShortcutExpander(mapper, caches[name], nil).KindFor(schema.GroupVersionResource{Resource: "gau"})
		if err != nil || kind.GroupKind() != wanted {
			t.Errorf("%s: short name is of %v: %v", name, kind, err)
		}
	}
	// What another process left on disk is valid, and asking whether it still is costs no body.
	seen.take()
	reopened := open()
	if _, err := reopened.ServerResourcesForGroupVersion("v1"); err != nil || len(seen.take()) != 0 {
		t.Errorf("a document on disk was asked for again (%v)", err)
	}
	reopened.Invalidate()
	if _, err := reopened.ServerGroups(); err != nil {
		t.Error(err)
	}
	if codes := seen.take(); codes[http.StatusNotModified] == 0 {
		t.Errorf("revalidation was answered %v", codes)
	}
	clean := e2e.Dynamic(t, at.config).Resource(apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions"))
	if err := clean.Delete(t.Context(), "gauges.e2e.example.com", metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
}

func groupNames(groups []metav1.APIGroup) []string {
	var names []string
	for _, group := range groups {
		for _, version := range group.Versions {
			names = append(names, version.GroupVersion)
		}
	}
	return names
}

// byVersion drops the order of the lists, which the client library takes from a map.
func byVersion(lists []*metav1.APIResourceList) map[string]*metav1.APIResourceList {
	result := map[string]*metav1.APIResourceList{}
	for _, list := range lists {
		result[list.GroupVersion] = list
	}
	return result
}

func valuesOf(groups []*metav1.APIGroup) []metav1.APIGroup {
	values := make([]metav1.APIGroup, len(groups))
	for i, group := range groups {
		values[i] = *group
	}
	return values
}

// definition is a CRD of group e2e.example.com with a status subresource.
func definition(plural, kind string, scope apiextensionsv1.ResourceScope) *apiextensionsv1.CustomResourceDefinition {
	open := true
	status := apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{
		"size": {Type: "integer"}, "peers": {Type: "integer"}, "by": {Type: "string"},
		"conditions": {Type: "array", XListType: pointer("map"), XListMapKeys: []string{"type"},
			Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &apiextensionsv1.JSONSchemaProps{Type: "object",
				Required: []string{"type"}, Properties: map[string]apiextensionsv1.JSONSchemaProps{"type": {Type: "string"}},
				XPreserveUnknownFields: &open}}}}}
	spec := apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{
		"size": {Type: "integer", Minimum: pointer(0.0)}, "color": {Type: "string"},
		"status": {Type: "string", Default: &apiextensionsv1.JSON{Raw: []byte(`"update"`)}}}}
	return &apiextensionsv1.CustomResourceDefinition{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition"},
		ObjectMeta: metav1.ObjectMeta{Name: plural + ".e2e.example.com"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{Group: "e2e.example.com", Scope: scope,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: plural, Singular: strings.ToLower(kind), Kind: kind,
				ListKind: kind + "List", ShortNames: []string{plural[:3]}},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true,
				Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object",
					Properties: map[string]apiextensionsv1.JSONSchemaProps{"spec": spec, "status": status}}}}}}}
}

func pointer[T any](value T) *T { return &value }
