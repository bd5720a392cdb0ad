package merge

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

var readVerbs = metav1.Verbs{"create", "delete", "get", "list", "update", "watch"}

func resourceList(resource Resource) metav1.APIResourceList {
	return metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: resource.apiVersion(),
		APIResources: []metav1.APIResource{{Name: resource.Plural, SingularName: strings.ToLower(resource.Kind), Namespaced: true,
			Kind: resource.Kind, Verbs: readVerbs}}}
}

func group(resource Resource) metav1.APIGroup {
	version := metav1.GroupVersionForDiscovery{GroupVersion: resource.apiVersion(), Version: resource.Version}
	return metav1.APIGroup{TypeMeta: metav1.TypeMeta{Kind: "APIGroup", APIVersion: "v1"}, Name: resource.Group,
		Versions: []metav1.GroupVersionForDiscovery{version}, PreferredVersion: version}
}

// discovery answers what clients ask about a server; false: something else is asked.
func (f *Fake) discovery(w http.ResponseWriter, r *http.Request, path string) bool {
	if r.Method != http.MethodGet {
		return false
	}
	aggregated := strings.Contains(r.Header.Get("Accept"), "as=APIGroupDiscoveryList")
	custom := []Resource{Widgets, Deployments}
	switch strings.TrimSuffix(path, "/") {
	case "/livez", "/readyz", "/healthz":
		_, _ = w.Write([]byte("ok"))
	case "/version":
		answerJSON(w, http.StatusOK, map[string]string{"major": "1", "minor": "36", "gitVersion": "v1.36.0"})
	case "/api":
		if aggregated {
			f.aggregated(w, []Resource{ConfigMaps})
			return true
		}
		answerJSON(w, http.StatusOK, metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"},
			ServerAddressByClientCIDRs: []metav1.ServerAddressByClientCIDR{}})
	case "/apis":
		if aggregated {
			f.aggregated(w, custom)
			return true
		}
		list := metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}}
		for _, one := range custom {
			list.Groups = append(list.Groups, group(one))
		}
		answerJSON(w, http.StatusOK, list)
	default:
		for _, one := range append(slices.Clone(custom), ConfigMaps) {
			if strings.TrimSuffix(one.Path(), "/"+one.Plural) == path {
				answerJSON(w, http.StatusOK, resourceList(one))
				return true
			}
		}
		return false
	}
	return true
}

func (f *Fake) aggregated(w http.ResponseWriter, resources []Resource) {
	items := []any{}
	for _, one := range resources {
		items = append(items, map[string]any{"metadata": map[string]any{"name": one.Group}, "versions": []any{map[string]any{
			"version": one.Version, "freshness": "Current", "resources": []any{map[string]any{"resource": one.Plural,
				"responseKind": map[string]any{"group": one.Group, "version": one.Version, "kind": one.Kind}, "scope": "Namespaced",
				"singularResource": strings.ToLower(one.Kind), "verbs": readVerbs}}}}})
	}
	w.Header().Set("Content-Type", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")
	_, _ = w.Write(must(json.Marshal(map[string]any{"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2",
		"metadata": map[string]any{}, "items": items})))
}

// Review is a SubjectAccessReview as a Fake reads it.
type Review struct {
	User       string              `json:"user"`
	UID        string              `json:"uid"`
	Groups     []string            `json:"groups"`
	Extra      map[string][]string `json:"extra"`
	Attributes struct {
		Verb, Group, Version, Resource, Subresource, Namespace, Name string
		LabelSelector, FieldSelector                                 struct{ RawSelector string }
	} `json:"resourceAttributes"`
}

// ReadReview is what a logged request asks; false: it is no review.
func ReadReview(e Entry) (Review, bool) {
	var body struct{ Spec Review }
	ok := strings.HasSuffix(e.Path, "/subjectaccessreviews") && e.Method == http.MethodPost && json.Unmarshal(e.Body, &body) == nil
	return body.Spec, ok
}

// review answers SubjectAccessReviews: everything is allowed but what Behavior.Grants or Behavior.Deny forbids.
func (f *Fake) review(w http.ResponseWriter, e Entry) {
	var body map[string]any
	asked, ok := ReadReview(e)
	if !ok || json.Unmarshal(e.Body, &body) != nil {
		answerStatus(w, badRequest("no review"))
		return
	}
	is := f.is()
	allowed := (is.Deny == nil || !is.Deny(asked.User)) && (is.Grants == nil || is.Grants(asked))
	body["status"] = map[string]any{"allowed": allowed}
	answerJSON(w, http.StatusCreated, body)
}

// putProto stores a ConfigMap that was sent as protobuf.
func (f *Fake) putProto(e Entry, shelf *Shelf) *metav1.Status {
	var typed corev1.ConfigMap
	if _, _, err := protoCodec.Decode(e.Body, nil, &typed); err != nil {
		return badRequest(err.Error())
	}
	body, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&typed)
	if err != nil {
		return badRequest(err.Error())
	}
	shelf.Replace(typed.Name, body)
	return &metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Success", Code: http.StatusOK}
}
