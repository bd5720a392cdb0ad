package merge

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"mime"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
)

// Accept headers of the usual clients.
const (
	JSON      = "application/json"
	Proto     = "application/vnd.kubernetes.protobuf"
	TableV1   = "application/json;as=Table;v=v1;g=meta.k8s.io"
	TableBeta = "application/json;as=Table;v=v1beta1;g=meta.k8s.io"
	Kubectl   = TableV1 + "," + TableBeta + ",application/json"
	Partial   = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
	PartialPB = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
	One       = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io" // watches and single objects: no list
	OnePB     = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
)

var (
	scheme = func() *runtime.Scheme {
		s := runtime.NewScheme()
		for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, metav1.AddMetaToScheme} {
			if err := add(s); err != nil {
				panic(err)
			}
		}
		return s
	}()
	protoCodec = protobuf.NewSerializer(scheme, scheme)
)

// media is what one answer is written in.
type media struct {
	proto   bool
	as      string // "", "Table", "PartialObjectMetadata"
	version string
	object  string // includeObject of tables
	asked   string // as the client has it
}

// fits tells whether servers show a list, or single objects, so.
func (m media) fits(list bool) bool {
	return m.as != "PartialObjectMetadata" || list == strings.HasSuffix(m.asked, "List")
}

func (m media) contentType(watch bool) string {
	out := JSON
	if m.proto {
		out = Proto
		if watch {
			return out + ";stream=watch"
		}
	}
	if m.as == "Table" || m.as == "PartialObjectMetadata" && !m.proto {
		as := m.as
		if as != "Table" && !watch {
			as += "List"
		}
		out += ";as=" + as + ";v=" + m.version + ";g=meta.k8s.io"
	}
	return out
}

// negotiate takes the first type of an Accept header that the Fake can write.
func negotiate(accept string, resource Resource, jsonOnly bool) (media, bool) {
	if strings.TrimSpace(accept) == "" {
		return media{}, true
	}
	for _, clause := range strings.Split(accept, ",") {
		name, params, err := mime.ParseMediaType(strings.TrimSpace(clause))
		if err != nil {
			continue
		}
		m := media{as: strings.TrimSuffix(params["as"], "List"), version: params["v"], asked: params["as"]}
		switch name {
		case Proto:
			m.proto = true
		case JSON, "*/*", "application/*":
		default:
			continue
		}
		if jsonOnly {
			return media{}, true
		}
		if m.as == "" && m.proto && !resource.Typed {
			continue
		}
		if m.as != "" && (params["g"] != "meta.k8s.io" || (m.version != "v1" && m.version != "v1beta1")) {
			continue
		}
		if m.as == "Table" && m.proto {
			continue
		}
		if m.as == "" || m.as == "Table" || m.as == "PartialObjectMetadata" {
			return m, true
		}
	}
	return media{}, false
}

func must(text []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return text
}

func encodeProto(object runtime.Object) []byte {
	var out bytes.Buffer
	if err := protoCodec.Encode(object, &out); err != nil {
		panic(err)
	}
	return out.Bytes()
}

func partialOf(r *record, version string) *metav1.PartialObjectMetadata {
	meta := &metav1.ObjectMeta{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(r.body["metadata"].(map[string]any), meta); err != nil {
		panic(err)
	}
	return &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{Kind: "PartialObjectMetadata", APIVersion: "meta.k8s.io/" + version},
		ObjectMeta: *meta}
}

type tableText struct {
	Kind       string            `json:"kind"`
	APIVersion string            `json:"apiVersion"`
	Metadata   metav1.ListMeta   `json:"metadata"`
	Columns    []json.RawMessage `json:"columnDefinitions"`
	Rows       []json.RawMessage `json:"rows"`
}

func columns(resource Resource, extra bool) []json.RawMessage {
	names := []string{"Name:string", "Age:string"}
	if resource.Typed {
		names = []string{"Name:string", "Data:integer", "Age:string"}
	}
	if extra {
		names = append(names, "More:string")
	}
	var out []json.RawMessage
	for _, one := range names {
		name, kind, _ := strings.Cut(one, ":")
		out = append(out, json.RawMessage(fmt.Sprintf(`{"name":%q,"type":%q,"format":"","description":"","priority":0}`, name, kind)))
	}
	return out
}

func row(r *record, resource Resource, m media, extra bool) json.RawMessage {
	cells := []any{r.name}
	if resource.Typed {
		data, _ := r.body["data"].(map[string]any)
		cells = append(cells, len(data))
	}
	cells = append(cells, "1s")
	if extra {
		cells = append(cells, "more")
	}
	out := map[string]any{"cells": cells}
	switch m.object {
	case "None":
	case "Object":
		out["object"] = json.RawMessage(r.encode(resource))
	default:
		out["object"] = partialOf(r, m.version)
	}
	return must(json.Marshal(out))
}

// encodeOne is one object as GET and events have it. first: with column definitions.
func encodeOne(r *record, resource Resource, m media, first, extra bool) []byte {
	switch {
	case m.as == "Table":
		table := tableText{Kind: "Table", APIVersion: "meta.k8s.io/" + m.version,
			Rows: []json.RawMessage{row(r, resource, m, extra)}}
		table.Metadata.ResourceVersion = strconv.FormatUint(r.rv, 10)
		if first {
			table.Columns = columns(resource, extra)
		}
		return must(json.Marshal(table))
	case m.as != "" && m.proto:
		return encodeProto(partialOf(r, m.version))
	case m.as != "":
		return must(json.Marshal(partialOf(r, m.version)))
	case m.proto:
		r.encode(resource)
		return encodeProto(r.typed)
	}
	return r.encode(resource)
}

// encodeList is a complete list.
func encodeList(items []*record, meta metav1.ListMeta, resource Resource, m media, extra bool) []byte {
	switch {
	case m.as == "Table":
		table := tableText{Kind: "Table", APIVersion: "meta.k8s.io/" + m.version, Metadata: meta, Columns: columns(resource, extra),
			Rows: []json.RawMessage{}}
		for _, r := range items {
			table.Rows = append(table.Rows, row(r, resource, m, extra))
		}
		return must(json.Marshal(table))
	case m.as != "":
		list := &metav1.PartialObjectMetadataList{TypeMeta: metav1.TypeMeta{Kind: "PartialObjectMetadataList",
			APIVersion: "meta.k8s.io/" + m.version}, ListMeta: meta, Items: []metav1.PartialObjectMetadata{}}
		for _, r := range items {
			list.Items = append(list.Items, *partialOf(r, m.version))
		}
		if m.proto {
			return encodeProto(list)
		}
		return must(json.Marshal(list))
	case m.proto:
		list := &corev1.ConfigMapList{TypeMeta: metav1.TypeMeta{Kind: "ConfigMapList", APIVersion: "v1"}, ListMeta: meta}
		for _, r := range items {
			r.encode(resource)
			item := *r.typed
			item.TypeMeta = metav1.TypeMeta{}
			list.Items = append(list.Items, item)
		}
		return encodeProto(list)
	}
	var out bytes.Buffer
	texts := make([][]byte, len(items))
	for n, r := range items {
		texts[n] = r.encode(resource)
		if resource.Typed { // items of built-in lists name no kind
			texts[n] = bytes.Replace(texts[n], []byte(`{"kind":"ConfigMap","apiVersion":"v1",`), []byte("{"), 1)
		}
	}
	joined := bytes.Join(texts, []byte(","))
	metadata := must(json.Marshal(meta))
	if resource.Typed {
		fmt.Fprintf(&out, `{"kind":"%sList","apiVersion":"%s","metadata":%s,"items":[%s]}`+"\n", resource.Kind, resource.apiVersion(), metadata, joined)
	} else {
		fmt.Fprintf(&out, `{"apiVersion":"%s","items":[%s],"kind":"%sList","metadata":%s}`+"\n", resource.apiVersion(), joined, resource.Kind, metadata)
	}
	return out.Bytes()
}

// encodeBookmark is the object of a BOOKMARK event.
func encodeBookmark(rv uint64, end bool, resource Resource, m media, first, extra bool) []byte {
	meta := map[string]any{"resourceVersion": strconv.FormatUint(rv, 10), "creationTimestamp": nil}
	if end {
		meta["annotations"] = map[string]any{metav1.InitialEventsAnnotationKey: "true"}
	}
	object := map[string]any{"kind": resource.Kind, "apiVersion": resource.apiVersion(), "metadata": meta}
	switch {
	case m.as == "Table":
		partial := map[string]any{"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/" + m.version, "metadata": meta}
		table := tableText{Kind: "Table", APIVersion: "meta.k8s.io/" + m.version,
			Rows: []json.RawMessage{must(json.Marshal(map[string]any{"cells": []any{}, "object": partial}))}}
		table.Metadata.ResourceVersion = strconv.FormatUint(rv, 10)
		if first {
			table.Columns = columns(resource, extra)
		}
		return must(json.Marshal(table))
	case m.proto:
		typed := metav1.ObjectMeta{ResourceVersion: strconv.FormatUint(rv, 10)}
		if end {
			typed.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
		}
		if m.as != "" {
			return encodeProto(&metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{Kind: "PartialObjectMetadata",
				APIVersion: "meta.k8s.io/" + m.version}, ObjectMeta: typed})
		}
		return encodeProto(&corev1.ConfigMap{TypeMeta: metav1.TypeMeta{Kind: "ConfigMap", APIVersion: "v1"}, ObjectMeta: typed})
	case m.as != "":
		object["kind"], object["apiVersion"] = "PartialObjectMetadata", "meta.k8s.io/"+m.version
	case resource.Typed:
		return must(json.Marshal(&corev1.ConfigMap{TypeMeta: metav1.TypeMeta{Kind: "ConfigMap", APIVersion: "v1"},
			ObjectMeta: bookmarkMeta(rv, end)}))
	}
	return must(json.Marshal(object))
}

func bookmarkMeta(rv uint64, end bool) metav1.ObjectMeta {
	out := metav1.ObjectMeta{ResourceVersion: strconv.FormatUint(rv, 10)}
	if end {
		out.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
	}
	return out
}

// frame makes one watch event of an encoded object.
func frame(event string, object []byte, m media) []byte {
	if m.proto {
		wire := metav1.WatchEvent{Type: event, Object: runtime.RawExtension{Raw: object}}
		var wrapped bytes.Buffer
		if err := protobuf.NewRawSerializer(scheme, scheme).Encode(&wire, &wrapped); err != nil {
			panic(err)
		}
		return append(binary.BigEndian.AppendUint32(nil, uint32(wrapped.Len())), wrapped.Bytes()...)
	}
	out := make([]byte, 0, len(object)+40)
	out = append(out, `{"type":"`...)
	out = append(out, event...)
	out = append(out, `","object":`...)
	out = append(out, bytes.TrimSuffix(object, []byte("\n"))...)
	return append(out, "}\n"...)
}

// newStatus is an error of a server.
func newStatus(code int, reason metav1.StatusReason, message string, details *metav1.StatusDetails) *metav1.Status {
	return &metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Code: int32(code),
		Reason: reason, Message: message, Details: details}
}
