package merge

import "testing"

func TestRig(t *testing.T) {
	t.Parallel()
	r := NewRig(t)
	r.Fill(3, 2, 1)
	list := r.All.List(t, ConfigMaps.Path())
	if err := ModelOf(list.Items).Equal(Union(r.Maps()...)); err != nil {
		t.Fatal(err)
	}
}
