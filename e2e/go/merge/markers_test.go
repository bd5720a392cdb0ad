package merge

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// oddObjects are texts of one object with a marker in odd places; all have these annotations besides.
var oddObjects = map[string]struct {
	text string
	more map[string]string
}{
	"null annotations":    {`{"kind":"Widget","apiVersion":"example.test/v1","metadata":{"annotations":null,"name":"o","namespace":"t","resourceVersion":"RV","uid":"u"}}`, nil},
	"no annotations":      {`{"apiVersion":"example.test/v1","kind":"Widget","metadata":{"resourceVersion":"RV","name":"o","namespace":"t","uid":"u"}}`, nil},
	"empty annotations":   {`{"kind":"Widget","apiVersion":"example.test/v1","metadata":{"name":"o","namespace":"t","resourceVersion":"RV","uid":"u","annotations":{ }}}`, nil},
	"metadata last":       {`{"kind":"Widget","spec":{"a":[1.50,1e3,"}{"]},"apiVersion":"example.test/v1","metadata":{"annotations":{"kcp.io/cluster":"b","x":"y"},"name":"o","namespace":"t","resourceVersion":"RV","uid":"u"}}`, map[string]string{"x": "y"}},
	"metadata first":      {`{"metadata":{"uid":"u","namespace":"t","name":"o","annotations":{"x":"y","kcp.io/cluster":"b"},"resourceVersion":"RV"},"kind":"Widget","apiVersion":"example.test/v1"}`, map[string]string{"x": "y"}},
	"escaped key":         {`{"kind":"Widget","apiVersion":"example.test/v1","metadata":{"annotations":{"x":"y","\u006bcp.io\/cluster":"b"},"name":"o","namespace":"t","resourceVersion":"RV","uid":"u"}}`, map[string]string{"x": "y"}},
	"escaped metadata":    {`{"kind":"Widget","apiVersion":"example.test/v1","\u006detadata":{"\u0061nnotations":{"kcp.io/cluster":"b","x":"y"},"name":"o","namespace":"t","resource\u0056ersion":"RV","uid":"u"}}`, map[string]string{"x": "y"}},
	"twice":               {`{"kind":"Widget","apiVersion":"example.test/v1","metadata":{"annotations":{"kcp.io/cluster":"b","x":"y","kcp.io/cluster":"c"},"name":"o","namespace":"t","resourceVersion":"RV","uid":"u"}}`, map[string]string{"x": "y"}},
	"whitespace":          {"{ \"kind\" : \"Widget\" ,\r\n\t\"apiVersion\" : \"example.test/v1\" , \"metadata\" : { \"annotations\" : { \"x\" : \"y\" , \"kcp.io/cluster\" : \"b\" } , \"name\" : \"o\" , \"namespace\" : \"t\" , \"resourceVersion\" : \"RV\", \"uid\":\"u\" } }", map[string]string{"x": "y"}},
	"decoys":              {`{"kind":"Widget","apiVersion":"example.test/v1","spec":{"metadata":{"annotations":{"kcp.io/cluster":"no"}},"object":{"metadata":{"resourceVersion":"9"}}},"metadata":{"annotations":{"last":"{\"metadata\":{\"annotations\":{\"kcp.io/cluster\":\"b\"},\"resourceVersion\":\"77\"}}","kcp.io/cluster":"b"},"managedFields":[{"fieldsV1":{"f:metadata":{"f:annotations":{"f:kcp.io/cluster":{}},"resourceVersion":"8"}}}],"ownerReferences":[{"uid":"z","resourceVersion":"5"}],"name":"o","namespace":"t","resourceVersion":"RV","uid":"u"}}`, map[string]string{"last": `{"metadata":{"annotations":{"kcp.io/cluster":"b"},"resourceVersion":"77"}}`}},
	"prefix and suffix":   {`{"kind":"Widget","apiVersion":"example.test/v1","metadata":{"annotations":{"kcp.io/cluster2":"b","xkcp.io/cluster":"b"},"name":"o","namespace":"t","resourceVersion":"RV","uid":"u"}}`, map[string]string{"kcp.io/cluster2": "b", "xkcp.io/cluster": "b"}},
	"escaped value":       {`{"kind":"Widget","apiVersion":"example.test/v1","metadata":{"annotations":{"x":"\"kcp.io/cluster\":\"b\" \\","kcp.io/cluster":"\u0062\\"},"name":"o","namespace":"t","resourceVersion":"RV","uid":"u"}}`, map[string]string{"x": `"kcp.io/cluster":"b" \`}},
	"a field of metadata": {`{"kind":"Widget","apiVersion":"example.test/v1","metadata":{"kcp.io/cluster":"b","name":"o","namespace":"t","resourceVersion":"RV","uid":"u","labels":{"kcp.io/cluster":"b","annotations":"z"}}}`, nil},
	"not ASCII":           {`{"kind":"Widget","apiVersion":"example.test/v1","metadata":{"annotations":{"ключ":"знач\ud83d\ude00","kcp.io/cluster":"b"},"name":"o","namespace":"t","resourceVersion":"RV","uid":"u"},"d":"ü\u0000"}`, map[string]string{"ключ": "знач😀"}},
}

func checkOdd(t *testing.T, what string, o Object, rv string, more map[string]string) {
	t.Helper()
	want := map[string]string{"kcp.io/cluster": "a"}
	maps.Copy(want, more)
	if !maps.Equal(o.Metadata.Annotations, want) || o.Metadata.ResourceVersion != rv || o.Metadata.Name != "o" {
		t.Errorf("%s: %+v", what, o.Metadata)
	}
}

// AGG-1502, 14.2: whatever the text of an object looks like, it has the one marker, and nothing else of it changes.
func TestT101o_markers_in_odd_places(t *testing.T) {
	begin(t)
	plainOnly(t)
	r := NewRig(t)
	r.A.Set(func(b *Behavior) { b.NoBookmarks = true }) // none in the middle of an event
	w := watching(t, r, Widgets)
	r.A.Widgets.Put("first")
	w.UntilObjects(1, patience)
	rv := 5000
	for what, one := range oddObjects {
		rv++
		text := strings.ReplaceAll(one.text, "RV", fmt.Sprint(rv))
		for _, body := range []string{
			`{"apiVersion":"example.test/v1","items":[` + text + `],"kind":"WidgetList","metadata":{"continue":"","resourceVersion":"` + fmt.Sprint(rv) + `"}}`,
			`{"kind":"WidgetList","apiVersion":"example.test/v1","metadata":{"resourceVersion":"` + fmt.Sprint(rv) + `"},"items":[` + text + `]}`,
			"{ \"metadata\" : {\"resourceVersion\":\"" + fmt.Sprint(rv) + "\"} ,\n \"kind\" : \"WidgetList\" , \"items\" : [ " + text + " ] , \"apiVersion\" : \"example.test/v1\" }\n",
		} {
			fault := r.A.Answer(0, http.StatusOK, map[string]string{"Content-Type": JSON}, body)
			list := r.All.List(t, Widgets.Path())
			fault.Off()
			if len(list.Items) != 1 || list.Metadata.ResourceVersion[15:35] != fmt.Sprintf("%020d", rv) {
				t.Fatalf("%s: %+v", what, list)
			}
			checkOdd(t, what, list.Items[0], fmt.Sprint(rv), one.more)
		}
		for n, form := range []string{`{"type":"MODIFIED","object":OBJECT}` + "\n", `{"object":OBJECT,"type":"MODIFIED"}`,
			"\n{ \"type\" : \"MODIFIED\" , \"object\" : OBJECT }\r\n\n"} {
			rv++
			event := strings.ReplaceAll(strings.ReplaceAll(form, "OBJECT", one.text), "RV", fmt.Sprint(rv))
			before := len(w.Objects())
			for _, s := range r.A.Streams() {
				for i := 0; n == 2 && i < len(event); i++ { // byte by byte
					s.Send([]byte{event[i]})
				}
				if n != 2 {
					s.Send([]byte(event))
				}
			}
			got := w.UntilObjects(before+1, patience)
			checkOdd(t, what+", watch", got[before].Object, fmt.Sprint(rv), one.more)
		}
	}
	if n := len(r.A.Asked(true)); n != 1 {
		t.Errorf("a was asked %d times", n)
	}
}

// AGG-1502: in every form of answer the one marker stands, whatever was stored.
func TestT101f_forged_markers_in_every_form(t *testing.T) {
	begin(t)
	plainOnly(t)
	r := NewRig(t)
	for _, f := range r.Shards {
		f.Maps.Put(f.Name+"-forged", Annotation("kcp.io/cluster", "nobody"), Annotation("mine", "yes"), Data("v", "1"))
		f.Maps.Put(f.Name + "-plain")
	}
	for _, accept := range []string{JSON, Proto, TableV1, TableBeta, Partial, PartialPB} {
		for _, include := range []string{"", "Object", "Metadata", "None"} {
			if include != "" && !strings.Contains(accept, "Table") {
				continue
			}
			what := accept + " " + include
			check := func(o Object) {
				t.Helper()
				if include == "None" {
					return
				}
				shard, kind, _ := strings.Cut(o.Metadata.Name, "-")
				if o.Marker() != shard || kind == "forged" && o.Metadata.Annotations["mine"] != "yes" {
					t.Errorf("%s: %+v", what, o.Metadata)
				}
			}
			pairs := []string{"labelSelector", "!z" + fmt.Sprint(len(what))}
			if include != "" {
				pairs = append(pairs, "includeObject", include)
			}
			list := r.All.List(t, query(ConfigMaps.Path(), pairs...), "Accept", accept)
			for _, row := range list.Rows {
				check(row.Object)
			}
			for _, item := range list.Items {
				check(item)
			}
			if n := len(list.Rows) + len(list.Items); n != 6 {
				t.Errorf("%s: %d objects", what, n)
			}
			if strings.Contains(accept, "Table") && len(list.Rows) != 6 {
				t.Errorf("%s: no Table: %s", what, list.Kind)
			}
			single := strings.Replace(accept, "MetadataList", "Metadata", 1) // as clients ask for one object
			w := r.All.Watch(t, query(ConfigMaps.Path(), append(pairs, "watch", "1")...), "Accept", single)
			w.UntilObjects(6, patience)
			r.A.Maps.Put("a-forged", Data("n", what))
			r.B.Maps.Delete("b-forged")
			for _, e := range w.UntilObjects(8, patience) {
				if e.Object.Kind == "Table" {
					check(e.Row())
				} else {
					check(e.Object)
				}
			}
			r.B.Maps.Put("b-forged", Annotation("kcp.io/cluster", "nobody"), Annotation("mine", "yes"))
			w.UntilObjects(9, patience)
			w.Close()
			o := r.All.Get(query(ConfigMaps.In()+"/c-forged", pairs[2:]...), "Accept", single).Object(t)
			if o.Kind == "Table" {
				check(o.Rows[0].Object)
			} else {
				check(o)
			}
		}
	}
}

// unknownField is field 1999 of a protobuf message, with 5 bytes.
var unknownField = []byte{0xFA, 0x7C, 5, 'f', 'u', 't', 'u', 'r'}

// 14.2: what newer servers write beside the fields that we know passes in protobuf.
func TestT10u_unknown_fields_of_protobuf(t *testing.T) {
	begin(t)
	plainOnly(t)
	r := NewRig(t)
	r.Fill(1, 1, 1)
	object := func(name string, rv uint64) []byte {
		typed := corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: Namespace, UID: "u", ResourceVersion: fmt.Sprint(rv),
			Annotations: map[string]string{"kcp.io/cluster": "forged", "x": "y"}}, Data: map[string]string{"k": "v"}}
		text, err := typed.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		meta, err := typed.ObjectMeta.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		text = text[bytes.Index(text, meta)+len(meta):]
		meta = append(bytes.Clone(unknownField), append(meta, unknownField...)...)
		out := append(bytes.Clone(unknownField), 0x0A)
		out = binary.AppendUvarint(out, uint64(len(meta)))
		out = append(out, meta...)
		out = append(out, text...)
		return append(out, unknownField...)
	}
	unknown := func(kind string, raw []byte) []byte {
		wrapped := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "v1", Kind: kind}, Raw: raw}
		text, err := wrapped.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		return append([]byte("k8s\x00"), append(text, unknownField...)...)
	}
	item := object("new", 5001)
	list := append(bytes.Clone(unknownField), 0x12)
	list = binary.AppendUvarint(list, uint64(len(item)))
	list = append(list, item...)
	meta, err := (&metav1.ListMeta{ResourceVersion: "5001"}).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	list = append(list, 0x0A)
	list = binary.AppendUvarint(list, uint64(len(meta)+len(unknownField)))
	list = append(append(list, meta...), unknownField...)
	w := r.All.Watch(t, resumed(r.All.List(t, ConfigMaps.Path()).Metadata.ResourceVersion), "Accept", Proto)
	flowing(t, w, r.A, "before")
	fault := r.A.Answer(0, http.StatusOK, map[string]string{"Content-Type": Proto}, string(unknown("ConfigMapList", list)))
	answer := r.All.Get(ConfigMaps.Path(), "Accept", Proto)
	fault.Off()
	got := answer.Object(t)
	if len(got.Items) != 3 || got.Items[0].Marker() != "a" || got.Items[0].Metadata.Annotations["x"] != "y" || got.Items[0].Data["k"] != "v" {
		t.Errorf("%+v", got)
	}
	if n := bytes.Count(answer.Body, unknownField); n != 4 {
		t.Errorf("%d of 4 unknown fields of the object are left", n)
	}
	event := metav1.WatchEvent{Type: "ADDED", Object: runtime.RawExtension{Raw: unknown("ConfigMap", object("new", 5002))}}
	text, err := event.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	text = append(text, unknownField...)
	before := len(w.Objects())
	r.A.SendAll(append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...))
	e := w.UntilObjects(before+1, patience)[before]
	if e.Object.Marker() != "a" || e.Object.Metadata.ResourceVersion != "5002" || e.Object.Data["k"] != "v" || bytes.Count(e.Raw, unknownField) < 4 {
		t.Errorf("%q %+v", e.Raw, e.Object)
	}
	if n := len(r.A.Asked(true)); n != 1 {
		t.Errorf("a was asked %d times", n)
	}
}

// AGG-1505: what is written back has no marker, wherever it stands in the text; nothing else changes.
func TestT101w_markers_are_taken_out_of_writes(t *testing.T) {
	begin(t)
	plainOnly(t)
	r := NewRig(t)
	r.A.Widgets.Put("o")
	one := r.All.At("/clusters/a")
	for what, odd := range oddObjects {
		for _, method := range []string{http.MethodPut, http.MethodPost} {
			text := strings.Replace(strings.ReplaceAll(odd.text, `"resourceVersion":"RV",`, ""), `"RV"`, `""`, 1)
			path := Widgets.In()
			if method == http.MethodPut {
				path += "/o"
			}
			if answer := one.Do(method, path, []byte(text), "Content-Type", JSON); answer.Status/100 != 2 {
				t.Fatalf("%s: %s", what, answer)
			}
			seen := r.A.Log(func(e Entry) bool { return e.Method == method })
			sent := seen[len(seen)-1].Body
			var was, is map[string]any
			if json.Unmarshal([]byte(text), &was) != nil || json.Unmarshal(sent, &is) != nil {
				t.Fatalf("%s: %s", what, sent)
			}
			annotations, _ := was["metadata"].(map[string]any)["annotations"].(map[string]any)
			delete(annotations, "kcp.io/cluster")
			if fmt.Sprint(was) != fmt.Sprint(is) {
				t.Errorf("%s: %s became %s", what, text, sent)
			}
		}
	}
	const patch = `{"metadata":{"annotations":{"kcp.io/cluster":"b"}}}`
	one.Do(http.MethodPatch, Widgets.In()+"/o?fieldManager=m&dryRun=All&fieldValidation=Strict", []byte(patch), "Content-Type", "application/merge-patch+json")
	seen := r.A.Log(func(e Entry) bool { return e.Method == http.MethodPatch })
	if len(seen) != 1 || string(seen[0].Body) != patch || seen[0].Query.Encode() != "dryRun=All&fieldManager=m&fieldValidation=Strict" {
		t.Errorf("%+v", seen)
	}
}
