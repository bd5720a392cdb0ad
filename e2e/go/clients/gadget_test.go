package clients

import (
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/scheme"
)

// Gadget is the reconciled kind. Its reconciler writes the status by the method that the spec names.
type Gadget struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              GadgetSpec   `json:"spec,omitempty"`
	Status            GadgetStatus `json:"status,omitempty"`
}

type GadgetSpec struct {
	Size   int    `json:"size"`
	Color  string `json:"color,omitempty"`
	Status string `json:"status,omitempty"` // "update", "merge" or "apply"
}

type GadgetStatus struct {
	Size       int                `json:"size,omitempty"`
	Peers      int                `json:"peers,omitempty"` // gadgets of the same color
	By         string             `json:"by,omitempty"`    // the manager that wrote this
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

type GadgetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Gadget `json:"items"`
}

var gadgetVersion = schema.GroupVersion{Group: "e2e.example.com", Version: "v1"}

func addGadgets(to *runtime.Scheme) error {
	builder := scheme.Builder{GroupVersion: gadgetVersion}
	builder.Register(&Gadget{}, &GadgetList{})
	return builder.AddToScheme(to)
}

func (g *Gadget) DeepCopy() *Gadget {
	c := *g
	g.ObjectMeta.DeepCopyInto(&c.ObjectMeta)
	c.Status.Conditions = slices.Clone(g.Status.Conditions)
	return &c
}

func (g *Gadget) DeepCopyObject() runtime.Object { return g.DeepCopy() }

func (l *GadgetList) DeepCopyObject() runtime.Object {
	c := *l
	l.ListMeta.DeepCopyInto(&c.ListMeta)
	c.Items = make([]Gadget, len(l.Items))
	for i := range l.Items {
		c.Items[i] = *l.Items[i].DeepCopy()
	}
	return &c
}

func newGadget(name string, spec GadgetSpec, labels map[string]string) *Gadget {
	return &Gadget{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: maps.Clone(labels)}, Spec: spec}
}
