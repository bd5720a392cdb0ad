package merge

import (
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
)

func answerJSON(w http.ResponseWriter, code int, value any) {
	w.Header().Set("Content-Type", JSON)
	w.WriteHeader(code)
	_, _ = w.Write(append(must(json.Marshal(value)), '\n'))
}

func answerStatus(w http.ResponseWriter, s *metav1.Status) {
	if s.Details != nil && s.Details.RetryAfterSeconds > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(s.Details.RetryAfterSeconds)))
	}
	answerJSON(w, int(s.Code), s)
}

func expired(message string) *metav1.Status {
	return newStatus(http.StatusGone, metav1.StatusReasonExpired, message, nil)
}

func badRequest(message string) *metav1.Status {
	return newStatus(http.StatusBadRequest, metav1.StatusReasonBadRequest, message, nil)
}

func notFound() *metav1.Status {
	return newStatus(http.StatusNotFound, metav1.StatusReasonNotFound, "the server could not find the requested resource", nil)
}

func tooLarge() *metav1.Status {
	return newStatus(http.StatusGatewayTimeout, metav1.StatusReasonTimeout, "Timeout: Too large resource version",
		&metav1.StatusDetails{RetryAfterSeconds: 1, Causes: []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge,
			Message: "Too large resource version"}}})
}

func invalid(field, message string) *metav1.Status {
	return newStatus(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, "ListOptions.meta.k8s.io \"\" is invalid: "+field+": "+message,
		&metav1.StatusDetails{Group: "meta.k8s.io", Kind: "ListOptions", Causes: []metav1.StatusCause{{Type: "FieldValueForbidden",
			Message: message, Field: field}}})
}

// route finds what a request is about.
func (f *Fake) route(w http.ResponseWriter, r *http.Request, e Entry) {
	if f.discovery(w, r, e.Path) {
		return
	}
	if strings.HasSuffix(e.Path, "/subjectaccessreviews") && r.Method == http.MethodPost {
		f.review(w, e)
		return
	}
	for _, shelf := range []*Shelf{f.Maps, f.Widgets, {f, Deployments}, f.Clusters} {
		resource := shelf.resource
		root := strings.TrimSuffix(resource.Path(), resource.Plural)
		rest, ok := strings.CutPrefix(e.Path, root)
		if !ok {
			continue
		}
		namespace := ""
		if parts := strings.SplitN(rest, "/", 3); len(parts) == 3 && parts[0] == "namespaces" {
			namespace, rest = parts[1], parts[2]
		}
		name, ok := strings.CutPrefix(rest, resource.Plural)
		if !ok || (name != "" && name[0] != '/') {
			continue
		}
		f.serveShelf(w, r, e, shelf, namespace, strings.TrimPrefix(name, "/"))
		return
	}
	if strings.Contains(e.Path, "/apis/") && e.Method == http.MethodGet {
		f.nothing(w, r, e)
		return
	}
	answerStatus(w, notFound())
}

func (f *Fake) serveShelf(w http.ResponseWriter, r *http.Request, e Entry, shelf *Shelf, namespace, name string) {
	is := f.is()
	user := r.Header.Get("X-Remote-User")
	if is.Absent && shelf.resource != Deployments && shelf.resource != Clusters {
		answerStatus(w, notFound())
		return
	}
	if is.Deny != nil && is.Deny(user) {
		answerStatus(w, newStatus(http.StatusForbidden, metav1.StatusReasonForbidden,
			fmt.Sprintf("%s is forbidden: User %q cannot read here", shelf.resource.Plural, user),
			&metav1.StatusDetails{Kind: shelf.resource.Plural, Group: shelf.resource.Group}))
		return
	}
	m, ok := negotiate(r.Header.Get("Accept"), shelf.resource, is.JSONOnly)
	if !ok {
		answerStatus(w, newStatus(http.StatusNotAcceptable, metav1.StatusReasonNotAcceptable, "only JSON and protobuf are written", nil))
		return
	}
	isWatch := e.Query.Get("watch") != "" && e.Query.Get("watch") != "0" && e.Query.Get("watch") != "false"
	if !m.fits(r.Method == http.MethodGet && name == "" && !isWatch) {
		answerStatus(w, newStatus(http.StatusNotAcceptable, metav1.StatusReasonNotAcceptable,
			"you requested "+m.asked+", but the requested object is another", nil))
		return
	}
	m.object = e.Query.Get("includeObject")
	switch {
	case r.Method == http.MethodGet && name != "":
		f.get(w, shelf, m, namespace, name)
	case r.Method == http.MethodGet:
		f.collection(w, r, e, shelf, m, namespace)
	case r.Method == http.MethodPut && name != "" || r.Method == http.MethodPost:
		f.put(w, e, shelf, name)
	case r.Method == http.MethodDelete && name != "":
		if rv := shelf.Delete(name); rv == "" {
			answerStatus(w, notFound())
			return
		}
		answerJSON(w, http.StatusOK, metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Success"})
	default:
		answerStatus(w, newStatus(http.StatusMethodNotAllowed, metav1.StatusReasonMethodNotAllowed, "not here", nil))
	}
}

func (f *Fake) get(w http.ResponseWriter, shelf *Shelf, m media, namespace, name string) {
	f.store.mutex.Lock()
	r := f.store.collections[shelf.resource.Plural].live[namespace+"/"+name]
	f.store.mutex.Unlock()
	if r == nil {
		answerStatus(w, newStatus(http.StatusNotFound, metav1.StatusReasonNotFound, fmt.Sprintf("%s %q not found", shelf.resource.Plural, name),
			&metav1.StatusDetails{Name: name, Kind: shelf.resource.Plural, Group: shelf.resource.Group}))
		return
	}
	w.Header().Set("Content-Type", m.contentType(false))
	_, _ = w.Write(encodeOne(r, shelf.resource, m, true, f.is().ExtraColumn))
}

func (f *Fake) put(w http.ResponseWriter, e Entry, shelf *Shelf, name string) {
	var body map[string]any
	if strings.HasPrefix(e.Header.Get("Content-Type"), Proto) {
		answerStatus(w, f.putProto(e, shelf))
		return
	}
	if err := json.Unmarshal(e.Body, &body); err != nil {
		answerStatus(w, badRequest(err.Error()))
		return
	}
	meta, _ := body["metadata"].(map[string]any)
	if name == "" {
		name, _ = meta["name"].(string)
	}
	stored := shelf.Get(name)
	if rv, _ := meta["resourceVersion"].(string); rv != "" && stored != nil && stored["metadata"].(map[string]any)["resourceVersion"] != rv {
		answerStatus(w, newStatus(http.StatusConflict, metav1.StatusReasonConflict, "the object has been modified", nil))
		return
	}
	shelf.Replace(name, body)
	code := http.StatusOK
	if stored == nil {
		code = http.StatusCreated
	}
	answerJSON(w, code, shelf.Get(name))
}

// question is a list or watch request as decoded.
type question struct {
	cluster    string // "": all
	namespace  string
	labels     labels.Selector
	fields     fields.Selector
	rv, match  string
	limit      int64
	token      string
	bookmarks  bool
	initial    bool
	initialSet bool
	timeout    time.Duration
}

func truth(values []string) (bool, bool) {
	if len(values) == 0 {
		return false, false
	}
	text := strings.ToLower(values[0])
	return text != "0" && text != "false", true
}

func ask(e Entry, namespace string) (question, *metav1.Status) {
	q := question{namespace: namespace, rv: e.Query.Get("resourceVersion"), match: e.Query.Get("resourceVersionMatch"),
		token: e.Query.Get("continue")}
	if rest, ok := strings.CutPrefix(e.Full, "/clusters/"); ok {
		if q.cluster, _, _ = strings.Cut(rest, "/"); q.cluster == "*" {
			q.cluster = ""
		}
	}
	var err error
	if q.labels, err = labels.Parse(e.Query.Get("labelSelector")); err != nil {
		return q, badRequest(err.Error())
	}
	if q.fields, err = fields.ParseSelector(e.Query.Get("fieldSelector")); err != nil {
		return q, badRequest(err.Error())
	}
	for _, one := range q.fields.Requirements() {
		if one.Field != "metadata.name" && one.Field != "metadata.namespace" {
			return q, badRequest("field label not supported: " + one.Field)
		}
	}
	q.bookmarks, _ = truth(e.Query["allowWatchBookmarks"])
	q.initial, q.initialSet = truth(e.Query["sendInitialEvents"])
	for name, to := range map[string]*int64{"limit": &q.limit, "timeoutSeconds": (*int64)(&q.timeout)} {
		if text := e.Query.Get(name); text != "" {
			if *to, err = strconv.ParseInt(text, 10, 64); err != nil {
				return q, badRequest(name + ": " + err.Error())
			}
		}
	}
	q.timeout *= time.Duration(time.Second)
	return q, nil
}

func (q question) matches(r *record) bool {
	return (q.cluster == "" || r.cluster == "" || q.cluster == r.cluster) && (q.namespace == "" || r.namespace == q.namespace) && q.labels.Matches(labels.Set(r.labels)) && q.fields.Matches(fields.Set(r.fields()))
}

func (f *Fake) collection(w http.ResponseWriter, r *http.Request, e Entry, shelf *Shelf, m media, namespace string) {
	q, wrong := ask(e, namespace)
	if wrong != nil {
		answerStatus(w, wrong)
		return
	}
	if e.Watch() {
		f.watch(w, r, shelf, m, q)
		return
	}
	f.list(w, r, shelf, m, q)
}

// member token of a Fake's pages.
type token struct {
	RV    uint64 `json:"rv"` // 0: the newest state (inconsistent continuation)
	After string `json:"after"`
}

func (t token) String() string { return base64.RawURLEncoding.EncodeToString(must(json.Marshal(t))) }

func (f *Fake) list(w http.ResponseWriter, r *http.Request, shelf *Shelf, m media, q question) {
	is := f.is()
	if !hold(r, is.HoldList) {
		return
	}
	now := f.store.revision()
	at, after := now, ""
	if q.token != "" {
		var t token
		text, err := base64.RawURLEncoding.DecodeString(q.token)
		if err != nil || json.Unmarshal(text, &t) != nil {
			answerStatus(w, badRequest("continue key is not valid"))
			return
		}
		after = t.After
		if t.RV != 0 {
			at = t.RV
		}
	} else if q.rv != "" && q.rv != "0" {
		rv, err := strconv.ParseUint(q.rv, 10, 64)
		if err != nil {
			answerStatus(w, badRequest("invalid resource version"))
			return
		}
		if rv > now && !f.reaches(r, rv, is) {
			answerStatus(w, tooLarge())
			return
		}
		now = f.store.revision()
		at = now
		if q.match == "Exact" || q.match == "" && q.limit > 0 {
			at = rv
		}
	}
	all, ok := f.store.at(shelf.resource.Plural, at)
	if !ok {
		s := expired("The provided continue parameter or resourceVersion is too old")
		if q.token != "" {
			s.ListMeta.Continue = token{After: after}.String()
		}
		answerStatus(w, s)
		return
	}
	if q.rv == "0" && q.match == "" {
		q.limit = 0
	}
	meta := metav1.ListMeta{ResourceVersion: strconv.FormatUint(at, 10)}
	var items []*record
	for n, one := range all {
		if one.key <= after || !q.matches(one) {
			continue
		}
		if q.limit > 0 && int64(len(items)) == q.limit {
			meta.Continue = token{RV: at, After: items[len(items)-1].key}.String()
			if q.labels.Empty() && q.fields.Empty() && q.namespace == "" {
				left := int64(len(all) - n)
				meta.RemainingItemCount = &left
			}
			break
		}
		items = append(items, one)
	}
	if is.EmptyRV {
		meta.ResourceVersion = ""
	} else if is.ZeroRV {
		meta.ResourceVersion = "0"
	}
	body := encodeList(items, meta, shelf.resource, m, is.ExtraColumn)
	w.Header().Set("Content-Type", m.contentType(false))
	w.Header().Set("Cache-Control", "no-cache, private")
	if is.GzipList {
		w.Header().Set("Content-Encoding", "gzip")
		zip := gzip.NewWriter(w)
		_, _ = zip.Write(body)
		_ = zip.Close()
		return
	}
	if is.HoldBody != nil {
		_, _ = w.Write(body[:len(body)/2])
		w.(http.Flusher).Flush()
		f.held.Add(1)
		if !hold(r, is.HoldBody) {
			return
		}
		body = body[len(body)/2:]
	}
	_, _ = w.Write(body)
}

// reaches waits a little for a revision of the future.
func (f *Fake) reaches(r *http.Request, rv uint64, is Behavior) bool {
	wait := is.TooLargeWait
	if wait == 0 {
		wait = 50 * time.Millisecond
	}
	end := time.After(wait)
	for {
		_, now, wake, _ := f.store.since(ConfigMaps.Plural, f.store.revision())
		if now >= rv {
			return true
		}
		select {
		case <-wake:
		case <-end:
			return false
		case <-r.Context().Done():
			return false
		}
	}
}

// hold waits for a gate of a test; false if the request ended before.
func hold(r *http.Request, until <-chan struct{}) bool {
	if until == nil {
		return true
	}
	select {
	case <-until:
		return true
	case <-r.Context().Done():
		return false
	}
}
